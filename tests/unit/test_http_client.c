/* SPDX-License-Identifier: MIT */
/*
 * Covers common/http_client: A server of a few lines on loopback, a thread, scripted: each
 * connection is answered in turn.
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <curl/curlver.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/http_client.h"
#include "common/log.h"

#define ANSWERS_LIMIT 16
#define REQUEST_BYTES 8192
#define PATIENCE_MS 20000

/* Closes the connection instead of answering. */
#define HANG_UP ""
/* Reads the request and says nothing. */
#define SILENCE "silence"

struct server {
    int listener;
    uint16_t port;
    pthread_t thread;
    const char *answers[ANSWERS_LIMIT]; /* one a request, in turn; the last one again and again */
    size_t answer_count;
    _Atomic int requests;
    _Atomic int connections;
    _Atomic int ending;
    struct http_client *cancels;      /* before it answers; NULL: nobody */
    pthread_mutex_t lock;             /* of last_request, which is whole before it is answered */
    char last_request[REQUEST_BYTES]; /* see request_of() */
};

static size_t wanted_length(const char *request)
{
    const char *end = strstr(request, "\r\n\r\n");
    const char *length = strstr(request, "Content-Length: ");
    if (!end)
        return SIZE_MAX;
    size_t head = (size_t)(end + 4 - request);
    return head + (length && length < end ? (size_t)atol(length + 16) : 0);
}

/* false: the peer is gone or the test is over. */
static int read_request(struct server *server, int connection)
{
    char request[REQUEST_BYTES] = "";
    size_t length = 0;
    while (!atomic_load(&server->ending)) {
        struct pollfd event = {.fd = connection, .events = POLLIN};
        if (poll(&event, 1, 20) <= 0)
            continue;
        ssize_t got = recv(connection, request + length, sizeof(request) - 1 - length, 0);
        if (got <= 0)
            return 0;
        length += (size_t)got;
        request[length] = '\0';
        if (length >= wanted_length(request)) {
            pthread_mutex_lock(&server->lock);
            memcpy(server->last_request, request, sizeof(request));
            pthread_mutex_unlock(&server->lock);
            return 1;
        }
    }
    return 0;
}

static bool cancel_first(struct server *server)
{
    pthread_mutex_lock(&server->lock);
    bool cancels = server->cancels != NULL;
    if (cancels)
        http_client_cancel(server->cancels);
    pthread_mutex_unlock(&server->lock);
    return cancels;
}

static void serve_connection(struct server *server, int connection)
{
    while (read_request(server, connection)) {
        size_t at = (size_t)atomic_fetch_add(&server->requests, 1);
        const char *answer =
            server->answers[at < server->answer_count ? at : server->answer_count - 1];
        if (strcmp(answer, SILENCE) == 0)
            continue;
        if (cancel_first(server))
            clock_sleep_ms(200);
        if (!answer[0] || send(connection, answer, strlen(answer), MSG_NOSIGNAL) < 0 ||
            strstr(answer, "Connection: close"))
            return;
    }
}

static void *serve(void *context)
{
    struct server *server = context;
    while (!atomic_load(&server->ending)) {
        struct pollfd event = {.fd = server->listener, .events = POLLIN};
        if (poll(&event, 1, 20) <= 0)
            continue;
        int connection = accept(server->listener, NULL, NULL);
        if (connection < 0)
            continue;
        atomic_fetch_add(&server->connections, 1);
        serve_connection(server, connection);
        close(connection);
    }
    return NULL;
}

static void bind_loopback(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    server->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &length), 0);
    server->port = ntohs(address.sin_port);
}

static void start_server(struct server *server, struct http_client **ret_client)
{
    char url[64];
    pthread_mutex_init(&server->lock, NULL);
    bind_loopback(server);
    assert_int_equal(listen(server->listener, 8), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/", server->port);
    assert_ok(http_client_open(url, NULL, ret_client));
    log_set_level(LOG_ERROR);
}

static const char *request_of(struct server *server)
{
    static char copy[REQUEST_BYTES];
    pthread_mutex_lock(&server->lock);
    memcpy(copy, server->last_request, sizeof(copy));
    pthread_mutex_unlock(&server->lock);
    return copy;
}

static void stop_server(struct server *server, struct http_client *client)
{
    http_client_close(client);
    atomic_store(&server->ending, 1);
    pthread_join(server->thread, NULL);
    close(server->listener);
}

#define GOOD "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Kind:  a b \t\r\nEmpty:\r\n\r\nhello"
#define BUSY "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy"

static void test_answers_and_headers_come_back(void **state)
{
    (void)state;
    struct server server = {.answers = {GOOD}, .answer_count = 1};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    char value[16];
    start_server(&server, &client);
    assert_ok(http_client_get(client, "/batch?size=1", PATIENCE_MS, false, &response));
    assert_int_equal(response.status, 200);
    assert_string_equal(response.body.data, "hello");
    assert_true(http_response_header(&response, "x-kind", value, sizeof(value)));
    assert_string_equal(value, "a b");
    assert_true(http_response_header(&response, "Empty", value, sizeof(value)));
    assert_string_equal(value, "");
    assert_false(http_response_header(&response, "X-Kin", value, sizeof(value)));
    assert_false(http_response_header(&response, "Content-Length", value, 1));
    assert_int_equal(strncmp(request_of(&server), "GET /batch?size=1 HTTP/1.1\r\n", 28), 0);
    http_response_release(&response);
    stop_server(&server, client);
}

static void test_one_connection_for_many_requests(void **state)
{
    (void)state;
    struct server server = {.answers = {GOOD}, .answer_count = 1};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    start_server(&server, &client);
    const char *data = NULL;
    for (int i = 0; i < 200; i++) {
        assert_ok(http_client_get(client, "/", PATIENCE_MS, false, &response));
        assert_string_equal(response.body.data, "hello");
        assert_true(!data || data == response.body.data); /* the memory is used again */
        data = response.body.data;
    }
    assert_int_equal(server.connections, 1);
    assert_int_equal(server.requests, 200);
    http_response_release(&response);
    stop_server(&server, client);
}

static void test_statuses_are_the_callers(void **state)
{
    (void)state;
    struct server server = {
        .answers =
            {"HTTP/1.1 404 Not Found\r\nContent-Type: application/problem+json\r\n"
             "Content-Length: 41\r\n\r\n{\"title\":\"t\",\"detail\":\"no\\nsuch stream\"}\r\n",
             "HTTP/1.1 204 No Content\r\n\r\n", BUSY,
             "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"},
        .answer_count = 4};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    char problem[64];
    start_server(&server, &client);
    assert_ok(http_client_get(client, "/x", PATIENCE_MS, true, &response));
    assert_int_equal(response.status, 404);
    http_response_problem(&response, problem, sizeof(problem));
    assert_string_equal(problem, "no?such stream");
    assert_ok(http_client_get(client, "/x", PATIENCE_MS, true, &response));
    assert_int_equal(response.status, 204);
    assert_int_equal(response.body.length, 0);
    assert_ok(http_client_get(client, "/x", PATIENCE_MS, false, &response));
    assert_int_equal(response.status, 503);
    http_response_problem(&response, problem, sizeof(problem));
    assert_string_equal(problem, "busy");
    assert_ok(http_client_get(client, "/x", PATIENCE_MS, false, &response));
    assert_int_equal(response.status, 302);
    assert_int_equal(server.requests, 4);
    http_response_release(&response);
    stop_server(&server, client);
}

/* Messages stay UTF-8, and are cut between characters. */
static void test_reasons_that_are_no_text(void **state)
{
    (void)state;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    char problem[8];
    assert_ok(buffer_add(&response.body, "a\0\xe4z", 4));
    http_response_problem(&response, problem, sizeof(problem));
    assert_string_equal(problem, "a??z");
    buffer_clear(&response.body);
    assert_ok(buffer_add_text(&response.body, "gr\xc3\xbc\xc3\x9f"
                                              "e\xc3\xbc!"));
    http_response_problem(&response, problem, sizeof(problem));
    assert_string_equal(problem, "gr\xc3\xbc\xc3\x9f"
                                 "e");
    http_response_release(&response);
}

/* 200 bytes of a text that is no problem; and no byte behind the caller's. */
static void test_reasons_that_are_long(void **state)
{
    (void)state;
    struct http_response response = HTTP_RESPONSE_INIT(1000);
    char problem[400];
    for (int i = 0; i < 30; i++)
        assert_ok(buffer_add_text(&response.body, "0123456789"));
    for (size_t bytes = 198; bytes < 204; bytes++) {
        memset(problem, '!', sizeof(problem));
        http_response_problem(&response, problem, bytes);
        assert_int_equal(strlen(problem), bytes < 201 ? bytes - 1 : 200);
        assert_int_equal(problem[bytes], '!');
    }
    http_response_release(&response);
}

static void test_passing_trouble_is_tried_again(void **state)
{
    (void)state;
    struct server server = {
        .answers = {HANG_UP, "HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n", BUSY,
                    "HTTP/1.1 200 OK\r\nContent-Length: 50\r\nConnection: close\r\n\r\nhalf", GOOD},
        .answer_count = 5};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    start_server(&server, &client);
    assert_ok(http_client_get(client, "/", PATIENCE_MS, true, &response));
    assert_int_equal(response.status, 200);
    assert_string_equal(response.body.data, "hello");
    assert_int_equal(server.requests, 5);
    http_response_release(&response);
    stop_server(&server, client);
}

/* What the first try meets is the result: an answer that says "later", or none. */
static void test_a_client_of_one_try_does_not_try_again(void **state)
{
    (void)state;
    struct server server = {
        .answers = {HANG_UP, "HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n", BUSY, GOOD},
        .answer_count = 4};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    start_server(&server, &client);
    http_client_try_once(client);
    assert_fails(http_client_get(client, "/", PATIENCE_MS, true, &response), ERROR_NETWORK,
                 "(1 try)");
    assert_ok(http_client_get(client, "/", PATIENCE_MS, true, &response));
    assert_int_equal(response.status, 429);
    assert_ok(http_client_get(client, "/", PATIENCE_MS, true, &response));
    assert_int_equal(response.status, 503);
    assert_ok(http_client_get(client, "/", PATIENCE_MS, true, &response));
    assert_int_equal(response.status, 200);
    http_response_release(&response);
    stop_server(&server, client);
}

/* The connection ended before the response began or while its headers came: libcurl calls that a
 * response, with no body and some of its headers. */
static void test_a_response_that_ends_in_its_headers_is_none(void **state)
{
    (void)state;
    struct server server = {.answers = {"HTTP/1.1 200 OK\r\nConnection: close\r\n",
                                        "HTTP/1.1 204 No Content\r\nConnection: close\r\nX-Kind: a",
                                        "HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\n", GOOD,
                                        "HTTP/1.1 404 Not Found\r\nConnection: close\r\n"},
                            .answer_count = 5};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    start_server(&server, &client);
    assert_ok(http_client_get(client, "/", PATIENCE_MS, true, &response));
    assert_int_equal(response.status, 200);
    assert_string_equal(response.body.data, "hello");
    assert_int_equal(server.requests, 4);
    http_client_try_once(client);
    assert_fails(http_client_get(client, "/", PATIENCE_MS, true, &response), ERROR_NETWORK,
                 "ended within the headers");
    http_response_release(&response);
    stop_server(&server, client);
}

#define ANSWER(status) "HTTP/1.1 " status " No\r\nContent-Length: 4\r\n\r\nlate"

static void test_gateways_without_their_server_are_tried_again(void **state)
{
    (void)state;
    struct server server = {.answers = {GOOD, ANSWER("502"), ANSWER("504"), ANSWER("408"), GOOD,
                                        ANSWER("502"), ANSWER("500")},
                            .answer_count = 7};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    start_server(&server, &client);
    assert_ok(http_client_get(client, "/", PATIENCE_MS, true, &response));
    assert_ok(http_client_get(client, "/", PATIENCE_MS, true, &response));
    assert_int_equal(response.status, 200);
    assert_int_equal(server.requests, 5);
    assert_true(response.repeated); /* the server behind the gateway may be another */
#if LIBCURL_VERSION_NUM >= 0x075000
    assert_int_equal(response.unanswered, 2); /* which may have served them, but for the 408 */
#endif
    assert_ok(http_client_get(client, "/", PATIENCE_MS, false, &response));
    assert_int_equal(response.status, 502);
    assert_ok(http_client_get(client, "/", PATIENCE_MS, true, &response));
    assert_int_equal(response.status, 500);
    http_response_release(&response);
    stop_server(&server, client);
}

/* It may be freed at any moment, as a server that is busy becomes idle. */
static void test_a_server_whose_disk_is_full_is_tried_again(void **state)
{
    (void)state;
    struct server server = {.answers = {ANSWER("507"), GOOD, ANSWER("507")}, .answer_count = 3};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    start_server(&server, &client);
    assert_ok(http_client_get(client, "/", PATIENCE_MS, true, &response));
    assert_int_equal(response.status, 200);
    assert_int_equal(server.requests, 2);
    assert_ok(http_client_get(client, "/", PATIENCE_MS, false, &response));
    assert_int_equal(response.status, 507);
    http_response_release(&response);
    stop_server(&server, client);
}

static void test_busy_is_the_answer_when_patience_ends(void **state)
{
    (void)state;
    struct server server = {.answers = {BUSY}, .answer_count = 1};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    start_server(&server, &client);
    enum error error = ERROR_TIMEOUT; /* a busy machine's first try may take all of it */
    for (int64_t patience_ms = 500; (error || server.requests < 2) && patience_ms < 100000;
         patience_ms *= 4) {
        server.requests = 0;
        error = http_client_get(client, "/", patience_ms, true, &response);
    }
    assert_ok(error);
    assert_int_equal(response.status, 503);
    assert_string_equal(response.body.data, "busy");
    assert_true(server.requests > 1);
    http_response_release(&response);
    stop_server(&server, client);
}

static void test_nobody_there_is_told(void **state)
{
    (void)state;
    struct server server = {.answers = {GOOD}};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    char url[64];
    bind_loopback(&server); /* bound, never listening: refused */
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", server.port);
    assert_ok(http_client_open(url, NULL, &client));
    log_set_level(LOG_ERROR);
    for (int64_t patience_ms = 0; patience_ms <= 200; patience_ms += 50) { /* 0: a busy machine's */
        assert_fails(http_client_get(client, "/batch", patience_ms, false, &response),
                     ERROR_NETWORK, url);
        assert_non_null(strstr(error_message(), "no answer in"));
    }
    http_client_close(client);
    http_response_release(&response);
    close(server.listener);
}

/* That the server is not there would be untrue. */
static void test_a_process_without_descriptors_is_told_so(void **state)
{
    (void)state;
    struct server server = {.answers = {GOOD}};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    struct rlimit before, none;
    char url[64];
    bind_loopback(&server);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", server.port);
    assert_ok(http_client_open(url, NULL, &client));
    log_set_level(LOG_ERROR);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum error error = http_client_get(client, "/batch", 100, false, &response);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_fails(error, ERROR_NETWORK, "cannot open a socket: too many open files");
    http_client_close(client);
    http_response_release(&response);
    close(server.listener);
}

static void test_silence_times_out(void **state)
{
    (void)state;
    struct server server = {.answers = {SILENCE}, .answer_count = 1};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    start_server(&server, &client);
    assert_fails(http_client_get(client, "/", 200, false, &response), ERROR_TIMEOUT, "(1 try)");
    http_response_release(&response);
    stop_server(&server, client);
}

static void *cancel_soon(void *client)
{
    clock_sleep_ms(50);
    http_client_cancel(client);
    return NULL;
}

static void check_cancel(const char *answer)
{
    struct server server = {.answers = {answer}, .answer_count = 1};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    pthread_t thread;
    start_server(&server, &client);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, client), 0);
    assert_fails(http_client_get(client, "/", -1, true, &response), ERROR_CANCELLED, "stopped");
    pthread_join(thread, NULL);
    assert_fails(http_client_get(client, "/", -1, true, &response), ERROR_CANCELLED, "stopped");
    http_response_release(&response);
    stop_server(&server, client);
}

static void test_cancel_ends_every_wait(void **state)
{
    (void)state;
    check_cancel(SILENCE);
    check_cancel("HTTP/1.1 503 No\r\nRetry-After: 3000\r\nContent-Length: 0\r\n\r\n");
}

static void cancel_before_answers(struct server *server, struct http_client *client)
{
    pthread_mutex_lock(&server->lock);
    server->cancels = client;
    pthread_mutex_unlock(&server->lock);
}

static void test_an_answer_under_way_is_heard_in_the_time_of_grace(void **state)
{
    struct server server = {.answers = {GOOD}, .answer_count = 1};
    struct server silent = {.answers = {SILENCE}, .answer_count = 1};
    struct http_response response = HTTP_RESPONSE_INIT(1000);
    struct http_client *client;
    pthread_t thread;
    (void)state;
    start_server(&server, &client);
    http_client_set_grace(client, PATIENCE_MS);
    cancel_before_answers(&server, client);
    assert_int_equal(http_client_get(client, "/", -1, true, &response), OK);
    assert_int_equal(response.status, 200);
    assert_fails(http_client_get(client, "/", -1, true, &response), ERROR_CANCELLED, "stopped");
    assert_int_equal(server.requests, 1);
    http_response_release(&response);
    cancel_before_answers(&server, NULL);
    stop_server(&server, client);

    start_server(&silent, &client);
    http_client_set_grace(client, 5);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, client), 0);
    assert_fails(http_client_get(client, "/", -1, true, &response), ERROR_CANCELLED, "stopped");
    pthread_join(thread, NULL);
    http_response_release(&response);
    stop_server(&silent, client);
}

static void test_large_answers_are_refused(void **state)
{
    (void)state;
    static char many[200000], line[150000]; /* headers; one header */
    struct server server = {.answers = {GOOD, many, line}, .answer_count = 3};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(4);
    strcpy(many, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 1000; i++)
        snprintf(many + strlen(many), 200, "X-%d: %090d\r\n", i, i);
    strcat(many, "Content-Length: 0\r\n\r\n");
    strcpy(line, "HTTP/1.1 200 OK\r\n");
    memset(line + strlen(line), 'X', sizeof(line) - 100);
    start_server(&server, &client);
    assert_fails(http_client_get(client, "/", PATIENCE_MS, false, &response), ERROR_NETWORK,
                 "limit of 4 bytes");
    assert_fails(http_client_get(client, "/", PATIENCE_MS, false, &response), ERROR_NETWORK,
                 "refused");
    assert_fails(http_client_get(client, "/", PATIENCE_MS, false, &response), ERROR_NETWORK,
                 "a header of more than 100 kB");
    http_response_release(&response);
    stop_server(&server, client);
}

static void test_nonsense_is_no_answer(void **state)
{
    (void)state;
    struct server server = {.answers = {"SSH-2.0-OpenSSH\r\nConnection: close\r\n\r\n"},
                            .answer_count = 1};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(1000);
    start_server(&server, &client);
    assert_fails(http_client_get(client, "/", 2000, false, &response), ERROR_NETWORK, "127.0.0.1");
    http_response_release(&response);
    stop_server(&server, client);
}

static void test_the_token_is_sent(void **state)
{
    (void)state;
    struct server server = {.answers = {GOOD}, .answer_count = 1};
    struct http_client *client = NULL;
    struct http_response response = HTTP_RESPONSE_INIT(100);
    setenv("TOMBOLA_TOKEN", "s3cret", 1);
    start_server(&server, &client);
    unsetenv("TOMBOLA_TOKEN");
    assert_ok(http_client_get(client, "/", PATIENCE_MS, false, &response));
    assert_int_equal(strncmp(request_of(&server), "GET / HTTP/1.1\r\n", 16), 0);
    assert_non_null(strstr(request_of(&server), "Authorization: Bearer s3cret\r\n"));
    http_response_release(&response);
    stop_server(&server, client);
}

static void test_bad_urls_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",        "127.0.0.1:8080", "ftp://x",       "file:///etc/passwd",
        "http://", "http://x:99999", "http://x/?a=1", "http://a b"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct http_client *client = NULL;
        assert_fails(http_client_open(bad[i], NULL, &client), ERROR_USAGE, "http://HOST:PORT");
        assert_null(client);
    }
    struct http_client *client = NULL;
    setenv("TOMBOLA_TOKEN", "a\r\nX-Evil: 1", 1);
    assert_fails(http_client_open("http://x", NULL, &client), ERROR_USAGE, "TOMBOLA_TOKEN");
    unsetenv("TOMBOLA_TOKEN");
    http_client_close(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_answers_and_headers_come_back),
    cmocka_unit_test(test_one_connection_for_many_requests),
    cmocka_unit_test(test_statuses_are_the_callers),
    cmocka_unit_test(test_reasons_that_are_no_text),
    cmocka_unit_test(test_reasons_that_are_long),
    cmocka_unit_test(test_passing_trouble_is_tried_again),
    cmocka_unit_test(test_a_client_of_one_try_does_not_try_again),
    cmocka_unit_test(test_a_response_that_ends_in_its_headers_is_none),
    cmocka_unit_test(test_gateways_without_their_server_are_tried_again),
    cmocka_unit_test(test_a_server_whose_disk_is_full_is_tried_again),
    cmocka_unit_test(test_busy_is_the_answer_when_patience_ends),
    cmocka_unit_test(test_nobody_there_is_told),
    cmocka_unit_test(test_a_process_without_descriptors_is_told_so),
    cmocka_unit_test(test_silence_times_out),
    cmocka_unit_test(test_cancel_ends_every_wait),
    cmocka_unit_test(test_an_answer_under_way_is_heard_in_the_time_of_grace),
    cmocka_unit_test(test_large_answers_are_refused),
    cmocka_unit_test(test_nonsense_is_no_answer),
    cmocka_unit_test(test_the_token_is_sent),
    cmocka_unit_test(test_bad_urls_are_refused),
};

UNIT_MAIN(tests)
