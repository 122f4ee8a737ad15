/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/wire/link: a name of several addresses, of which one does not answer; a name
 * server that takes longer than an attempt; a socket that is connected to itself; large frames.
 */
#include "tests/unit/wire_unit.h"

#include <netdb.h>
#include <pthread.h>
#include <sys/ioctl.h>

#include "common/listen_socket.h"
#include "trainer/wire/link.h"

#define LOST "127.0.0.2"
#define FOUND "127.0.0.1"
#define CALLERS 4 /* more than wait where nobody accepts */

static const char *last_address;
static _Atomic bool answers; /* does the name server, for the name "slow"? */
static _Atomic int asked;    /* how often it was */
static int listener, lost_listener, callers[CALLERS];
static uint16_t port;
static bool is_own_port; /* is the caller's the one that it calls? */

int __real_connect(int descriptor, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int descriptor, const struct sockaddr *address, socklen_t length);

int __wrap_connect(int descriptor, const struct sockaddr *address, socklen_t length)
{
    if (is_own_port)
        assert_int_equal(bind(descriptor, address, length), 0);
    return __real_connect(descriptor, address, length);
}

static bool is_short_of_memory; /* is the system, for what is sent? */

ssize_t __real_sendmsg(int descriptor, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int descriptor, const struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    if (!is_short_of_memory)
        return __real_sendmsg(descriptor, message, flags);
    errno = ENOMEM;
    return -1;
}

int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_list);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_list);

static int ask_slowly(const char *service, const struct addrinfo *hints, struct addrinfo **ret_list)
{
    atomic_fetch_add(&asked, 1);
    while (!atomic_load(&answers))
        clock_sleep_ms(1);
    return __real_getaddrinfo(FOUND, service, hints, ret_list);
}

/* The name "moved" has two addresses. */
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_list)
{
    if (strcmp(host, "slow") == 0)
        return ask_slowly(service, hints, ret_list);
    if (strcmp(host, "moved") != 0)
        return __real_getaddrinfo(host, service, hints, ret_list);
    int status = __real_getaddrinfo(LOST, service, hints, ret_list);
    return status ? status
                  : __real_getaddrinfo(last_address, service, hints, &(*ret_list)->ai_next);
}

/* A host of which nothing comes back: the queue before its port is full. */
static int prepare(void **state)
{
    struct sockaddr_in lost = {.sin_family = AF_INET};
    (void)state;
    listener = listen_anywhere(&port);
    lost.sin_port = htons(port);
    assert_int_equal(inet_pton(AF_INET, LOST, &lost.sin_addr), 1);
    lost_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(lost_listener, (struct sockaddr *)&lost, sizeof(lost)), 0);
    assert_int_equal(listen(lost_listener, 0), 0);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(callers[i], (struct sockaddr *)&lost, sizeof(lost));
    }
    return 0;
}

static int clear(void **state)
{
    (void)state;
    for (int i = 0; i < CALLERS; i++)
        close(callers[i]);
    close(lost_listener);
    close(listener);
    return 0;
}

static void test_another_address_is_tried(void **state)
{
    struct link link;
    (void)state;
    last_address = FOUND;
    link_init(&link, "parameter server 0", "moved", port);
    assert_ok(link_open(&link, clock_deadline_ns(2000)));
    int accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    close(accepted);
    link_close(&link);
}

/* This process was not scheduled until the deadline had passed. */
static void test_what_has_arrived_counts_after_the_deadline(void **state)
{
    struct link link;
    (void)state;
    link_init(&link, "parameter server 0", FOUND, port);
    assert_ok(link_open(&link, clock_deadline_ns(2000)));
    int accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    assert_fails(link_await(&link, clock_now_ns() - 1), ERROR_TIMEOUT, "does not answer");
    assert_int_equal(write(accepted, "a", 1), 1);
    assert_ok(link_await(&link, clock_deadline_ns(2000)));
    assert_ok(link_await(&link, clock_now_ns() - 1));
    close(accepted);
    link_close(&link);
}

static void test_no_address_answers(void **state)
{
    struct link link;
    (void)state;
    last_address = LOST;
    link_init(&link, "parameter server 0", "moved", port);
    assert_fails(link_open(&link, clock_deadline_ns(200)), ERROR_TIMEOUT,
                 "parameter server 0 does not answer");
    assert_int_equal(link.descriptor, -1);
}

/* It is asked once, and each attempt waits for that answer. */
static void test_a_name_server_that_takes_longer_than_an_attempt(void **state)
{
    struct link link;
    (void)state;
    link_init(&link, "parameter server 0", "slow", port);
    for (int i = 0; i < 3; i++)
        assert_fails(link_open(&link, clock_deadline_ns(20)), ERROR_TIMEOUT,
                     "no name server answers for the address of slow");
    atomic_store(&answers, true);
    assert_ok(link_open(&link, clock_deadline_ns(10000)));
    assert_int_equal(atomic_load(&asked), 1);
    link_close(&link);
}

/* What it still waited for is left behind. */
static void test_a_link_is_closed_before_its_name_is_known(void **state)
{
    struct link link;
    (void)state;
    atomic_store(&answers, false);
    link_init(&link, "parameter server 0", "slow", port);
    assert_fails(link_open(&link, clock_deadline_ns(5)), ERROR_TIMEOUT, "no name server answers");
    link_close(&link);
    assert_null(link.lookup.errand);
    atomic_store(&answers, true);
}

/* Nobody listens, and the system takes the port that is called as the caller's. It is the server's
 * again at once. */
static void test_a_socket_is_not_its_own_server(void **state)
{
    struct link link;
    int server;
    uint16_t free_port;
    (void)state;
    close(listen_anywhere(&free_port));
    link_init(&link, "parameter server 0", FOUND, free_port);
    is_own_port = true;
    assert_fails(link_open(&link, clock_deadline_ns(2000)), ERROR_NETWORK,
                 "parameter server 0: Connection refused");
    is_own_port = false;
    assert_int_equal(link.descriptor, -1);
    assert_ok(listen_socket_open(FOUND, free_port, "", &server));
    close(server);
}

/* The connection is lost for it, and tried again as any other. */
static void test_a_frame_that_there_is_no_memory_for(void **state)
{
    struct wire_header header = {.type = WIRE_HELLO};
    struct link link;
    (void)state;
    link_init(&link, "parameter server 0", FOUND, port);
    assert_ok(link_open(&link, clock_deadline_ns(2000)));
    is_short_of_memory = true;
    assert_fails(link_send(&link, &header, NULL, 0, clock_deadline_ns(2000)), ERROR_NETWORK,
                 "parameter server 0: Cannot allocate memory");
    is_short_of_memory = false;
    assert_int_equal(link.descriptor, -1);
}

/* ---- frames that take longer than any pause within them -------------------- */

#define LARGE_BYTES 30000000
#define PIECE_BYTES 1000000
#define PATIENCE_MS 2000

#define TRICKLED_BYTES 1000

static char given[LARGE_BYTES], taken[LARGE_BYTES];
static int near_end, far_end;

/* A second for each piece. */
static void *take_slowly(void *context)
{
    static char piece[PIECE_BYTES];
    (void)context;
    for (size_t left = LARGE_BYTES + sizeof(struct wire_header); left > 0;) {
        ssize_t got = recv(far_end, piece, left < PIECE_BYTES ? left : PIECE_BYTES, MSG_WAITALL);
        if (got <= 0)
            break;
        left -= (size_t)got;
        pass(1);
    }
    return NULL;
}

/* Waits until what was given is taken, so that no time passes before. */
static void await_taking(void)
{
    int left = 1;
    while (left > 0 && ioctl(near_end, FIONREAD, &left) == 0)
        clock_sleep_ms(1);
}

static void give(size_t bytes, size_t piece_bytes)
{
    for (size_t at = 0; at < bytes; at += piece_bytes) {
        if (send(far_end, given + at, piece_bytes, MSG_NOSIGNAL) != (ssize_t)piece_bytes)
            break;
        await_taking();
        pass(1);
    }
}

static void *give_slowly(void *context)
{
    (void)context;
    give(LARGE_BYTES, PIECE_BYTES);
    return NULL;
}

/* A second for each byte. */
static void *trickle(void *context)
{
    (void)context;
    give(TRICKLED_BYTES, 1);
    return NULL;
}

static void connect_ends(struct link *link)
{
    link_init(link, "parameter server 0", FOUND, port);
    assert_ok(link_open(link, clock_deadline_ns(PATIENCE_MS)));
    near_end = link->descriptor;
    far_end = accept(listener, NULL, NULL);
    assert_true(far_end >= 0);
}

static void test_a_large_frame_may_take_its_time(void **state)
{
    struct iovec part = {given, sizeof(given)};
    struct wire_header header = {.type = WIRE_PUSH};
    struct link link;
    (void)state;
    connect_ends(&link);
    for (int gives = 0; gives < 2; gives++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, gives ? give_slowly : take_slowly, NULL), 0);
        int64_t deadline_ns = clock_deadline_ns(PATIENCE_MS);
        enum error error = gives ? link_read(&link, taken, sizeof(taken), deadline_ns)
                                 : link_send(&link, &header, &part, 1, deadline_ns);
        pthread_join(thread, NULL);
        assert_ok(error);
    }
    atomic_store(&skew_ns, 0);
    close(far_end);
    link_close(&link);
}

/* Each byte comes in time, but not the frame. */
static void test_a_small_frame_may_not_trickle(void **state)
{
    struct link link;
    pthread_t thread;
    (void)state;
    connect_ends(&link);
    assert_int_equal(pthread_create(&thread, NULL, trickle, NULL), 0);
    enum error error = link_read(&link, taken, TRICKLED_BYTES, clock_deadline_ns(PATIENCE_MS));
    pthread_join(thread, NULL);
    assert_fails(error, ERROR_TIMEOUT, "parameter server 0 does not answer");
    atomic_store(&skew_ns, 0);
    close(far_end);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_another_address_is_tried, prepare, clear),
    cmocka_unit_test_setup_teardown(test_what_has_arrived_counts_after_the_deadline, prepare,
                                    clear),
    cmocka_unit_test_setup_teardown(test_no_address_answers, prepare, clear),
    cmocka_unit_test_setup_teardown(test_a_large_frame_may_take_its_time, prepare, clear),
    cmocka_unit_test_setup_teardown(test_a_small_frame_may_not_trickle, prepare, clear),
    cmocka_unit_test(test_a_socket_is_not_its_own_server),
    cmocka_unit_test_setup_teardown(test_a_frame_that_there_is_no_memory_for, prepare, clear),
    cmocka_unit_test_setup_teardown(test_a_name_server_that_takes_longer_than_an_attempt, prepare,
                                    clear),
    cmocka_unit_test_setup_teardown(test_a_link_is_closed_before_its_name_is_known, prepare, clear),
};

UNIT_MAIN(tests)
