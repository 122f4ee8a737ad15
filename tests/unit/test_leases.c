/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/feed/lease_keeper: What is lent is acked, renewed or left to others, also where
 * somebody else has it by now; and answers to draws by lease that no sampler gives, for
 * sampler_client. A server of this process answers; what it was asked is kept.
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "loader/feed/lease_keeper.h"

#define ASKED_LIMIT 1000
#define PATIENCE_MS 20000
#define LINE_BYTES 300

/* One connection at a time. */
struct lender {
    /* Set by the test: */
    _Atomic int64_t lost;       /* a seq that is somebody else's by now: 409; 0: none */
    _Atomic int64_t expires_ms; /* what an extension says */
    _Atomic int refusal;        /* a status for all but batches; 0: none */
    _Atomic int ack_refusal;    /* for acks; 0: none */
    _Atomic int64_t acked;      /* a seq whose ack came before the refusal; 0: none */
    _Atomic bool deaf;          /* no answer to an extension */
    pthread_mutex_t lock;
    int status; /* of a batch, under the lock */
    const char *headers, *body;
    size_t length;
    /* Seen, under the lock: */
    char asked[ASKED_LIMIT][LINE_BYTES]; /* "/ack 5,6", or the target of a batch */
    size_t count;
    /* Its own: */
    int listener;
    char url[64];
    pthread_t thread;
    _Atomic int socket;
};

/* ---- the server ---------------------------------------------------------- */

static void reply(struct lender *lender, int status, const char *headers, const char *body,
                  size_t length)
{
    char head[400];
    int head_length = snprintf(head, sizeof(head), "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n%s\r\n",
                               status, length, headers);
    (void)!send(lender->socket, head, (size_t)head_length, MSG_NOSIGNAL);
    (void)!send(lender->socket, body, length, MSG_NOSIGNAL);
}

static void note(struct lender *lender, const char *text, size_t text_length, const char *seqs,
                 size_t seqs_length)
{
    pthread_mutex_lock(&lender->lock);
    if (lender->count < ASKED_LIMIT)
        snprintf(lender->asked[lender->count++], LINE_BYTES, "%.*s%s%.*s", (int)text_length, text,
                 seqs_length > 0 ? " " : "", (int)seqs_length, seqs);
    pthread_mutex_unlock(&lender->lock);
}

static bool holds_seq(const char *seqs, size_t length, int64_t seq)
{
    for (const char *at = seqs; at && at < seqs + length; at = strchr(at, ',') + 1) {
        if (strtoll(at, NULL, 10) == seq)
            return true;
        if (!memchr(at, ',', (size_t)(seqs + length - at)))
            return false;
    }
    return false;
}

/* "{..."seqs":[5,6]}" after "POST /ack ". */
static void answer_settlement(struct lender *lender, const char *request)
{
    static const char acked[] = "{\"type\":\"/problems/pair-acked\"}";
    char body[16384];
    const char *target = request + 5, *list = strstr(request, "\"seqs\":[");
    const char *seqs = list ? list + 8 : "";
    size_t length = list ? strcspn(seqs, "]") : 0;
    note(lender, target, strcspn(target, " "), seqs, length);
    int bytes =
        snprintf(body, sizeof(body), "{\"expires_ms\":%" PRId64 ",\"acked\":[%.*s],\"released\":0}",
                 atomic_load(&lender->expires_ms), (int)length, seqs);
    int refusal = atomic_load(&lender->refusal);
    if (atomic_load(&lender->deaf) && strncmp(target, "/extend ", 8) == 0)
        return;
    if (!refusal && strncmp(target, "/ack ", 5) == 0)
        refusal = atomic_load(&lender->ack_refusal);
    if (refusal)
        reply(lender, refusal, "", "", 0);
    else if (holds_seq(seqs, length, atomic_load(&lender->lost)))
        reply(lender, 409, "", "", 0);
    else if (holds_seq(seqs, length, atomic_load(&lender->acked)))
        reply(lender, 409, "Content-Type: application/problem+json\r\n", acked, strlen(acked));
    else
        reply(lender, 200, "Content-Type: application/json\r\n", body, (size_t)bytes);
}

static bool is_whole(const char *request)
{
    const char *end = strstr(request, "\r\n\r\n"), *length = strstr(request, "Content-Length: ");
    return end && (!length || strlen(end + 4) >= strtoul(length + 16, NULL, 10));
}

static void serve_connection(struct lender *lender)
{
    char request[16384];
    size_t length = 0;
    ssize_t got;
    while ((got = recv(lender->socket, request + length, sizeof(request) - 1 - length, 0)) > 0) {
        length += (size_t)got;
        request[length] = '\0';
        if (!is_whole(request))
            continue;
        if (strncmp(request, "POST ", 5) == 0) {
            answer_settlement(lender, request);
        } else {
            note(lender, request + 4, strcspn(request + 4, " "), "", 0);
            pthread_mutex_lock(&lender->lock);
            reply(lender, lender->status, lender->headers, lender->body, lender->length);
            pthread_mutex_unlock(&lender->lock);
        }
        length = 0;
    }
}

static void *serve(void *context)
{
    struct lender *lender = context;
    int socket;
    while ((socket = accept(lender->listener, NULL, NULL)) >= 0) {
        atomic_store(&lender->socket, socket);
        serve_connection(lender);
        close(socket);
    }
    return NULL;
}

static struct lender *lender_start(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    struct lender *lender = calloc(1, sizeof(*lender));
    assert_non_null(lender);
    log_set_level(LOG_ERROR);
    pthread_mutex_init(&lender->lock, NULL);
    lender->expires_ms = 600000;
    lender->headers = "";
    lender->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(lender->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(lender->listener, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(listen(lender->listener, 8), 0);
    snprintf(lender->url, sizeof(lender->url), "http://127.0.0.1:%u", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&lender->thread, NULL, serve, lender), 0);
    return lender;
}

/* After its clients. */
static void lender_stop(struct lender *lender)
{
    shutdown(lender->listener, SHUT_RDWR);
    pthread_join(lender->thread, NULL);
    close(lender->listener);
    pthread_mutex_destroy(&lender->lock);
    free(lender);
}

static void answer_batches(struct lender *lender, int status, const char *headers, const void *body,
                           size_t length)
{
    pthread_mutex_lock(&lender->lock);
    lender->status = status;
    lender->headers = headers;
    lender->body = body;
    lender->length = length;
    pthread_mutex_unlock(&lender->lock);
}

/* Does its question `number` hold the text? */
static bool was_asked(struct lender *lender, size_t number, const char *text)
{
    pthread_mutex_lock(&lender->lock);
    bool found = number < lender->count && strstr(lender->asked[number], text);
    pthread_mutex_unlock(&lender->lock);
    return found;
}

static size_t questions(struct lender *lender)
{
    pthread_mutex_lock(&lender->lock);
    size_t count = lender->count;
    pthread_mutex_unlock(&lender->lock);
    return count;
}

static size_t times_asked(struct lender *lender, const char *line)
{
    size_t found = 0;
    pthread_mutex_lock(&lender->lock);
    for (size_t i = 0; i < lender->count; i++)
        found += strcmp(lender->asked[i], line) == 0;
    pthread_mutex_unlock(&lender->lock);
    return found;
}

static void wait_until_asked(struct lender *lender, const char *line, size_t times)
{
    while (times_asked(lender, line) < times)
        usleep(1000);
}

/* ---- the keeper ---------------------------------------------------------- */

static struct lease_keeper *patient_keeper_of(struct lender *lender, const char *worker,
                                              int64_t patience_ms)
{
    struct lease_keeper *keeper = NULL;
    assert_ok(lease_keeper_start(lender->url, NULL, NULL, worker, patience_ms, &keeper));
    assert_true(lease_keeper_next_seqs(keeper, 1) >= 0);
    return keeper;
}

static struct lease_keeper *keeper_of(struct lender *lender, const char *worker)
{
    return patient_keeper_of(lender, worker, PATIENCE_MS);
}

static void lend(struct lease_keeper *keeper, int64_t seq, int64_t expires_ms, size_t pieces)
{
    const struct sampler_lease lease = {.seq = seq, .attempt = 1, .expires_ms = expires_ms};
    assert_ok(lease_keeper_add(keeper, &lease, pieces, clock_boot_ns()));
}

static void test_what_was_given_back_is_acked_and_the_rest_released(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    struct lease_keeper *keeper = keeper_of(lender, NULL);
    lend(keeper, 5, 600000, 2);
    lend(keeper, 6, 600000, 2);
    lend(keeper, 7, 600000, 1);
    lease_keeper_done(keeper, 5);
    lease_keeper_done(keeper, 6);
    lease_keeper_drop(keeper, 6);  /* a part of it was not trained: it is for somebody else */
    lease_keeper_done(keeper, 99); /* nobody's */
    lease_keeper_done(keeper, 5);
    wait_until_asked(lender, "/ack 5", 1);
    lease_keeper_stop(keeper);
    assert_int_equal(times_asked(lender, "/ack 5"), 1);
    assert_int_equal(times_asked(lender, "/release"), 1);
    assert_int_equal(questions(lender), 2);
    lender_stop(lender);
}

static void test_acks_that_somebody_waits_for(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    struct lease_keeper *keeper = keeper_of(lender, "one");
    lend(keeper, 5, 600000, 1);
    lease_keeper_await_acks(keeper, 1); /* nothing was given back */
    lease_keeper_done(keeper, 5);
    lease_keeper_await_acks(keeper, 50);
    wait_until_asked(lender, "/ack 5", 1);
    lease_keeper_stop(keeper);
    lender_stop(lender);
}

static void keep_message(int level, const char *message, void *context)
{
    assert_int_equal(level, LOG_WARNING);
    snprintf(context, LINE_BYTES, "%s", message);
}

/* All of it is for somebody else once a part was dropped, also the parts that are still here. What
 * was trained of it, or of one that is released, is redelivered with the rest, which is said. */
static void test_a_lease_of_which_a_part_was_trained(void **state)
{
    (void)state;
    char message[LINE_BYTES] = "";
    struct lender *lender = lender_start();
    struct lease_keeper *keeper = keeper_of(lender, "one");
    log_set_level(LOG_WARNING);
    log_set_sink(keep_message, message);
    for (int64_t seq = 5; seq <= 8; seq++)
        lend(keeper, seq, 600000, seq < 8 ? 3 : 1);
    for (int64_t seq = 5; seq <= 8; seq++)
        assert_true(lease_keeper_hands_out(keeper, seq));
    lease_keeper_done(keeper, 5); /* and no more of it */
    lease_keeper_done(keeper, 6);
    lease_keeper_drop(keeper, 6);
    assert_false(lease_keeper_hands_out(keeper, 6));
    lease_keeper_drop(keeper, 6);
    lease_keeper_drop(keeper, 7);
    assert_false(lease_keeper_hands_out(keeper, 7));
    lease_keeper_done(keeper, 8);
    lease_keeper_stop(keeper);
    log_set_sink(NULL, NULL);
    assert_non_null(strstr(message, "worker one trained leases in part (2)"));
    assert_int_equal(times_asked(lender, "/ack 8"), 1);
    assert_int_equal(times_asked(lender, "/release"), 1);
    lender_stop(lender);
}

/* Renewed as long as they are held; where one is somebody else's by now, each is told alone, it is
 * counted once, and the others stay. */
static void test_a_lease_that_ran_out(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    atomic_store(&lender->expires_ms, 30);
    struct lease_keeper *keeper = keeper_of(lender, "one");
    lend(keeper, 7, 30, 1);
    lend(keeper, 8, 30, 1);
    wait_until_asked(lender, "/extend 7,8", 2);
    assert_int_equal(lease_keeper_lost(keeper), 0);
    atomic_store(&lender->lost, 7);
    wait_until_asked(lender, "/extend 7", 1);
    size_t others = times_asked(lender, "/extend 8");
    wait_until_asked(lender, "/extend 8", others + 2); /* the first goes on, the second is new */
    assert_int_equal(lease_keeper_lost(keeper), 1);
    assert_int_equal(times_asked(lender, "/extend 7"), 1);
    lease_keeper_done(keeper, 7);
    wait_until_asked(lender, "/ack 7", 1);
    others = times_asked(lender, "/extend 8");
    wait_until_asked(lender, "/extend 8", others + 1); /* the answer to the ack was heard */
    assert_int_equal(lease_keeper_lost(keeper), 1);
    lease_keeper_stop(keeper);
    lender_stop(lender);
}

/* What another worker has by now is not handed out; where this is not known, since this process
 * stood still for longer than the lease, the sampler is asked first. */
static void test_what_others_have_is_not_handed_out(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    struct lease_keeper *keeper = keeper_of(lender, "one");
    const struct sampler_lease old = {.seq = 5, .attempt = 1, .expires_ms = 600000};
    const struct sampler_lease lost = {.seq = 6, .attempt = 1, .expires_ms = 600000};
    int64_t long_ago_ns = clock_boot_ns() - 601 * 1000000000LL;
    assert_ok(lease_keeper_add(keeper, &old, 2, long_ago_ns));
    lend(keeper, 7, 600000, 1);
    assert_true(lease_keeper_hands_out(keeper, 7));
    assert_int_equal(questions(lender), 0);
    assert_true(lease_keeper_hands_out(keeper, 5));
    assert_int_equal(times_asked(lender, "/extend 5,7"), 1);
    atomic_store(&lender->lost, 6);
    assert_ok(lease_keeper_add(keeper, &lost, 1, long_ago_ns));
    assert_false(lease_keeper_hands_out(keeper, 6));
    assert_true(lease_keeper_hands_out(keeper, 5));
    assert_false(lease_keeper_hands_out(keeper, 99)); /* nobody's */
    while (lease_keeper_lost(keeper) < 1)
        usleep(1000);
    assert_int_equal(lease_keeper_lost(keeper), 1);
    lease_keeper_stop(keeper);
    lender_stop(lender);
}

/* A sampler that does not answer in time decides nothing: it may still have the lease as ours. */
static void test_what_nobody_knows_is_handed_out(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    struct lease_keeper *keeper = keeper_of(lender, "one");
    const struct sampler_lease old = {.seq = 5, .attempt = 1, .expires_ms = 1000};
    atomic_store(&lender->refusal, 403);
    assert_ok(lease_keeper_add(keeper, &old, 1, clock_boot_ns() - 2000000000LL));
    assert_true(lease_keeper_hands_out(keeper, 5));
    assert_int_equal(lease_keeper_lost(keeper), 0);
    lease_keeper_drop(keeper, 5);
    lease_keeper_stop(keeper);
    lender_stop(lender);
}

/* Is there a question that begins so? */
static bool begins_asked(struct lender *lender, const char *text)
{
    bool found = false;
    pthread_mutex_lock(&lender->lock);
    for (size_t i = 0; i < lender->count; i++)
        found |= strncmp(lender->asked[i], text, strlen(text)) == 0;
    pthread_mutex_unlock(&lender->lock);
    return found;
}

/* A request has 512 of them. */
static void test_more_leases_than_one_request_renews(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    struct lease_keeper *keeper = keeper_of(lender, "one");
    for (int64_t seq = 1; seq < 1500; seq++)
        lend(keeper, seq, 600000, 1);
    lend(keeper, 1500, 30, 1); /* the first that is due: all are renewed with it */
    int tries = 60000;
    while (!begins_asked(lender, "/extend 1025,1026,") && tries-- > 0)
        usleep(1000);
    lease_keeper_stop(keeper);
    assert_true(begins_asked(lender, "/extend 1,2,3,"));
    assert_true(begins_asked(lender, "/extend 513,514,"));
    assert_true(begins_asked(lender, "/extend 1025,1026,"));
    assert_int_equal(questions(lender), 4); /* and the release */
    lender_stop(lender);
}

/* Both are tried again, a second later: a sampler that refuses at once is not asked all the time. */
static void test_leases_are_renewed_while_acks_fail(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    struct lease_keeper *keeper = keeper_of(lender, "one");
    atomic_store(&lender->refusal, 403);
    lend(keeper, 5, 600000, 1);
    lend(keeper, 6, 300, 1);
    lease_keeper_done(keeper, 5);
    int tries = 2000;
    while (!begins_asked(lender, "/extend ") && tries-- > 0)
        usleep(1000);
    lease_keeper_stop(keeper);
    assert_true(begins_asked(lender, "/ack 5"));
    assert_true(begins_asked(lender, "/extend "));
    assert_true(questions(lender) < 20);
    lender_stop(lender);
}

static void count_warning(int level, const char *message, void *context)
{
    (void)level;
    atomic_fetch_add((_Atomic int *)context, strstr(message, "; trying again") ? 1 : 100);
}

/* As by a sampler whose disk fails, which extends leases all the same: nobody else gets what is out
 * meanwhile. It is told of once. The keeper ends in time, however patient it is. */
static void test_leases_are_renewed_while_acks_are_put_off(void **state)
{
    (void)state;
    _Atomic int warnings = 0;
    struct lender *lender = lender_start();
    log_set_level(LOG_WARNING);
    log_set_sink(count_warning, &warnings);
    struct lease_keeper *keeper = patient_keeper_of(lender, "one", -1);
    atomic_store(&lender->ack_refusal, 503);
    atomic_store(&lender->expires_ms, 900);
    lend(keeper, 5, 900, 1);
    lend(keeper, 6, 900, 1);
    lease_keeper_done(keeper, 5);
    int tries = 10000;
    while (times_asked(lender, "/extend 5,6") < 3 && tries-- > 0)
        usleep(1000);
    assert_true(times_asked(lender, "/extend 5,6") >= 3);
    log_set_sink(NULL, NULL);
    log_set_level(LOG_ERROR);
    assert_int_equal(warnings, 1);
    assert_true(begins_asked(lender, "/ack 5"));
    assert_ok(lease_keeper_check_acks(keeper));
    lease_keeper_stop(keeper);
    lender_stop(lender);
}

/* The disk became full in the middle of an ack: what it acked is not lost. */
static void test_an_ack_that_is_refused_half_done(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    struct lease_keeper *keeper = keeper_of(lender, "one");
    atomic_store(&lender->ack_refusal, 507);
    atomic_store(&lender->acked, 5);
    atomic_store(&lender->expires_ms, 900);
    lend(keeper, 5, 900, 1);
    lend(keeper, 6, 900, 1);
    lease_keeper_done(keeper, 5);
    lease_keeper_done(keeper, 6);
    wait_until_asked(lender, "/extend 5,6", 1);
    wait_until_asked(lender, "/extend 6", 2);
    assert_int_equal(times_asked(lender, "/extend 5"), 1);
    assert_int_equal(lease_keeper_lost(keeper), 0);
    atomic_store(&lender->ack_refusal, 0);
    wait_until_asked(lender, "/ack 6", 1);
    lease_keeper_stop(keeper);
    lender_stop(lender);
}

/* The response to an ack was lost, and a renewal tells that it came: nothing is put off any more,
 * however long nobody puts a batch back. */
static void test_an_ack_whose_response_is_lost(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    struct lease_keeper *keeper = patient_keeper_of(lender, "one", 1500);
    atomic_store(&lender->ack_refusal, 503);
    atomic_store(&lender->expires_ms, 900);
    lend(keeper, 5, 900, 1);
    lend(keeper, 6, 900, 1);
    lease_keeper_done(keeper, 5);
    wait_until_asked(lender, "/ack 5", 1);
    atomic_store(&lender->acked, 5);
    wait_until_asked(lender, "/extend 6", 2);
    int64_t until_ns = clock_deadline_ns(2000);
    while (clock_left_ms(until_ns) > 0)
        lease_keeper_await_acks(keeper, 100);
    assert_ok(lease_keeper_check_acks(keeper));
    assert_int_equal(lease_keeper_lost(keeper), 0);
    lease_keeper_stop(keeper);
    lender_stop(lender);
}

static void test_acks_that_are_put_off_until_patience_is_over(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    struct lease_keeper *keeper = patient_keeper_of(lender, "one", 2500);
    int64_t begun_ns = clock_now_ns();
    atomic_store(&lender->ack_refusal, 503);
    lend(keeper, 5, 900, 1);
    atomic_store(&lender->expires_ms, 900);
    lease_keeper_done(keeper, 5);
    while (lease_keeper_check_acks(keeper) == OK)
        usleep(1000);
    assert_true(clock_now_ns() - begun_ns >= 2500000000LL);
    assert_fails(lease_keeper_check_acks(keeper), ERROR_TIMEOUT, "cannot be acked");
    atomic_store(&lender->ack_refusal, 0);
    while (lease_keeper_check_acks(keeper) != OK)
        usleep(1000);
    lease_keeper_stop(keeper);
    lender_stop(lender);
}

/* A connection that is lost without a word, say: acks that wait for it until patience ends come too
 * late. */
static void test_acks_are_sent_while_an_extension_gets_no_answer(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    struct lease_keeper *keeper = keeper_of(lender, "one");
    int64_t until_ns;
    atomic_store(&lender->deaf, true);
    lend(keeper, 5, 600000, 1);
    lend(keeper, 6, 300, 1);
    while (!begins_asked(lender, "/extend "))
        usleep(1000);
    lease_keeper_done(keeper, 5);
    until_ns = clock_deadline_ns(PATIENCE_MS / 2);
    while (!begins_asked(lender, "/ack 5") && clock_left_ms(until_ns) > 0)
        usleep(1000);
    assert_true(begins_asked(lender, "/ack 5"));
    atomic_store(&lender->deaf, false);
    lease_keeper_stop(keeper);
    lender_stop(lender);
}

static void test_an_ack_that_comes_too_late(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    atomic_store(&lender->lost, 3);
    struct lease_keeper *keeper = keeper_of(lender, "one");
    lend(keeper, 3, 600000, 1);
    lend(keeper, 4, 600000, 1);
    lease_keeper_done(keeper, 3);
    lease_keeper_done(keeper, 4);
    while (lease_keeper_lost(keeper) < 1 || times_asked(lender, "/ack 4") < 1)
        usleep(1000);
    lease_keeper_stop(keeper); /* nothing is left to be acked */
    assert_int_equal(times_asked(lender, "/ack 4"), 1);
    assert_int_equal(times_asked(lender, "/release"), 1);
    lender_stop(lender);
}

/* A token that is no good any more, say: said again at the end, and then they expire. */
static void test_a_sampler_that_refuses(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    atomic_store(&lender->refusal, 403);
    atomic_store(&lender->expires_ms, 30);
    struct lease_keeper *keeper = keeper_of(lender, "one");
    lend(keeper, 3, 30, 1);
    wait_until_asked(lender, "/extend 3", 1);
    lease_keeper_done(keeper, 3);
    wait_until_asked(lender, "/ack 3", 1);
    lease_keeper_stop(keeper);
    assert_true(times_asked(lender, "/ack 3") >= 2);
    assert_int_equal(times_asked(lender, "/release"), 0);
    lender_stop(lender);
}

/* Somebody waits for acks that fail: they are not sent again and again without a pause, and after a
 * second failure the caller hears why. */
static void test_acks_that_fail_while_somebody_waits(void **state)
{
    (void)state;
    struct lender *lender = lender_start();
    atomic_store(&lender->refusal, 500);
    struct lease_keeper *keeper = keeper_of(lender, "one");
    lend(keeper, 3, 600000, 1);
    assert_ok(lease_keeper_check_acks(keeper));
    lease_keeper_done(keeper, 3);
    while (lease_keeper_check_acks(keeper) == OK)
        lease_keeper_await_acks(keeper, 10);
    assert_fails(lease_keeper_check_acks(keeper), ERROR_NETWORK, "cannot be acked");
    assert_int_equal(times_asked(lender, "/ack 3"), 2);
    atomic_store(&lender->refusal, 0);
    while (lease_keeper_check_acks(keeper) != OK)
        lease_keeper_await_acks(keeper, 10);
    lease_keeper_stop(keeper);
    assert_int_equal(times_asked(lender, "/ack 3"), 3);
    lender_stop(lender);
}

static void test_names_of_workers(void **state)
{
    char name[SAMPLER_WORKER_BYTES + 1];
    struct lease_keeper *keeper = NULL;
    (void)state;
    memset(name, 'a', sizeof(name));
    name[SAMPLER_WORKER_BYTES] = '\0';
    assert_fails(lease_keeper_start("http://h", NULL, NULL, name, 1, &keeper), ERROR_USAGE,
                 "is not the name of a worker");
    assert_fails(lease_keeper_start("http://h", NULL, NULL, "a b", 1, &keeper), ERROR_USAGE,
                 "\"a b\"");
    assert_fails(lease_keeper_start("http://h", NULL, NULL, "", 1, &keeper), ERROR_USAGE,
                 "\"\" is not the name of a worker");
    assert_fails(lease_keeper_start("http://h", NULL, "a/b", "a", 1, &keeper), ERROR_USAGE,
                 "\"a/b\"");
    assert_null(keeper);
    assert_int_equal(lease_keeper_lost(NULL), 0);
    lease_keeper_stop(NULL);
    name[SAMPLER_WORKER_BYTES - 1] = '\0';
    assert_ok(lease_keeper_start("http://h", NULL, NULL, name, 1, &keeper));
    assert_string_equal(lease_keeper_worker(keeper), name);
    lease_keeper_stop(keeper);
}

/* Names of a parent are free. ThreadSanitizer ends a child that starts a thread. */
static void check_names_in_a_child(void)
{
    struct lease_keeper *keeper;
    int status;
    if (unit_is_for_threads())
        return;
    pid_t child = fork();
    if (child == 0)
        _exit(lease_keeper_start("http://h", NULL, NULL, "w", 1, &keeper) != OK);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* The sampler releases by name: the first of two to end would take the other's leases. */
static void test_a_name_is_of_one_feed(void **state)
{
    struct lease_keeper *one, *other = NULL;
    (void)state;
    assert_ok(lease_keeper_start("http://h", NULL, NULL, "w", 1, &one));
    assert_fails(lease_keeper_start("http://h", NULL, "default", "w", 1, &other), ERROR_USAGE,
                 "worker w already leases from stream default of http://h in this process");
    assert_null(other);
    assert_ok(lease_keeper_start("http://h", NULL, "other", "w", 1, &other));
    lease_keeper_stop(other);
    assert_ok(lease_keeper_start("http://g", NULL, NULL, "w", 1, &other));
    lease_keeper_stop(other);
    check_names_in_a_child();
    lease_keeper_stop(one);
    assert_ok(lease_keeper_start("http://h", NULL, NULL, "w", 1, &one));
    lease_keeper_stop(one);
}

/* ---- draws by lease ------------------------------------------------------ */

#define ROWS 3
#define LISTED_BYTES 96 /* with 4 zeros at the end */

struct list {
    _Alignas(8) char data[3 * LISTED_BYTES];
};

static void write_batch(char *out, const struct sampler_lease *lease)
{
    const struct sampler_batch_header header = {
        .magic = SAMPLER_BATCH_MAGIC, .rows = ROWS, .flags = lease ? SAMPLER_BATCH_LISTED : 0};
    static const int64_t ids[ROWS] = {7, 0, 5};
    memcpy(out, &header, sizeof(header));
    if (lease)
        memcpy(out + sizeof(header), lease, sizeof(*lease));
    memcpy(out + sampler_batch_ids_at(lease), ids, sizeof(ids));
}

static struct list list_from(int64_t seq)
{
    struct list list = {{0}};
    for (int64_t i = 0; i < 3; i++) {
        const struct sampler_lease lease = {.seq = seq + i, .attempt = 1, .expires_ms = 1000};
        write_batch(list.data + i * LISTED_BYTES, &lease);
    }
    return list;
}

/* What comes of a draw of up to `most` batches from seq 9 on. */
static enum error draw(int status, const char *headers, const void *body, size_t length,
                       size_t most, struct sampler_batch batches[], size_t *ret_count)
{
    struct lender *lender = lender_start();
    struct sampler_client *client = NULL;
    answer_batches(lender, status, headers, body, length);
    assert_ok(sampler_client_open(lender->url, NULL, NULL, 1000, &client));
    enum error error = sampler_client_lease(client, ROWS, most, "w", 9, batches, ret_count);
    assert_true(was_asked(lender, 0, "&worker=w&seq=9&"));
    sampler_client_close(client);
    lender_stop(lender);
    return error;
}

static void test_a_batch_without_what_makes_it_a_lease(void **state)
{
    static const char *const wrong[] = {"", "Tombola-Attempt: 1\r\n",
                                        "Tombola-Attempt: 0\r\nTombola-Expires-Ms: 5\r\n",
                                        "Tombola-Attempt: 1\r\nTombola-Expires-Ms: soon\r\n",
                                        "Tombola-Attempt: 1\r\nTombola-Expires-Ms: -1\r\n"};
    char data[32 + 12 * ROWS] = {0};
    struct sampler_batch batch;
    size_t count = 0;
    (void)state;
    write_batch(data, NULL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_fails(draw(200, wrong[i], data, sizeof(data), 1, &batch, &count), ERROR_NETWORK,
                     "without the headers of a lease");
    assert_ok(draw(200, "Tombola-Attempt: 2\r\nTombola-Expires-Ms: 5\r\n", data, sizeof(data), 1,
                   &batch, &count));
    assert_int_equal(count, 1);
    assert_int_equal(batch.lease.seq, 9);
    assert_int_equal(batch.lease.attempt, 2);
    assert_int_equal(batch.lease.expires_ms, 5);
}

/* A gateway mixed two responses up. */
static void test_the_batch_of_another_request(void **state)
{
    static const struct {
        const char *headers, *text; /* NULL: it is right */
    } cases[] = {{"Tombola-Stream: other\r\n",
                  "a batch of Tombola-Stream other, asked for was that of default"},
                 {"Tombola-Worker: v\r\n", "a batch of Tombola-Worker v, asked for was that of w"},
                 {"Tombola-Seq: 8\r\n", "a batch of Tombola-Seq 8, asked for was that of 9"},
                 {"Tombola-Stream: default\r\nTombola-Worker: w\r\nTombola-Seq: 9\r\n", NULL}};
    char data[32 + 12 * ROWS] = {0}, headers[200];
    struct sampler_batch batch;
    size_t count = 0;
    (void)state;
    write_batch(data, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(headers, sizeof(headers), "Tombola-Attempt: 1\r\nTombola-Expires-Ms: 5\r\n%s",
                 cases[i].headers);
        enum error error = draw(200, headers, data, sizeof(data), 1, &batch, &count);
        if (cases[i].text)
            assert_fails(error, ERROR_NETWORK, cases[i].text);
        else
            assert_ok(error);
    }
    struct list list = list_from(9);
    struct sampler_batch batches[3];
    assert_fails(
        draw(200, "Tombola-Stream: other\r\n", list.data, sizeof(list.data), 3, batches, &count),
        ERROR_NETWORK, cases[0].text);
}

/* It would never be renewed again, or without a pause. */
static void test_an_extension_of_less_than_nothing(void **state)
{
    struct lender *lender = lender_start();
    struct sampler_client *client = NULL;
    const int64_t seqs[] = {9};
    int64_t expires_ms = 1;
    (void)state;
    atomic_store(&lender->expires_ms, -5);
    assert_ok(sampler_client_open(lender->url, NULL, NULL, 1000, &client));
    assert_fails(sampler_client_settle(client, "extend", "w", seqs, 1, &expires_ms), ERROR_NETWORK,
                 " is not a Tombola sampler: /extend was answered with -5");
    assert_non_null(strstr(error_message(), lender->url));
    assert_int_equal(expires_ms, 1);
    sampler_client_close(client);
    lender_stop(lender);
}

static void test_lists_that_nobody_asked_for(void **state)
{
    struct list right = list_from(9), other = list_from(10);
    struct sampler_batch batches[3];
    size_t count = 0;
    (void)state;
    assert_ok(draw(200, "", right.data, sizeof(right.data), 3, batches, &count));
    assert_int_equal(count, 3);
    assert_int_equal(batches[2].lease.seq, 11);
    assert_fails(draw(200, "", right.data, sizeof(right.data), 2, batches, &count), ERROR_NETWORK,
                 "more than the 2 batches");
    assert_fails(draw(200, "", other.data, sizeof(other.data), 3, batches, &count), ERROR_NETWORK,
                 "seq 10 where 9 is next");
    assert_fails(draw(200, "", right.data, LISTED_BYTES + 8, 3, batches, &count), ERROR_NETWORK,
                 "/batch?");
    assert_fails(draw(200, "", "", 0, 3, batches, &count), ERROR_NETWORK, "/batch?");
}

static void test_draws_that_are_refused(void **state)
{
    static const char lent[] = "{\"type\":\"/problems/all-lent\",\"status\":503,\"detail\":"
                               "\"nothing is left but 2 leased batches\"}";
    static const char denied[] = "{\"detail\":\"size is over --max-size\"}";
    struct sampler_batch batches[3];
    size_t count = 0;
    (void)state;
    for (size_t most = 1; most <= 3; most += 2) {
        assert_fails(draw(503, "", lent, strlen(lent), most, batches, &count), ERROR_UNAVAILABLE,
                     "stream default: nothing is left but 2 leased batches");
        assert_fails(draw(503, "Retry-After: 0\r\n", "", 0, most, batches, &count), ERROR_TIMEOUT,
                     "503");
        assert_fails(draw(400, "", denied, strlen(denied), most, batches, &count), ERROR_USAGE,
                     "--max-size");
        assert_fails(draw(400, "", "<html>", 6, most, batches, &count), ERROR_USAGE,
                     "answered 400 to GET /batch?");
        assert_int_equal(draw(204, "", "", 0, most, batches, &count), ERROR_END);
        assert_fails(draw(418, "", "", 0, most, batches, &count), ERROR_NETWORK, "no reason given");
    }
}

/* A sampler of old knows no batches=: from then on they are asked for one by one. */
static void test_one_by_one_where_several_are_refused(void **state)
{
    static const char unknown[] = "{\"detail\":\"batches is no parameter of it\"}";
    struct lender *lender = lender_start();
    struct sampler_client *client = NULL;
    struct sampler_batch batches[3];
    size_t count = 0;
    (void)state;
    answer_batches(lender, 400, "", unknown, strlen(unknown));
    assert_ok(sampler_client_open(lender->url, NULL, NULL, 1000, &client));
    for (int i = 0; i < 2; i++)
        assert_fails(sampler_client_lease(client, ROWS, 3, "w", 9, batches, &count), ERROR_USAGE,
                     "batches is no parameter");
    assert_int_equal(questions(lender), 3);
    assert_true(was_asked(lender, 0, "&batches=3"));
    assert_false(was_asked(lender, 1, "&batches="));
    assert_false(was_asked(lender, 2, "&batches="));
    sampler_client_close(client);
    lender_stop(lender);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_given_back_is_acked_and_the_rest_released),
        cmocka_unit_test(test_acks_that_somebody_waits_for),
        cmocka_unit_test(test_a_lease_of_which_a_part_was_trained),
        cmocka_unit_test(test_a_lease_that_ran_out),
        cmocka_unit_test(test_what_others_have_is_not_handed_out),
        cmocka_unit_test(test_what_nobody_knows_is_handed_out),
        cmocka_unit_test(test_more_leases_than_one_request_renews),
        cmocka_unit_test(test_leases_are_renewed_while_acks_fail),
        cmocka_unit_test(test_leases_are_renewed_while_acks_are_put_off),
        cmocka_unit_test(test_an_ack_that_is_refused_half_done),
        cmocka_unit_test(test_an_ack_whose_response_is_lost),
        cmocka_unit_test(test_acks_that_are_put_off_until_patience_is_over),
        cmocka_unit_test(test_acks_are_sent_while_an_extension_gets_no_answer),
        cmocka_unit_test(test_an_ack_that_comes_too_late),
        cmocka_unit_test(test_a_sampler_that_refuses),
        cmocka_unit_test(test_acks_that_fail_while_somebody_waits),
        cmocka_unit_test(test_names_of_workers),
        cmocka_unit_test(test_a_name_is_of_one_feed),
        cmocka_unit_test(test_a_batch_without_what_makes_it_a_lease),
        cmocka_unit_test(test_the_batch_of_another_request),
        cmocka_unit_test(test_an_extension_of_less_than_nothing),
        cmocka_unit_test(test_lists_that_nobody_asked_for),
        cmocka_unit_test(test_draws_that_are_refused),
        cmocka_unit_test(test_one_by_one_where_several_are_refused),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
