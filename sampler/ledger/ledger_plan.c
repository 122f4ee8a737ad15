/* SPDX-License-Identifier: MIT */
#include "sampler/ledger/ledger_plan.h"

#include <inttypes.h>

#include "sampler/ledger/conflicts.h"

/* ---- the mean time that a batch is held --------------------------------- */

/* The mean with one more sample. The first samples have equal weight, later ones a sixteenth. */
static double mean_with(double mean_ms, int64_t *samples, int64_t held_ms)
{
    if (*samples < LEDGER_MEAN_SAMPLES)
        ++*samples;
    int64_t weight = mean_ms > 0 ? *samples : 1;
    return mean_ms + ((double)held_ms - mean_ms) / (double)weight;
}

static int64_t rounded_mean(double mean_ms)
{
    return mean_ms < 1 ? 1 : (int64_t)(mean_ms + 0.5);
}

/* ---- acks --------------------------------------------------------------- */

static enum error refuse_acked(const char *worker, int64_t seq)
{
    enum error error = error_set(
        ERROR_CONFLICT, "worker=%s seq=%" PRId64 " was acked; ask for the next seq", worker, seq);
    return error_set_kind(error, PROBLEM_PAIR_ACKED);
}

static enum error refuse_forgotten(const char *worker, int64_t seq, int64_t below)
{
    enum error error =
        error_set(ERROR_CONFLICT,
                  "worker=%s seq=%" PRId64 ": the worker was idle longest and forgotten, and with "
                  "it what its seqs below %" PRId64 " got; go on from there, or take a new name",
                  worker, seq, below);
    return error_set_kind(error, PROBLEM_WORKER_FORGOTTEN);
}

static enum error refuse_unused(const char *worker, int64_t seq)
{
    enum error error =
        error_set(ERROR_CONFLICT, "worker=%s seq=%" PRId64 " was never leased", worker, seq);
    return error_set_kind(error, PROBLEM_NEVER_LENT);
}

/* Why this pair no longer has a batch; `kind`: for a pair that had one and lost it. */
static enum error refuse_pair(const struct ledger *ledger, const struct worker_record *record,
                              const char *worker, int64_t seq, const char *kind)
{
    int64_t below =
        record ? record->forgotten_below : worker_table_forgotten_below(&ledger->workers, worker);
    if (seq < below)
        return refuse_forgotten(worker, seq, below);
    if (!record || !intervals_has(&record->used, seq))
        return refuse_unused(worker, seq);
    if (intervals_has(&record->acked, seq))
        return refuse_acked(worker, seq);
    enum error error =
        error_set(ERROR_CONFLICT,
                  "worker=%s seq=%" PRId64
                  " was lost: its lease expired and the batch was redelivered, or it was released "
                  "or withdrawn",
                  worker, seq);
    return error_set_kind(error, kind);
}

uint32_t ledger_worker(const struct ledger *ledger, const char *worker)
{
    return worker ? worker_table_find(&ledger->workers, worker) : WORKER_NONE;
}

static const struct worker_record *record_of(const struct ledger *ledger, uint32_t worker)
{
    return worker == WORKER_NONE ? NULL : worker_table_get(&ledger->workers, worker);
}

enum error ledger_plan_acks(const struct ledger *ledger, const struct ledger_pull *pull,
                            uint32_t worker, int64_t now_ms, size_t *ret_live, int64_t *ret_mean_ms)
{
    const struct worker_record *record = record_of(ledger, worker);
    double mean_ms = (double)ledger->mean_ms;
    int64_t samples = ledger->samples;
    size_t live = 0;
    bool sampled = false;
    for (size_t i = 0; i < pull->ack_count; i++) {
        int64_t seq = pull->acks[i];
        uint32_t at = record ? lease_set_find(&ledger->leases, worker, seq) : LEASE_NONE;
        if (at == LEASE_NONE) {
            if (record && intervals_has(&record->acked, seq))
                continue;
            return refuse_pair(ledger, record, pull->worker, seq, PROBLEM_LATE_ACK);
        }
        const struct lease *lease = lease_set_get(&ledger->leases, at);
        live++;
        if (lease->leased_ms < 0)
            continue; /* the start is not known */
        mean_ms = mean_with(mean_ms, &samples, now_ms - lease->leased_ms);
        sampled = true;
    }
    *ret_live = live;
    *ret_mean_ms = sampled ? rounded_mean(mean_ms) : 0;
    return OK;
}

enum error ledger_plan_extend(const struct ledger *ledger, const struct ledger_pull *pull,
                              uint32_t worker)
{
    const struct worker_record *record = record_of(ledger, worker);
    for (size_t i = 0; i < pull->ack_count; i++) {
        if (!record || lease_set_find(&ledger->leases, worker, pull->acks[i]) == LEASE_NONE)
            return refuse_pair(ledger, record, pull->worker, pull->acks[i], PROBLEM_LATE_ACK);
    }
    return OK;
}

/* ---- seqs that only count as acked -------------------------------------- */

static bool counts_as_acked(const struct ledger_pull *pull, size_t count, int64_t seq)
{
    for (size_t i = 0; i < count; i++) {
        if (pull->acks[i] == seq)
            return true;
    }
    return false;
}

/* The first in the queue, once these are acked. */
static uint32_t first_waiting(const struct ledger *ledger, const struct ledger_pull *pull,
                              uint32_t worker)
{
    uint32_t number = lease_set_waiting(&ledger->leases);
    while (number != LEASE_NONE) {
        const struct lease *lease = lease_set_get(&ledger->leases, number);
        if (lease->worker == WORKER_NONE || lease->worker != worker ||
            !counts_as_acked(pull, pull->ack_count, lease->seq))
            break;
        number = lease->links[LEASE_QUEUE].after;
    }
    return number;
}

/* How many batches will still be leased once these are acked. */
static size_t count_leased(const struct ledger *ledger, const struct ledger_pull *pull,
                           uint32_t worker)
{
    size_t leased = ledger->leases.heap_count;
    for (size_t i = 0; i < pull->ack_count && worker != WORKER_NONE; i++) {
        uint32_t number = lease_set_find(&ledger->leases, worker, pull->acks[i]);
        if (number != LEASE_NONE && !lease_set_get(&ledger->leases, number)->waits &&
            !counts_as_acked(pull, i, pull->acks[i]))
            leased--;
    }
    return leased;
}

/* Nothing is left to draw, and nothing will be redelivered: pausing has no effect any more. */
static bool is_over(const struct ledger *ledger, const struct batching *batching,
                    const struct ledger_pull *pull, uint32_t worker)
{
    return ledger->position >= batching_end(batching) && ledger->gaps.count == 0 &&
           first_waiting(ledger, pull, worker) == LEASE_NONE &&
           count_leased(ledger, pull, worker) == 0;
}

/* ---- draws -------------------------------------------------------------- */

static void plan_lease(const struct ledger *ledger, uint32_t number, enum ledger_plan_kind kind,
                       struct ledger_plan *plan)
{
    const struct lease *lease = lease_set_get(&ledger->leases, number);
    *plan = (struct ledger_plan){
        .kind = kind,
        .span = {.first = lease->first, .positions = lease->positions, .units = lease->units},
        .attempt = (int64_t)lease->attempt + (kind == PLAN_REDELIVER),
        .lease = number,
    };
}

/* Its expiry shows that a batch is held at least this long. */
static void plan_redeliver(const struct ledger *ledger, uint32_t number, int64_t now_ms,
                           struct ledger_plan *plan)
{
    const struct lease *lease = lease_set_get(&ledger->leases, number);
    plan_lease(ledger, number, PLAN_REDELIVER, plan);
    int64_t samples = ledger->samples;
    if (lease->worker != WORKER_NONE && lease->leased_ms >= 0)
        plan->mean_ms =
            rounded_mean(mean_with((double)ledger->mean_ms, &samples, now_ms - lease->leased_ms));
}

static enum error check_same_size(const struct lease *lease, const char *worker, int64_t size)
{
    if (lease->asked == size)
        return OK;
    enum error error = error_set(ERROR_CONFLICT,
                                 "size=%" PRId64 ": worker=%s seq=%" PRId64 " asked for %" PRId64
                                 " before; it gets the same batch only for the same size",
                                 size, worker, lease->seq, lease->asked);
    return error_set_kind(error, PROBLEM_OTHER_SIZE);
}

/* The pair may have a batch, or have had one. ERROR_END: it is new. */
static enum error plan_pair(const struct ledger *ledger, const struct ledger_pull *pull,
                            uint32_t worker, int64_t now_ms, struct ledger_plan *plan)
{
    const char *name = pull->worker;
    int64_t seq = pull->seq;
    if (counts_as_acked(pull, pull->ack_count, seq))
        return refuse_acked(name, seq);
    const struct worker_record *record = record_of(ledger, worker);
    if (!record && seq < worker_table_forgotten_below(&ledger->workers, name))
        return refuse_pair(ledger, record, name, seq, PROBLEM_PAIR_LOST);
    if (!record)
        return ERROR_END;
    uint32_t number = lease_set_find(&ledger->leases, worker, seq);
    if (number == LEASE_NONE && intervals_has(&record->used, seq))
        return refuse_pair(ledger, record, name, seq, PROBLEM_PAIR_LOST);
    if (number == LEASE_NONE && record->used.count >= WORKER_SEQS_LIMIT &&
        !intervals_has(&record->used, seq - 1))
        return error_set(ERROR_MEMORY,
                         "worker=%s seq=%" PRId64
                         ": its seqs have %d holes between them, which is the limit; count them up",
                         name, seq, WORKER_SEQS_LIMIT);
    if (number == LEASE_NONE)
        return ERROR_END;
    const struct lease *lease = lease_set_get(&ledger->leases, number);
    enum error error = check_same_size(lease, name, pull->size);
    if (error)
        return error;
    if (lease->waits || lease->deadline_ms <= now_ms) {
        plan_redeliver(ledger, number, now_ms, plan); /* it expired, and is nobody else's */
        return OK;
    }
    plan_lease(ledger, number, PLAN_KEPT, plan);
    plan->expires_ms = lease->deadline_ms > now_ms ? lease->deadline_ms - now_ms : 0;
    return OK;
}

enum error ledger_plan_pair(const struct ledger *ledger, const struct ledger_pull *pull,
                            uint32_t worker, int64_t now_ms)
{
    struct ledger_plan plan;
    struct ledger_pull alone = *pull;
    alone.ack_count = 0;
    enum error error = plan_pair(ledger, &alone, worker, now_ms, &plan);
    return error == ERROR_END ? OK : error;
}

enum error ledger_plan_unfinished(const struct batching_search *search)
{
    return error_set(ERROR_UNAVAILABLE,
                     "the units of this design can only be counted: %" PRId64
                     " positions from %" PRId64 " on were looked at for a batch of %" PRId64
                     "; ask again",
                     search->at - search->position, search->position, search->size);
}

static enum error plan_new(const struct ledger *ledger, const struct batching *batching,
                           struct batching_search *search, const struct ledger_pull *pull,
                           uint32_t worker, int64_t now_ms, struct ledger_plan *plan)
{
    int64_t budget = LEDGER_PLAN_POSITIONS;
    *plan = (struct ledger_plan){.kind = PLAN_NEW};
    if (!batching_search_next(search, batching, ledger->position, pull->size, POSITION_LIMIT,
                              &budget, &plan->span))
        return ledger_plan_unfinished(search);
    if (plan->span.units > 0)
        return OK;
    size_t leased = count_leased(ledger, pull, worker);
    if (leased == 0) {
        plan->kind = PLAN_END;
        return OK;
    }
    const struct lease *first = lease_set_get(&ledger->leases, lease_set_earliest(&ledger->leases));
    int64_t left_ms = first->deadline_ms - now_ms;
    error_set(ERROR_TIMEOUT,
              "nothing is left but %zu leased %s; the first lease, of worker %s, expires in "
              "%" PRId64 " ms",
              leased, leased == 1 ? "batch" : "batches",
              worker_table_get(&ledger->workers, first->worker)->name, left_ms > 1 ? left_ms : 1);
    return error_set_kind(ERROR_TIMEOUT, PROBLEM_ALL_LENT);
}

/* The batch at the start of a gap: at most `size` units, none beyond an epoch's end except with
 * tail span. No tail drops anything here, since the whole gap must be drawn. */
static enum error plan_piece(const struct ledger *ledger, const struct batching *batching,
                             struct batching_search *search, int64_t size, struct ledger_plan *plan)
{
    int64_t budget = LEDGER_PLAN_POSITIONS;
    const struct interval *gap = intervals_at(&ledger->gaps, 0);
    struct batching whole = *batching;
    whole.epochs = 0;
    if (whole.tail == TAIL_DROP)
        whole.tail = TAIL_KEEP;
    *plan = (struct ledger_plan){.kind = PLAN_PIECE};
    if (!batching_search_next(search, &whole, gap->begin, size, gap->end, &budget, &plan->span))
        return ledger_plan_unfinished(search);
    if (plan->span.units == 0) /* in the whole gap: passes it, even if the span is called the end */
        plan->span = (struct span){.first = gap->begin, .positions = gap->end - gap->begin};
    return OK;
}

enum error ledger_plan_draw(struct ledger *ledger, const struct batching *batching,
                            struct batching_search *search, const struct ledger_pull *pull,
                            uint32_t worker, int64_t now_ms, struct ledger_plan *ret_plan)
{
    ledger_expire(ledger, now_ms);
    enum error error = pull->worker ? plan_pair(ledger, pull, worker, now_ms, ret_plan) : ERROR_END;
    if (error != ERROR_END)
        return error;
    if (ledger->paused && !is_over(ledger, batching, pull, worker))
        return error_set_kind(error_set(ERROR_CONFLICT, "the stream is paused"), PROBLEM_PAUSED);
    uint32_t waiting = first_waiting(ledger, pull, worker);
    if (waiting != LEASE_NONE) {
        plan_redeliver(ledger, waiting, now_ms, ret_plan);
        return OK;
    }
    if (ledger->gaps.count > 0)
        return plan_piece(ledger, batching, search, pull->size, ret_plan);
    return plan_new(ledger, batching, search, pull, worker, now_ms, ret_plan);
}
