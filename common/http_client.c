/* SPDX-License-Identifier: MIT */
/*
 * One easy handle in one multi handle: with the multi interface a signal or another thread can end
 * a wait at once (curl_multi_wakeup, and stop_descriptor() among the polled descriptors). The
 * connection lives in the multi handle and is reused by the next call.
 */
#include "common/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/text.h"

#define URL_BYTES_LIMIT (64 << 10)
#define CONNECT_TIMEOUT_MS 10000L
#define LATE_ROUNDS 3
#define BUSY_BYTES_LIMIT ((size_t)4 << 10)
#define UNACKNOWLEDGED_TIMEOUT_MS 30000
#define DNS_CACHE_SECONDS 5L
#define POLL_LIMIT_MS 1000
#define FIRST_PAUSE_MS 50
#define LONGEST_PAUSE_MS 2000
#define RETRY_AFTER_LIMIT_S 3600

struct http_client {
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;      /* owned; NULL: there is no token */
    struct curl_slist *post_headers; /* owned: those, and the kind of body */
    char *base_url;                  /* owned; no trailing '/' */
    struct buffer url;               /* of the call in progress */
    struct http_response *response;  /* of the call in progress; borrowed */
    bool (*is_answer)(const struct http_response *response); /* NULL: none that says "later" is */
    struct buffer busy_body;   /* of the last answer that said "later" */
    enum error callback_error; /* why a callback ended the transfer */
    char reason[CURL_ERROR_SIZE];
    bool is_full;  /* the process has no descriptor for a socket */
    bool has_head; /* the headers of the latest response are complete */
    bool has_met;  /* the server has answered before */
    int sent;      /* requests of the call in progress, with those that libcurl repeats itself */
    uint64_t random;
    _Atomic bool cancelled;
    bool once;  /* a call is one try */
    bool muted; /* its caller logs what fails */
    int64_t grace_ms;
};

/* One call: one or several tries. */
struct call {
    int64_t started_ns;
    int64_t deadline_ns;
    bool retry_busy;
    unsigned tries;
    int answered; /* tries, but for those that a gateway answered */
    bool warned;
    CURLcode met; /* what ended the last whole try that had no answer */
    char met_reason[CURL_ERROR_SIZE];
    int busy_status; /* of the last whole try, when its answer said "later"; else 0 */
};

static pthread_once_t global_once = PTHREAD_ONCE_INIT;
static CURLcode global_result;

static void init_global(void)
{
    global_result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- callbacks of libcurl, on the caller's thread ----------------------- */

/* Exceeding the limit is the peer's fault; lack of memory is not. */
static enum error take(struct buffer *buffer, const char *data, size_t length)
{
    enum error error = buffer_add(buffer, data, length);
    return error && !buffer_fits(buffer, length) ? ERROR_NETWORK : error;
}

static size_t on_body(char *data, size_t size, size_t count, void *context)
{
    struct http_client *client = context;
    client->callback_error = take(&client->response->body, data, size * count);
    return client->callback_error ? 0 : size * count;
}

static size_t on_header(char *data, size_t size, size_t count, void *context)
{
    struct http_client *client = context;
    size_t length = size * count;
    if (length >= 5 && memcmp(data, "HTTP/", 5) == 0) {
        buffer_clear(&client->response->headers); /* those before belong to a 100 Continue */
        client->has_head = false;
    } else if (length > 2) {
        client->callback_error = take(&client->response->headers, data, length);
    } else {
        client->has_head = true;
    }
    return client->callback_error ? 0 : length;
}

#if LIBCURL_VERSION_NUM >= 0x075000
/* libcurl sends a request again, without a word, if a connection that it kept ends first. */
static int on_request(void *context, char *theirs, char *ours, int their_port, int our_port)
{
    struct http_client *client = context;
    (void)theirs, (void)ours, (void)their_port, (void)our_port;
    client->sent++;
    return CURL_PREREQFUNC_OK;
}
#endif

/* libcurl would take a process without free descriptors for a server that is not there. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct http_client *client = context;
    unsigned limit_ms = UNACKNOWLEDGED_TIMEOUT_MS; /* a peer that vanished without a word */
    int opened = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    (void)purpose;
    client->is_full = opened < 0 && (errno == EMFILE || errno == ENFILE);
    setsockopt(opened, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
    return opened;
}

/* Where its socket was opened: ThreadSanitizer follows descriptors, but not through libcurl. */
static int close_socket(void *context, curl_socket_t opened)
{
    (void)context;
    return close(opened);
}

/* ---- opening ------------------------------------------------------------ */

static enum error check_url(const char *url)
{
    CURLU *parts = curl_url();
    char *scheme = NULL;
    char *query = NULL;
    char shown[TEXT_QUOTE_BYTES];
    enum error error = OK;
    if (!parts)
        return error_set_memory(strlen(url), "a URL");
    CURLUcode code = curl_url_set(parts, CURLUPART_URL, url, 0);
    if (!code)
        code = curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0);
    if (!code)
        code = curl_url_get(parts, CURLUPART_QUERY, &query, 0);
    bool is_http = scheme && (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    if (code == CURLUE_OUT_OF_MEMORY)
        error = error_set_memory(strlen(url), "a URL");
    else if (code != CURLUE_NO_QUERY || !is_http)
        error = error_set(ERROR_USAGE, "%s is not the URL of a server, such as http://HOST:PORT",
                          text_quote(shown, sizeof(shown), url, strlen(url)));
    curl_free(scheme);
    curl_free(query);
    curl_url_cleanup(parts);
    return error;
}

static enum error add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (!longer)
        return error_set_memory(strlen(line), "an HTTP header");
    *list = longer;
    return OK;
}

/* The first that is not NULL; NULL if that is "". */
static const char *choose(const char *given, const char *variable)
{
    const char *text = given ? given : getenv(variable);
    return text && text[0] ? text : NULL;
}

static enum error add_headers(struct http_client *client, const char *token)
{
    struct buffer line = BUFFER_INIT(16 << 10);
    enum error error = add_header(&client->post_headers, "Content-Type: application/json");
    if (error || !token)
        return error;
    if (strpbrk(token, "\r\n"))
        return error_set(ERROR_USAGE, "the token (TOMBOLA_TOKEN) holds a line end");
    error = buffer_print(&line, "Authorization: Bearer %s", token);
    if (!error)
        error = add_header(&client->headers, line.data);
    if (!error)
        error = add_header(&client->post_headers, line.data);
    if (!error && curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, client->headers) != CURLE_OK)
        error = error_set_memory(line.length, "an HTTP header");
    buffer_release(&line);
    return error;
}

static bool set_options(struct http_client *client, const char *authority)
{
    CURL *easy = client->easy;
#if LIBCURL_VERSION_NUM >= 0x075500
    CURLcode code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    CURLcode code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
    /* HTTP/2, which a gateway may offer, has other errors when a server is lost in mid-answer. */
    code |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    code |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    code |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    code |= curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    code |= curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    code |= curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 15L);
    code |= curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
    code |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    code |= curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, DNS_CACHE_SECONDS);
    code |= curl_easy_setopt(easy, CURLOPT_USERAGENT, "tombola");
    code |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->reason);
    code |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    code |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, client);
    code |= curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    code |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    code |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, client);
    code |= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    code |= curl_easy_setopt(easy, CURLOPT_HEADERDATA, client);
#if LIBCURL_VERSION_NUM >= 0x075000
    code |= curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_request);
    code |= curl_easy_setopt(easy, CURLOPT_PREREQDATA, client);
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    code |= curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* a name server may be deaf */
#endif
    if (authority) {
        code |= curl_easy_setopt(easy, CURLOPT_CAINFO, authority);
        (void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* instead of the system's */
#if LIBCURL_VERSION_NUM >= 0x075700
        (void)curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L); /* a new file counts */
#endif
    }
    return code == CURLE_OK;
}

static enum error client_init(struct http_client *client, const char *base_url,
                              const struct http_credentials *credentials)
{
    pthread_once(&global_once, init_global);
    if (global_result)
        return error_set(ERROR_UNAVAILABLE, "libcurl does not start: %s",
                         curl_easy_strerror(global_result));
    enum error error = check_url(base_url);
    if (error)
        return error;
    size_t length = strlen(base_url);
    length -= base_url[length - 1] == '/';
    client->base_url = strndup(base_url, length);
    client->multi = curl_multi_init();
    client->easy = curl_easy_init();
    if (!client->base_url || !client->multi || !client->easy ||
        !set_options(client, choose(credentials->authority, "TOMBOLA_CA")))
        return error_set_memory(length, "an HTTP client");
    return add_headers(client, choose(credentials->token, "TOMBOLA_TOKEN"));
}

enum error http_client_open(const char *base_url, const struct http_credentials *credentials,
                            struct http_client **ret_client)
{
    static const struct http_credentials of_environment = {NULL, NULL};
    struct http_client *client = array_new(1, sizeof(*client), "an HTTP client");
    if (!client)
        return ERROR_MEMORY;
    client->url = (struct buffer)BUFFER_INIT(URL_BYTES_LIMIT);
    client->busy_body = (struct buffer)BUFFER_INIT(BUSY_BYTES_LIMIT);
    client->random = (uint64_t)clock_now_ns() ^ (uintptr_t)client;
    enum error error = client_init(client, base_url, credentials ? credentials : &of_environment);
    if (error) {
        http_client_close(client);
        return error;
    }
    *ret_client = client;
    return OK;
}

void http_client_close(struct http_client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->easy);
    curl_multi_cleanup(client->multi);
    curl_slist_free_all(client->headers);
    curl_slist_free_all(client->post_headers);
    buffer_release(&client->url);
    buffer_release(&client->busy_body);
    free(client->base_url);
    free(client);
}

/* ---- one try ------------------------------------------------------------ */

static bool is_cancelled(const struct http_client *client)
{
    return atomic_load(&client->cancelled) || stop_requested();
}

/* Waits for an event on the connection, a cancel, a stop, or `until_ns`. */
static void wait_for_events(struct http_client *client, int64_t until_ns)
{
    struct curl_waitfd stop = {.fd = stop_descriptor(), .events = CURL_WAIT_POLLIN};
    int64_t left_ms = clock_left_ms(until_ns);
    curl_multi_poll(client->multi, &stop, stop.fd >= 0 && !is_cancelled(client),
                    (int)(left_ms < POLL_LIMIT_MS ? left_ms : POLL_LIMIT_MS), NULL);
}

/* What has arrived by the deadline still counts: a refusal must not be reported as silence just
 * because this process had no processor. */
static enum error drive(struct http_client *client, int64_t deadline_ns, CURLcode *ret_code)
{
    int64_t grace_ns = INT64_MAX;
    for (int late_rounds = 0;;) {
        int running = 0;
        int left;
        CURLMcode code = curl_multi_perform(client->multi, &running);
        if (code)
            return error_set(ERROR_NETWORK, "%s: %s", client->url.data, curl_multi_strerror(code));
        CURLMsg *message = curl_multi_info_read(client->multi, &left);
        if (message) {
            *ret_code = message->data.result;
            return OK;
        }
        if (is_cancelled(client) && grace_ns == INT64_MAX)
            grace_ns = clock_deadline_ns(client->grace_ms);
        if (clock_left_ms(grace_ns) == 0)
            return ERROR_CANCELLED;
        if (clock_left_ms(deadline_ns) == 0 && late_rounds++ == LATE_ROUNDS) {
            *ret_code = CURLE_OPERATION_TIMEDOUT;
            return OK;
        }
        wait_for_events(client, deadline_ns < grace_ns ? deadline_ns : grace_ns);
    }
}

/* libcurl takes a connection that ends within the headers for the end of the response. */
static void refuse_half_head(struct http_client *client, long status, CURLcode *code)
{
    if (*code != CURLE_OK || (client->has_head && status >= 200))
        return;
    *code = CURLE_RECV_ERROR;
    snprintf(client->reason, sizeof(client->reason), "the connection ended within the headers");
}

static enum error try_once(struct http_client *client, const struct call *call, CURLcode *ret_code)
{
    long status = 0;
    long connections = 0;
    client->callback_error = OK;
    client->reason[0] = '\0';
    client->is_full = client->has_head = false;
    buffer_clear(&client->response->body);
    buffer_clear(&client->response->headers);
    CURLMcode added = curl_multi_add_handle(client->multi, client->easy);
    if (added)
        return error_set(ERROR_NETWORK, "%s: %s", client->url.data, curl_multi_strerror(added));
    enum error error = drive(client, call->deadline_ns, ret_code);
    curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(client->easy, CURLINFO_NUM_CONNECTS, &connections);
    curl_multi_remove_handle(client->multi, client->easy);
    if (!error)
        refuse_half_head(client, status, ret_code);
    client->has_met |= !error && *ret_code == CURLE_OK;
    client->response->status = (int)status;
    client->response->reconnected |= connections > 0;
    return error;
}

/* ---- a call: tries until the deadline ----------------------------------- */

static bool is_passing(const struct http_client *client, CURLcode code)
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return client->has_met; /* certificate and authorities are not replaced at once */
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SSL_CONNECT_ERROR:
        return true;
    default:
        return false;
    }
}

bool http_status_is_passing(int status)
{
    return status == 408 || status == 429 || (status >= 502 && status <= 504) || status == 507;
}

/* Then its server may have worked in vain. */
static bool is_behind_gateway(int status)
{
    return status == 502 || status == 504;
}

static bool is_busy(const struct http_client *client, const struct call *call)
{
    int status = client->response->status;
    return http_status_is_passing(status) && (status == 429 || call->retry_busy) &&
           !(client->is_answer && client->is_answer(client->response));
}

static const char *reason_of(const struct http_client *client, CURLcode code)
{
    if (client->is_full)
        return "cannot open a socket: too many open files (ulimit -n)";
    if (code == CURLE_OUT_OF_MEMORY) /* so it says of a line that is longer than it takes */
        return "out of memory, or a header of more than 100 kB";
    return client->reason[0] ? client->reason : curl_easy_strerror(code);
}

/* Advice for a failure that TLS may explain. */
static const char *advice_for(const struct http_client *client, CURLcode code)
{
    bool is_cut = code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING;
    if (is_cut && !client->has_met && strncmp(client->base_url, "http://", 7) == 0)
        return "; if the server uses TLS, use https://";
    if (code == CURLE_SSL_CONNECT_ERROR)
        return "; if the server does not use TLS, use http://";
    if (code == CURLE_SSL_CACERT_BADFILE)
        return "; TOMBOLA_CA must name a PEM file of certificate authorities";
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        return "; the server's certificate must be valid, name the host of the URL, and be signed "
               "by an authority in TOMBOLA_CA (a PEM file; without it, by one of the system's)";
    return "";
}

static int64_t pause_ms(struct http_client *client, const struct call *call)
{
    char text[32];
    int64_t seconds;
    if (http_response_header(client->response, "Retry-After", text, sizeof(text)) &&
        text_parse_integer(text, strlen(text), 0, RETRY_AFTER_LIMIT_S, &seconds) && seconds > 0)
        return seconds * 1000;
    int64_t pause = FIRST_PAUSE_MS;
    for (unsigned i = 1; i < call->tries && pause < LONGEST_PAUSE_MS; i++)
        pause *= 2;
    client->random ^= client->random << 13; /* xorshift64: only to spread the clients */
    client->random ^= client->random >> 7;
    client->random ^= client->random << 17;
    return pause / 2 + (int64_t)(client->random % (uint64_t)(pause / 2 + 1));
}

/* false: the deadline comes first, or the call was cancelled. */
static bool pause_before_next(struct http_client *client, const struct call *call)
{
    int64_t until_ns = clock_deadline_ns(pause_ms(client, call));
    if (until_ns > call->deadline_ns)
        until_ns = call->deadline_ns;
    while (!is_cancelled(client) && clock_left_ms(until_ns) > 0)
        wait_for_events(client, until_ns);
    return !is_cancelled(client) && clock_left_ms(call->deadline_ns) > 0;
}

/* `code` CURLE_OK: there was a response, with a retryable status. */
static void warn_once(struct http_client *client, struct call *call, CURLcode code)
{
    char how_long[32] = "";
    if (call->deadline_ns < INT64_MAX)
        snprintf(how_long, sizeof(how_long), " for %" PRId64 " s",
                 (clock_left_ms(call->deadline_ns) + 999) / 1000);
    if (!call->warned && code)
        log_warning("%s: %s%s; trying again%s", client->url.data, reason_of(client, code),
                    advice_for(client, code), how_long);
    else if (!call->warned)
        log_warning("%s: the server %s (it answered %d); trying again%s", client->url.data,
                    client->response->status == 507 ? "has a full disk" : "is busy or away",
                    client->response->status, how_long);
    call->warned = true;
}

static enum error give_up(const struct http_client *client, const struct call *call, CURLcode code)
{
    double seconds = (double)(clock_now_ns() - call->started_ns) * 1e-9;
    return error_set(code == CURLE_OPERATION_TIMEDOUT ? ERROR_TIMEOUT : ERROR_NETWORK,
                     "%s: no answer in %.1f s (%u %s): %s%s", client->url.data, seconds,
                     call->tries, call->tries == 1 ? "try" : "tries", reason_of(client, code),
                     advice_for(client, code));
}

/* Records a complete failed try, in case the deadline cuts the next one short. */
static void note_try(struct http_client *client, struct call *call, CURLcode code)
{
    const struct buffer *body = &client->response->body;
    call->met = code;
    call->busy_status = code ? 0 : client->response->status;
    snprintf(call->met_reason, sizeof(call->met_reason), "%s", code ? reason_of(client, code) : "");
    buffer_clear(&client->busy_body);
    if (call->busy_status && buffer_add(&client->busy_body, body->data, body->length))
        buffer_clear(&client->busy_body); /* its words are lost, its status is not */
}

/* The deadline cut a try short: reports the complete one before it. */
static enum error end_cut_short(struct http_client *client, struct call *call)
{
    if (call->busy_status) {
        const struct buffer *body = &client->busy_body;
        client->response->status = call->busy_status;
        buffer_clear(&client->response->body);
        return buffer_add(&client->response->body, body->data, body->length);
    }
    if (!call->met)
        return give_up(client, call, CURLE_OPERATION_TIMEDOUT);
    memcpy(client->reason, call->met_reason, sizeof(client->reason));
    return give_up(client, call, call->met);
}

static enum error say_cancelled(const struct http_client *client)
{
    return error_set(ERROR_CANCELLED, "%s: stopped before the answer came", client->url.data);
}

static enum error run_call(struct http_client *client, struct call *call)
{
    for (;;) {
        CURLcode code = CURLE_OK;
        call->tries++;
        enum error error = try_once(client, call, &code);
        if (error == ERROR_CANCELLED)
            return say_cancelled(client);
        if (error)
            return error;
        if (client->callback_error)
            return error_prefix(client->callback_error,
                                "%s: the answer is refused: ", client->url.data);
        call->answered += code == CURLE_OK && !is_behind_gateway(client->response->status);
        if (code == CURLE_OK && !is_busy(client, call)) {
            if (call->warned)
                log_info("%s: answered after %u tries", client->base_url, call->tries);
            client->response->repeated = call->tries > 1;
            if (client->sent > call->answered)
                client->response->unanswered = client->sent - call->answered;
            return OK;
        }
        if (code != CURLE_OK && !is_passing(client, code))
            return error_set(ERROR_NETWORK, "%s: %s%s", client->url.data, reason_of(client, code),
                             advice_for(client, code));
        if (code != CURLE_OK) {
            buffer_clear(&client->response->headers); /* no Retry-After of half an answer */
            if (clock_left_ms(call->deadline_ns) == 0)
                return code == CURLE_OPERATION_TIMEDOUT ? end_cut_short(client, call)
                                                        : give_up(client, call, code);
        }
        if (client->once)
            return code ? give_up(client, call, code) : OK;
        note_try(client, call, code);
        if (!client->muted)
            warn_once(client, call, code);
        if (pause_before_next(client, call))
            continue;
        if (is_cancelled(client))
            return say_cancelled(client);
        return code ? give_up(client, call, code) : OK;
    }
}

static enum error prepare(struct http_client *client, const char *target)
{
    buffer_clear(&client->url);
    enum error error = buffer_add_text(&client->url, client->base_url);
    if (!error)
        error = buffer_add_text(&client->url, target);
    if (error)
        return error_prefix(error, "a URL: ");
    CURLcode code = curl_easy_setopt(client->easy, CURLOPT_URL, client->url.data);
    return code == CURLE_OK ? OK : error_set_memory(client->url.length, "an HTTP request");
}

static enum error call_server(struct http_client *client, int64_t patience_ms, bool retry_busy,
                              struct http_response *response)
{
    if (is_cancelled(client))
        return say_cancelled(client);
    struct call call = {.started_ns = clock_now_ns(),
                        .deadline_ns = clock_deadline_ns(patience_ms),
                        .retry_busy = retry_busy};
    client->response = response;
    response->reconnected = response->repeated = false;
    response->unanswered = client->sent = 0;
    enum error error = run_call(client, &call);
    client->response = NULL;
    return error;
}

enum error http_client_get(struct http_client *client, const char *target, int64_t patience_ms,
                           bool retry_busy, struct http_response *response)
{
    enum error error = prepare(client, target);
    return error ? error : call_server(client, patience_ms, retry_busy, response);
}

enum error http_client_post(struct http_client *client, const char *target,
                            const struct buffer *body, int64_t patience_ms, bool retry_busy,
                            struct http_response *response)
{
    enum error error = prepare(client, target);
    if (error)
        return error;
    CURLcode code = curl_easy_setopt(client->easy, CURLOPT_POSTFIELDS, body->data);
    code |= curl_easy_setopt(client->easy, CURLOPT_POSTFIELDSIZE, (long)body->length);
    code |= curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, client->post_headers);
    if (code == CURLE_OK)
        error = call_server(client, patience_ms, retry_busy, response);
    else
        error = error_set_memory(body->length, "an HTTP request");
    (void)curl_easy_setopt(client->easy, CURLOPT_HTTPGET, 1L);
    (void)curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, client->headers);
    return error;
}

void http_client_try_once(struct http_client *client)
{
    client->once = true;
}

void http_client_mute(struct http_client *client)
{
    client->muted = true;
}

void http_client_judge(struct http_client *client,
                       bool (*is_answer)(const struct http_response *response))
{
    client->is_answer = is_answer;
}

void http_client_set_grace(struct http_client *client, int64_t grace_ms)
{
    client->grace_ms = grace_ms;
}

void http_client_cancel(struct http_client *client)
{
    atomic_store(&client->cancelled, true);
    curl_multi_wakeup(client->multi);
}
