/* SPDX-License-Identifier: MIT */
#include "loader/feed/lease_keeper.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/text.h"
#include "common/thread.h"
#include "loader/feed/lease_list.h"
#include "loader/feed/worker_name.h"

#define AT_ONCE 512     /* seqs a request */
#define ACK_PAUSE_MS 20 /* between two requests with acks, so that each carries several */
#define AGAIN_MS 1000   /* after a request that failed */
#define ACK_TRIES 2     /* failures in a row that end the feed, if the sampler refused the last */
#define LEAST_RENEW_MS 10
#define END_MS 5000  /* for the last requests, if the sampler is away */
#define KNOW_MS 1000 /* a batch waits so long for its lease, after this process stood still */

struct lease_keeper {
    struct sampler_client *client; /* the thread's */
    char worker[SAMPLER_WORKER_BYTES];
    struct worker_name name;
    _Atomic int64_t next_seq, lost;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the thread has something to do */
    pthread_cond_t acked, renewed;
    struct lease_list list;
    size_t done;                  /* of the list's leases */
    size_t torn;                  /* leases that were dropped, but trained in part */
    _Atomic size_t *unacked;      /* its watcher's; NULL: nobody watches */
    int64_t patience_ms;          /* < 0: no limit */
    int64_t renew_ns, expires_ms; /* when to renew all leases next; for how long */
    int64_t ack_ns;               /* send no acks before */
    int64_t give_up_ns;           /* end the feed if acks still fail then; INT64_MAX: they do not */
    int64_t dropped_until_ns;     /* a dropped lease is ours until then, by clock_boot_ns() */
    bool hurried, leaving, stopping;
    bool warned_of_out, warned_of_ahead; /* the thread's */
    bool renewals_fail, acks_fail;       /* the thread's */
    bool refused;                        /* the thread's: the sampler refused its last request */
    int failed_acks;                     /* requests, in a row */
    struct error_report failure;         /* of the last of them */
};

/* ---- the list, under the lock ------------------------------------------- */

static void count_done(struct lease_keeper *keeper, size_t done)
{
    keeper->done = done;
    if (keeper->unacked)
        atomic_store(keeper->unacked, done);
}

static void forget(struct lease_keeper *keeper, struct lease *lease)
{
    count_done(keeper, keeper->done - (lease->state == LEASE_DONE));
    lease_list_remove(&keeper->list, lease);
}

static void renew_within(struct lease_keeper *keeper, int64_t expires_ms)
{
    int64_t wait_ms = expires_ms / 3 > LEAST_RENEW_MS ? expires_ms / 3 : LEAST_RENEW_MS;
    int64_t renew_ns = clock_deadline_ns(wait_ms);
    keeper->expires_ms = expires_ms;
    if (renew_ns < keeper->renew_ns)
        keeper->renew_ns = renew_ns;
}

/* Up to AT_ONCE seqs to ack, or to renew: the latter are no longer due. */
static size_t collect(struct lease_keeper *keeper, bool acks, int64_t seqs[AT_ONCE])
{
    size_t count = 0;
    for (size_t i = 0; i < keeper->list.count && count < AT_ONCE; i++) {
        struct lease *lease = &keeper->list.leases[i];
        bool renews = lease->due && lease->state != LEASE_DROPPED && !lease->lost;
        if (acks ? lease->state == LEASE_DONE : renews)
            seqs[count++] = lease->seq;
        lease->due &= acks;
    }
    return count;
}

/* ---- requests to the sampler, on the thread ------------------------------ */

/* error_message() is the sampler's. `out`: the caller has its batch. */
static void lose(struct lease_keeper *keeper, int64_t seq, bool out)
{
    const char *kind = error_kind();
    bool forgotten = kind && strcmp(kind, SAMPLER_NEVER_LENT) == 0;
    bool *warned = out ? &keeper->warned_of_out : &keeper->warned_of_ahead;
    atomic_fetch_add(&keeper->lost, 1);
    if (!*warned)
        log_warning("worker %s lost its lease with seq %" PRId64
                    ", and its batch %s: %s; %s; others are only counted",
                    keeper->worker, seq, out ? "may be trained twice" : "is left to others",
                    error_message(),
                    forgotten ? "the sampler forgot it (without --state a restart forgets all "
                                "leases; a restore, or a stream that is made again, does the same)"
                              : "if it expired, a longer lease of the sampler (--lease) prevents "
                                "that; a seek withdraws leases, and the end of another program "
                                "with this worker's name releases them");
    *warned = true;
}

/* The sampler's last error is of a batch that was acked. */
static bool is_acked(void)
{
    const char *kind = error_kind();
    return kind && strcmp(kind, SAMPLER_PAIR_ACKED) == 0;
}

/* An ack that was refused may have acked some of its batches (a disk that became full). */
static void settle_one(struct lease_keeper *keeper, bool acks, int64_t seq, bool lost,
                       int64_t until_ns)
{
    pthread_mutex_lock(&keeper->lock);
    struct lease *lease = lease_list_find(&keeper->list, seq);
    bool acked = lease && lease->state == LEASE_DONE && lost && !acks && is_acked();
    bool news = lease && lost && !lease->lost && !acked, out = lease && lease->out;
    if (lease && (acks || acked)) {
        forget(keeper, lease);
    } else if (lease) {
        lease->lost |= lost;
        lease->until_ns = until_ns;
        pthread_cond_broadcast(&keeper->renewed);
    }
    pthread_mutex_unlock(&keeper->lock);
    if (news)
        lose(keeper, seq, out);
}

/* A sampler whose disk fails puts off acks, but no extensions, and a lost connection may be silent:
 * no request keeps the next one waiting for longer than a quarter of a lease, however long patience
 * is. Returns when one that begins now has to end. */
static int64_t limit_request(struct lease_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    int64_t limit_ms = keeper->expires_ms / 4 > AGAIN_MS ? keeper->expires_ms / 4 : AGAIN_MS;
    if (keeper->patience_ms >= 0 && keeper->patience_ms < limit_ms)
        limit_ms = keeper->patience_ms;
    if (keeper->stopping)
        limit_ms = END_MS;
    pthread_mutex_unlock(&keeper->lock);
    sampler_client_set_patience(keeper->client, limit_ms);
    return clock_deadline_ns(limit_ms);
}

/* *ret_until_ns: until when an extension holds. */
static enum error tell(struct lease_keeper *keeper, bool acks, const int64_t seqs[], size_t count,
                       int64_t *ret_until_ns)
{
    int64_t expires_ms = 0, asked_ns = clock_boot_ns(), end_ns = limit_request(keeper);
    enum error error =
        sampler_client_settle(keeper->client, acks ? "ack" : "extend", keeper->worker, seqs, count,
                              acks ? NULL : &expires_ms);
    keeper->refused = error && clock_left_ms(end_ns) > 0;
    if (!error && !acks) {
        pthread_mutex_lock(&keeper->lock);
        renew_within(keeper, expires_ms);
        pthread_mutex_unlock(&keeper->lock);
    }
    *ret_until_ns = clock_after_ns(asked_ns, expires_ms);
    return error;
}

/* If one of them is no longer ours, the sampler does nothing for the others: each is then sent
 * alone. */
static enum error settle(struct lease_keeper *keeper, bool acks, const int64_t seqs[], size_t count)
{
    int64_t until_ns;
    enum error error = tell(keeper, acks, seqs, count, &until_ns);
    bool conflict = error == ERROR_CONFLICT;
    if (error && !conflict)
        return error;
    for (size_t i = 0; i < count; i++) {
        error = conflict ? tell(keeper, acks, &seqs[i], 1, &until_ns) : OK;
        if (error && error != ERROR_CONFLICT)
            return error;
        settle_one(keeper, acks, seqs[i], error == ERROR_CONFLICT, until_ns);
    }
    return OK;
}

/* ---- the thread ---------------------------------------------------------- */

/* When there is something to do; now, if that is past. */
static int64_t next_work_ns(const struct lease_keeper *keeper)
{
    int64_t at_ns = keeper->list.count > 0 ? keeper->renew_ns : INT64_MAX;
    if (keeper->done == 0)
        return at_ns;
    if (keeper->hurried && keeper->failed_acks == 0) /* a failure would come again at once */
        return 0;
    return keeper->ack_ns < at_ns ? keeper->ack_ns : at_ns;
}

static void wait_for_work(struct lease_keeper *keeper)
{
    int64_t at_ns;
    while (!keeper->stopping && (at_ns = next_work_ns(keeper)) > clock_now_ns()) {
        struct timespec until = clock_timespec(at_ns);
        if (at_ns == INT64_MAX)
            pthread_cond_wait(&keeper->changed, &keeper->lock);
        else
            pthread_cond_clockwait(&keeper->changed, &keeper->lock, CLOCK_MONOTONIC, &until);
    }
}

/* One request, or one for each if some were lost. Returns whether there was one to make. */
static bool work(struct lease_keeper *keeper, bool acks, enum error *ret_error)
{
    int64_t seqs[AT_ONCE];
    pthread_mutex_lock(&keeper->lock);
    size_t count = collect(keeper, acks, seqs);
    pthread_mutex_unlock(&keeper->lock);
    *ret_error = count > 0 ? settle(keeper, acks, seqs, count) : OK;
    return count > 0;
}

/* Renews all leases held now, with as many requests as needed; new ones have their own time. */
static enum error renew(struct lease_keeper *keeper)
{
    enum error error = OK;
    pthread_mutex_lock(&keeper->lock);
    keeper->renew_ns = INT64_MAX;
    for (size_t i = 0; i < keeper->list.count; i++)
        keeper->list.leases[i].due = !keeper->leaving || keeper->list.leases[i].out;
    pthread_mutex_unlock(&keeper->lock);
    while (!error && work(keeper, false, &error))
        ;
    return error;
}

/* Once until they succeed again. */
static void warn(const struct lease_keeper *keeper, enum error error, bool *fail)
{
    if (error && !*fail)
        log_warning("leases of worker %s: %s; trying again", keeper->worker, error_message());
    *fail = error != OK;
}

/* Under the lock. */
static void note_failed_acks(struct lease_keeper *keeper, enum error error, int64_t begun_ns)
{
    if (keeper->failed_acks++ == 0)
        keeper->give_up_ns = clock_after_ns(begun_ns, keeper->patience_ms);
    if (keeper->refused && keeper->failed_acks >= ACK_TRIES)
        keeper->give_up_ns = begun_ns;
    error_report_take(error, &keeper->failure);
}

/* One round of what is due; leases are also renewed while acks fail. The pullers, which see the
 * same failure or ask for that of acks, end the feed. */
static void do_round(struct lease_keeper *keeper, bool renews)
{
    enum error acked, renewed = renews ? renew(keeper) : OK;
    if (renews)
        warn(keeper, renewed, &keeper->renewals_fail);
    int64_t begun_ns = clock_now_ns();
    bool told = work(keeper, true, &acked);
    warn(keeper, acked, &keeper->acks_fail);
    pthread_mutex_lock(&keeper->lock);
    /* As many as fill a request go at once: a pause would bound how fast batches can be acked. */
    bool is_full = keeper->done >= AT_ONCE;
    keeper->ack_ns = clock_deadline_ns(acked ? AGAIN_MS : is_full ? 0 : ACK_PAUSE_MS);
    if (renewed)
        keeper->renew_ns = clock_deadline_ns(AGAIN_MS);
    if (acked) {
        note_failed_acks(keeper, acked, begun_ns);
    } else if (told || keeper->failed_acks > 0) { /* or an extension told that all were acked */
        keeper->failed_acks = 0;
        keeper->give_up_ns = INT64_MAX;
        keeper->hurried = false;
        pthread_cond_broadcast(&keeper->acked);
    }
    pthread_mutex_unlock(&keeper->lock);
}

static size_t count_unacked(struct lease_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    size_t done = keeper->done;
    pthread_mutex_unlock(&keeper->lock);
    return done;
}

static bool has_leased(struct lease_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    bool has = keeper->expires_ms > 0;
    pthread_mutex_unlock(&keeper->lock);
    return has;
}

/* Of a lease cut into several batches some were trained; all of it is redelivered. */
static bool is_torn(const struct lease *lease)
{
    return lease->trained > 0 && lease->state != LEASE_DONE && !lease->lost;
}

static void warn_of_torn(struct lease_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    size_t torn = keeper->torn;
    for (size_t i = 0; i < keeper->list.count; i++)
        torn += is_torn(&keeper->list.leases[i]);
    pthread_mutex_unlock(&keeper->lock);
    if (torn > 0)
        log_warning("worker %s trained leases in part (%zu) that are larger than its batches; they "
                    "are redelivered as a whole, so that these rows may be trained twice: programs "
                    "that share a stream need the same batch size",
                    keeper->worker, torn);
}

/* Acks what was put back, and releases the rest. If the sampler refuses that, as it refused each
 * draw (no token, no such stream), there is nothing to release, and the draw's error is enough. */
static void end(struct lease_keeper *keeper)
{
    enum error error = OK;
    while (!error && work(keeper, true, &error))
        ;
    (void)limit_request(keeper);
    if (!error)
        error = sampler_client_settle(keeper->client, "release", keeper->worker, NULL, 0, NULL);
    bool refused = error == ERROR_USAGE || error == ERROR_NOT_FOUND;
    if (error && (!refused || has_leased(keeper)))
        log_warning("leases of worker %s: %s; those that are left expire (of trained batches, "
                    "which are redelivered: %zu)",
                    keeper->worker, error_message(), count_unacked(keeper));
    warn_of_torn(keeper);
}

static void *run(void *context)
{
    struct lease_keeper *keeper = context;
    stop_spare_thread(); /* batches put back before a signal are acked after it */
    for (;;) {
        pthread_mutex_lock(&keeper->lock);
        wait_for_work(keeper);
        bool stopping = keeper->stopping;
        bool renews = keeper->renew_ns <= clock_now_ns();
        pthread_mutex_unlock(&keeper->lock);
        if (stopping)
            break;
        do_round(keeper, renews);
    }
    if (atomic_load(&keeper->next_seq) > 0)
        end(keeper);
    return NULL;
}

/* ---- a keeper ------------------------------------------------------------ */

static enum error name_worker(struct lease_keeper *keeper, const char *worker)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
    char host[WORKER_HOST_BYTES], shown[TEXT_QUOTE_BYTES];
    uint32_t chance = (uint32_t)clock_now_ns();
    size_t length = worker ? strlen(worker) : 0;
    if (worker &&
        (length == 0 || length >= SAMPLER_WORKER_BYTES || strspn(worker, allowed) != length))
        return error_set(ERROR_USAGE, "%s is not the name of a worker: 1 to %d of [A-Za-z0-9._:-]",
                         text_quote(shown, sizeof(shown), worker, length),
                         SAMPLER_WORKER_BYTES - 1);
    if (worker) {
        memcpy(keeper->worker, worker, length + 1);
        /* Above all seqs that an earlier worker of this name has used. */
        atomic_init(&keeper->next_seq, (int64_t)(clock_wall_seconds() * 1e6));
        return OK;
    }
    (void)getrandom(&chance, sizeof(chance), GRND_NONBLOCK); /* otherwise the time is enough */
    worker_name_host(host);
    snprintf(keeper->worker, sizeof(keeper->worker), "%s-%d-%08" PRIx32, host, (int)getpid(),
             chance);
    return OK;
}

enum error lease_keeper_start(const char *url, const struct http_credentials *credentials,
                              const char *stream, const char *worker, int64_t patience_ms,
                              struct lease_keeper **ret_keeper)
{
    struct lease_keeper *keeper = array_new(1, sizeof(*keeper), "leases");
    if (!keeper)
        return ERROR_MEMORY;
    keeper->renew_ns = keeper->give_up_ns = INT64_MAX;
    keeper->patience_ms = patience_ms;
    pthread_mutex_init(&keeper->lock, NULL);
    pthread_cond_init(&keeper->changed, NULL);
    pthread_cond_init(&keeper->acked, NULL);
    pthread_cond_init(&keeper->renewed, NULL);
    enum error error = name_worker(keeper, worker);
    if (!error)
        error = sampler_client_open(url, credentials, stream, patience_ms, &keeper->client);
    if (!error) {
        sampler_client_mute(keeper->client); /* warn() is enough, also of a hundred calls */
        keeper->name = (struct worker_name){.url = sampler_client_url(keeper->client),
                                            .stream = sampler_client_stream(keeper->client),
                                            .worker = keeper->worker};
        error = worker_name_claim(&keeper->name);
    }
    if (!error)
        error = thread_start("tombola-lease", run, keeper, &keeper->thread);
    keeper->started = !error;
    if (error)
        lease_keeper_stop(keeper);
    else
        *ret_keeper = keeper;
    return error;
}

void lease_keeper_watch(struct lease_keeper *keeper, _Atomic size_t *unacked)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->unacked = unacked;
    count_done(keeper, keeper->done);
    pthread_mutex_unlock(&keeper->lock);
}

void lease_keeper_leave(struct lease_keeper *keeper)
{
    if (!keeper)
        return;
    pthread_mutex_lock(&keeper->lock);
    keeper->leaving = true;
    pthread_mutex_unlock(&keeper->lock);
}

void lease_keeper_stop(struct lease_keeper *keeper)
{
    if (!keeper)
        return;
    pthread_mutex_lock(&keeper->lock);
    keeper->stopping = true;
    pthread_cond_signal(&keeper->changed);
    pthread_mutex_unlock(&keeper->lock);
    if (keeper->started)
        pthread_join(keeper->thread, NULL);
    worker_name_give_up(&keeper->name);
    sampler_client_close(keeper->client);
    pthread_cond_destroy(&keeper->changed);
    pthread_cond_destroy(&keeper->acked);
    pthread_cond_destroy(&keeper->renewed);
    pthread_mutex_destroy(&keeper->lock);
    lease_list_release(&keeper->list);
    free(keeper);
}

const char *lease_keeper_worker(const struct lease_keeper *keeper)
{
    return keeper->worker;
}

int64_t lease_keeper_next_seqs(struct lease_keeper *keeper, int64_t count)
{
    return atomic_fetch_add(&keeper->next_seq, count);
}

enum error lease_keeper_add(struct lease_keeper *keeper, const struct sampler_lease *lease,
                            size_t pieces, int64_t asked_ns)
{
    struct lease held = {.seq = lease->seq,
                         .pieces = pieces,
                         .until_ns = clock_after_ns(asked_ns, lease->expires_ms)};
    pthread_mutex_lock(&keeper->lock);
    enum error error = lease_list_add(&keeper->list, &held);
    if (!error) {
        renew_within(keeper, lease->expires_ms);
        pthread_cond_signal(&keeper->changed);
    }
    pthread_mutex_unlock(&keeper->lock);
    return error;
}

/* May it have expired while this process stood still (SIGSTOP, a suspended machine)? Under the
 * lock. */
static bool is_doubtful(const struct lease_keeper *keeper, const struct lease *lease)
{
    return lease && !lease->lost && lease->state == LEASE_HELD && !keeper->stopping &&
           lease->until_ns <= clock_boot_ns() && !stop_requested();
}

/* Under the lock. Returns the lease; NULL: there is none any more. */
static struct lease *renew_first(struct lease_keeper *keeper, int64_t seq)
{
    struct timespec until = clock_timespec(clock_deadline_ns(KNOW_MS));
    struct lease *lease;
    keeper->renew_ns = 0;
    pthread_cond_signal(&keeper->changed);
    do
        lease = lease_list_find(&keeper->list, seq);
    while (is_doubtful(keeper, lease) &&
           !pthread_cond_clockwait(&keeper->renewed, &keeper->lock, CLOCK_MONOTONIC, &until));
    return lease;
}

bool lease_keeper_hands_out(struct lease_keeper *keeper, int64_t seq)
{
    pthread_mutex_lock(&keeper->lock);
    struct lease *lease = lease_list_find(&keeper->list, seq);
    if (is_doubtful(keeper, lease))
        lease = renew_first(keeper, seq);
    bool held = lease && !lease->lost && lease->state != LEASE_DROPPED;
    if (held)
        lease->out = true;
    pthread_mutex_unlock(&keeper->lock);
    return held;
}

static void give_back(struct lease_keeper *keeper, int64_t seq, bool trained)
{
    pthread_mutex_lock(&keeper->lock);
    struct lease *lease = lease_list_find(&keeper->list, seq);
    if (lease && trained) {
        lease->trained++;
    } else if (lease) {
        lease->state = LEASE_DROPPED;
        if (!lease->lost && lease->until_ns > keeper->dropped_until_ns)
            keeper->dropped_until_ns = lease->until_ns;
    }
    if (lease && --lease->pieces == 0 && lease->state == LEASE_DROPPED) {
        keeper->torn += is_torn(lease);
        forget(keeper, lease);
    } else if (lease && lease->pieces == 0) {
        lease->state = LEASE_DONE;
        count_done(keeper, keeper->done + 1);
        if (keeper->done == 1)
            pthread_cond_signal(&keeper->changed);
    }
    pthread_mutex_unlock(&keeper->lock);
}

void lease_keeper_done(struct lease_keeper *keeper, int64_t seq)
{
    give_back(keeper, seq, true);
}

void lease_keeper_drop(struct lease_keeper *keeper, int64_t seq)
{
    give_back(keeper, seq, false);
}

bool lease_keeper_has_dropped(struct lease_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    bool has = keeper->dropped_until_ns > clock_boot_ns();
    pthread_mutex_unlock(&keeper->lock);
    return has;
}

void lease_keeper_await_acks(struct lease_keeper *keeper, int64_t wait_ms)
{
    struct timespec until = clock_timespec(clock_deadline_ns(wait_ms));
    pthread_mutex_lock(&keeper->lock);
    keeper->hurried = true;
    pthread_cond_signal(&keeper->changed);
    pthread_cond_clockwait(&keeper->acked, &keeper->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&keeper->lock);
}

enum error lease_keeper_check_acks(struct lease_keeper *keeper)
{
    enum error error = OK;
    pthread_mutex_lock(&keeper->lock);
    if (clock_left_ms(keeper->give_up_ns) == 0)
        error = error_restore(&keeper->failure);
    pthread_mutex_unlock(&keeper->lock);
    return error ? error_prefix(error, "batches cannot be acked: ") : OK;
}

int64_t lease_keeper_lost(const struct lease_keeper *keeper)
{
    return keeper ? atomic_load(&keeper->lost) : 0;
}
