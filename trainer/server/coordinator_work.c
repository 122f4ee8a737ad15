/* SPDX-License-Identifier: MIT */
/* What the coordinator does for workers: agrees with them on what is trained, and grants
 * batches. */
#include <inttypes.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"
#include "trainer/checkpoint/sampler_order.h"
#include "trainer/server/coordinator_private.h"

#define GRANT_MOST 64  /* the most batches that a worker holds: as many as its feed fetches ahead */
#define AGAIN_MS 100   /* synchronous: after this wait a worker recomputes a slow worker's batch */
#define SILENT_MS 5000 /* a worker silent for this long may lose batches that others need */

enum error coordinator_hello(struct coordinator *coordinator, struct peer *worker)
{
    if (coordinator->phase != COORDINATOR_NEW)
        return coordinator_send_facts(coordinator, worker);
    if (coordinator->proposer) {
        worker->waits = true;
        return OK;
    }
    struct wire_header header = {.type = WIRE_PROPOSE};
    coordinator->proposer = worker;
    coordinator->propose_by_ns = clock_deadline_ns(SILENT_MS);
    return peer_send(worker, &header, NULL, 0);
}

/* Does the proposal agree with this server's options? */
static enum error check_proposal(const struct coordinator *coordinator,
                                 const struct checkpoint *proposal)
{
    const struct model_options *model = coordinator->options.model;
    enum error error = checkpoint_compare(proposal, model);
    return error ? error : checkpoint_compare_hyperparameters(proposal, model);
}

enum error coordinator_propose(struct coordinator *coordinator, struct peer *worker)
{
    struct checkpoint *checkpoint = NULL;
    if (coordinator->phase == COORDINATOR_NEW) {
        enum error error = checkpoint_open_facts("this worker", worker->payload,
                                                 worker->payload_bytes, &checkpoint);
        if (error)
            return error;
        error = check_proposal(coordinator, checkpoint);
        if (error) {
            checkpoint_close(checkpoint);
            return error;
        }
        error = coordinator_set_facts(coordinator, checkpoint);
        if (error)
            return error;
    }
    coordinator->proposer = NULL;
    return coordinator_send_facts(coordinator, worker);
}

/* As after a restart while the logdir's disk is not mounted: a training that began anew would train
 * the same batches again. Restarted, this server looks again. */
enum error coordinator_find_saved(struct coordinator *coordinator, const struct peer *worker)
{
    if (coordinator_saved_bit(coordinator))
        return OK;
    snprintf(coordinator->lost_by, sizeof(coordinator->lost_by), "%s", worker->name);
    return error_set(ERROR_NETWORK, "%s has known of a checkpoint", worker->name);
}

/* Streams of one order may differ in their epochs, which the sampler's operator may raise during a
 * training. A worker of another stream, which has fewer, would end the training of all. Groups of
 * GPUs agree on the last batch in advance. */
enum error coordinator_stream(struct coordinator *coordinator, const struct peer *worker)
{
    int64_t epochs = worker->header.batch, most = coordinator->epochs;
    if (epochs < 1)
        return error_set(ERROR_INPUT, "STREAM of %" PRId64 " epochs", epochs);
    bool is_longer = epochs > most && most > 0 && coordinator->options.is_grouped;
    if (epochs < most || is_longer)
        return error_set(ERROR_CONFLICT,
                         "its stream ends %s than that of the workers before it: all workers of a "
                         "training must have the same --stream (if the epochs of this one were "
                         "changed, start the parameter servers again)",
                         is_longer ? "later" : "earlier");
    if (coordinator->checkpoint) {
        struct stream_position position = coordinator->facts.position;
        position.stream.epochs = coordinator_epochs(coordinator);
        enum error error = sampler_order_check_epochs(&position, &coordinator->held->applied,
                                                      "the training", "has reached", epochs);
        if (error)
            return error;
    }
    coordinator->epochs = epochs;
    coordinator->refused[0] = '\0'; /* a worker trains: who did not is no matter any more */
    return OK;
}

/* How many of the range's batches this shard has not applied. */
static int64_t count_open(const struct coordinator *coordinator, struct index_range range)
{
    const struct index_set *applied = &coordinator->held->applied;
    int64_t open = 0;
    struct index_range gap = index_set_gap(applied, range.first, range.end);
    for (; gap.first < gap.end; gap = index_set_gap(applied, gap.end, range.end))
        open += gap.end - gap.first;
    return open;
}

/* Batches that workers hold and that are not applied yet: each will be a step. */
static int64_t count_granted(struct peer *const peers[], size_t count,
                             const struct coordinator *coordinator)
{
    int64_t open = 0;
    for (size_t i = 0; i < count; i++) {
        const struct index_set *held = &peers[i]->holder.held;
        for (size_t j = 0; j < held->count; j++)
            open += count_open(coordinator, held->ranges[j]);
    }
    return open;
}

/* Is it applied, or stored for a step that lacks other gradients? */
static bool was_pushed(const struct held_shard *held, int64_t batch)
{
    return index_set_has(&held->applied, batch) || held_shard_has(held, batch);
}

enum error coordinator_heed(struct coordinator *coordinator, struct peer *worker,
                            const struct wire_header *header)
{
    struct batch_ledger *ledger = &coordinator->ledger;
    bool alone = coordinator->options.servers == 1;
    enum error error = OK;
    /* What all servers had in an earlier generation they may have lost since. */
    bool is_of_now = header->generation == coordinator->generation;
    if (is_of_now && header->done >= 0 && was_pushed(coordinator->held, header->done))
        error = batch_ledger_done(ledger, &worker->holder, header->done);
    if (!error && alone && header->type != WIRE_PULL &&
        index_set_has(&coordinator->held->applied, header->batch))
        error = batch_ledger_done(ledger, &worker->holder, header->batch);
    if (!error && header->type == WIRE_PULL && header->batch >= 0) {
        if (header->batch < ledger->end)
            log_info("%s: its stream ends before batch %" PRId64, worker->name, header->batch);
        coordinator->changed |= worker->holder.held.count > 0; /* which others may wait for */
        error = batch_ledger_give_back(ledger, &worker->holder);
        if (!error)
            error = batch_ledger_end(ledger, header->batch);
        held_shard_end(coordinator->held, header->batch);
    }
    if (!error && header->type != WIRE_PULL && coordinator->initial)
        error = cut_save_initial(coordinator);
    return error;
}

/* No more batches are needed, but a returned one may have been applied here and not by every other
 * server: grants that one again. */
static enum error grant_unfinished(struct coordinator *coordinator, struct peer *worker,
                                   struct index_range *ret_range)
{
    const struct index_set *applied = &coordinator->held->applied;
    const struct index_set *returned = &coordinator->ledger.returned;
    for (size_t i = 0; i < returned->count; i++) {
        struct index_range range = returned->ranges[i];
        for (int64_t k = range.first; k < range.end; k++) {
            if (!index_set_has(applied, k))
                continue;
            *ret_range = (struct index_range){k, k + 1};
            return batch_ledger_grant_one(&coordinator->ledger, &worker->holder, k);
        }
    }
    return OK;
}

/* ---- synchronous -------------------------------------------------------- */

static bool is_held(int64_t batch, struct peer *const peers[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (index_set_has(&peers[i]->holder.held, batch))
            return true;
    }
    return false;
}

/* The `rank`th batch of the next step, if nobody holds it; with `again`, if this worker does not:
 * another one is slow with it. -1: neither. */
static int64_t candidate(const struct coordinator *coordinator, const struct peer *worker,
                         size_t rank, bool again, struct peer *const peers[], size_t count)
{
    int64_t batch = held_shard_next(coordinator->held, rank);
    if (batch < 0 || held_shard_has(coordinator->held, batch))
        return -1;
    if (again)
        return index_set_has(&worker->holder.held, batch) ? -1 : batch;
    return is_held(batch, peers, count) ? -1 : batch;
}

/* Prefers the worker's rank in the last step, so that it can fetch ahead; else the next free
 * one. */
static int64_t choose_batch(const struct coordinator *coordinator, struct peer *worker, bool again,
                            struct peer *const peers[], size_t count)
{
    size_t aggregate = coordinator->options.aggregate;
    for (size_t i = 0; i < aggregate; i++) {
        size_t rank = (worker->rank + i) % aggregate;
        int64_t batch = candidate(coordinator, worker, rank, again, peers, count);
        if (batch < 0)
            continue;
        worker->rank = rank;
        return batch;
    }
    return -1;
}

/* Grants one batch of the next step. A worker that has waited for long gets one that another worker
 * holds: the first push counts. */
static enum error grant_of_step(struct coordinator *coordinator, struct peer *worker,
                                struct peer *const peers[], size_t count,
                                struct index_range *ret_range)
{
    bool again = clock_now_ns() - worker->asked_ns > AGAIN_MS * INT64_C(1000000);
    if (coordinator_step(coordinator) >= coordinator->options.train_steps)
        return grant_unfinished(coordinator, worker, ret_range);
    int64_t batch = choose_batch(coordinator, worker, false, peers, count);
    if (batch < 0 && again)
        batch = choose_batch(coordinator, worker, true, peers, count);
    if (batch < 0)
        return grant_unfinished(coordinator, worker, ret_range);
    *ret_range = (struct index_range){batch, batch + 1};
    return batch_ledger_grant_one(&coordinator->ledger, &worker->holder, batch);
}

enum error coordinator_grant(struct coordinator *coordinator, struct peer *worker,
                             const struct wire_header *header, struct peer *const peers[],
                             size_t count, struct index_range *ret_range)
{
    *ret_range = (struct index_range){0, 0};
    if (header->stock > GRANT_MOST / 2 || coordinator->phase != COORDINATOR_RUNNING)
        return OK;
    if (coordinator->options.aggregate > 0)
        return grant_of_step(coordinator, worker, peers, count, ret_range);
    int64_t workers = 1;
    for (size_t i = 0; i < count; i++)
        workers += peers[i] != worker && peers[i]->kind == PEER_WORKER;
    int64_t left = coordinator->options.train_steps - coordinator_step(coordinator) -
                   count_granted(peers, count, coordinator);
    if (left <= 0)
        return grant_unfinished(coordinator, worker, ret_range);
    int64_t most = left / (2 * workers) + 1;
    if (most > GRANT_MOST - (int64_t)header->stock)
        most = GRANT_MOST - (int64_t)header->stock;
    return batch_ledger_grant(&coordinator->ledger, &worker->holder, most, ret_range);
}

enum error coordinator_stop(struct coordinator *coordinator, const struct peer *evaluator)
{
    struct batch_ledger *ledger = &coordinator->ledger;
    size_t aggregate = coordinator->options.aggregate;
    if (coordinator->phase == COORDINATOR_OVER)
        return OK;
    if (coordinator->phase != COORDINATOR_RUNNING ||
        (coordinator->options.is_grouped && coordinator_made_step(coordinator) == 0))
        return error_set(ERROR_NETWORK, "there is nothing to stop yet");
    if (coordinator->options.is_grouped) { /* ends where the next group starts */
        coordinator->stopped = true;
        return OK;
    }
    int64_t end =
        aggregate > 0 ? held_shard_next(coordinator->held, aggregate - 1) + 1 : ledger->next;
    if (coordinator->stopped || end == 0) /* the stream ends with this step anyway */
        return OK;
    log_info("%s ends the training early, at step %" PRId64 " of %" PRId64, evaluator->name,
             coordinator_step(coordinator), coordinator->options.train_steps);
    coordinator->stopped = coordinator->changed = true;
    held_shard_end(coordinator->held, end);
    return batch_ledger_end(ledger, end);
}

enum error work_take_from_silent(struct coordinator *coordinator, struct peer *const peers[],
                                 size_t count)
{
    int64_t before_ns = clock_now_ns() - SILENT_MS * INT64_C(1000000);
    bool wanted = false;
    enum error error = OK;
    for (size_t i = 0; i < count; i++)
        wanted |= peers[i]->kind == PEER_WORKER && peers[i]->waits;
    if (wanted && coordinator->proposer && clock_now_ns() > coordinator->propose_by_ns) {
        log_info("%s has not described the model for %d s: asking another worker",
                 coordinator->proposer->name, SILENT_MS / 1000);
        coordinator->proposer = NULL;
        coordinator->changed = true;
    }
    if (wanted && coordinator->options.aggregate > 0 && clock_now_ns() > coordinator->again_ns) {
        coordinator->again_ns = clock_deadline_ns(AGAIN_MS);
        coordinator->changed = true;
    }
    for (size_t i = 0; i < count && wanted && !error; i++) {
        struct peer *peer = peers[i];
        if (peer->waits || peer->holder.held.count == 0 || peer->asked_ns > before_ns)
            continue;
        log_info("%s has been silent for %d s: its batches go to other workers", peer->name,
                 SILENT_MS / 1000);
        coordinator->changed = true;
        error = batch_ledger_give_back(&coordinator->ledger, &peer->holder);
    }
    return error;
}
