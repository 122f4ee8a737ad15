/* SPDX-License-Identifier: MIT */
#include "trainer/exchange/rank.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "trainer/exchange/rank_private.h"
#include "trainer/ledger/step_batches.h"

#define AHEAD 4      /* steps whose batches are requested from the feed */
#define LOOK_MS 100  /* between two checks at the end of a training */
#define LAST_MS 5000 /* for a last state to be sent, and for the others to leave */

static struct model *model_of(const struct rank *rank)
{
    return rank->exchange->model;
}

/* ---- life cycle --------------------------------------------------------- */

static enum error check_use(const struct rank *rank)
{
    const struct engine *engine = rank->exchange->engine;
    if (engine->device->kind != DEVICE_CUDA)
        return error_set(ERROR_USAGE, "--exchange nccl is for GPUs, and this worker computes on %s",
                         engine->kernel->description);
    if (rank->batches < 0)
        return error_set(ERROR_USAGE,
                         "--exchange nccl: only the sampler knows how many batches this stream's "
                         "design has in its epochs; serve it without --epochs");
    return OK;
}

enum error rank_open(struct exchange *exchange, int64_t batches, struct rank **ret_rank)
{
    struct rank *rank = array_new(1, sizeof(*rank), "a rank");
    if (!rank)
        return ERROR_MEMORY;
    rank->exchange = exchange;
    rank->batches = batches;
    rank_watch_init(&rank->watch);
    enum error error = check_use(rank);
    if (!error)
        error = nccl_open(&rank->nccl);
    if (!error)
        error = joint_step_init(&rank->step, exchange->engine, exchange->model);
    if (!error) {
        log_info("gradients are exchanged by %s", nccl_describe(rank->nccl));
        rank->watch.link = &exchange->remotes[0].link;
        rank->watch.nccl = rank->nccl;
        rank->watch.step = &rank->step;
        rank->watch.device = exchange->engine->device;
        error = rank_join(rank);
    }
    if (error) {
        rank_close(rank);
        return error;
    }
    *ret_rank = rank;
    return OK;
}

/* ---- states for server 0 -------------------------------------------------- */

/* Sends the state after the last enqueued step, unless the group breaks meanwhile. */
static enum error send_state(struct rank *rank)
{
    struct model *model = model_of(rank);
    size_t count = model_state_count(model);
    if (!rank->copy)
        rank->copy = array_new(count, sizeof(float), "a checkpoint's state");
    if (!rank->copy)
        return ERROR_MEMORY;
    enum error error = model_read(model, rank->copy);
    bool is_whole = joint_step_made(&rank->step) == model_get_step(model);
    if (!error && is_whole)
        rank_watch_send(&rank->watch, rank->copy, count, model_get_step(model));
    return error;
}

static enum error serve_wishes(struct rank *rank)
{
    bool wanted = rank->rank == 0 && rank_watch_wants_state(&rank->watch);
    return wanted && !rank_is_broken(rank) ? send_state(rank) : OK;
}

static bool is_sent_in_time(struct rank *rank)
{
    return rank_watch_await_sent(&rank->watch, clock_deadline_ns(LAST_MS));
}

/* If rank 0 must stop, sends the state since its last STATE: once that is sent, since both are sent
 * from the same memory. */
static void send_last(struct rank *rank)
{
    if (rank->rank > 0 || rank_is_broken(rank) || !rank->has_values || !stop_requested())
        return;
    bool is_sent = is_sent_in_time(rank);
    if (is_sent && send_state(rank))
        log_warning("the last state was not sent to server 0: %s", error_message());
    else if (!is_sent || !is_sent_in_time(rank))
        log_warning("the last state was not sent to server 0, which did not take it in time");
}

void rank_close(struct rank *rank)
{
    if (!rank)
        return;
    if (rank->nccl && rank->group != 0) {
        send_last(rank);
        if (rank_leave(rank))
            log_warning("%s", error_message());
    }
    rank_watch_release(&rank->watch);
    nccl_close(rank->nccl);
    joint_step_release(&rank->step);
    index_set_release(&rank->applied);
    index_set_release(&rank->asked);
    free(rank->copy);
    free(rank);
}

/* ---- steps -------------------------------------------------------------- */

static bool is_finished(const struct rank *rank)
{
    return model_get_step(model_of(rank)) >= rank->last ||
           step_batches_at(&rank->applied, 0, rank->batches) < 0;
}

/* This rank's next batch in the current step; -1: it has contributed all of its batches. */
static int64_t next_batch(const struct rank *rank)
{
    bool is_own = rank->place < (int64_t)rank->exchange->options.aggregate;
    return is_own ? step_batches_at(&rank->applied, rank->place, rank->batches) : -1;
}

/* An error of NCCL ends the group: this rank's part of the step is lost, and computed again. */
static enum error make_step(struct rank *rank)
{
    int64_t aggregate = (int64_t)rank->exchange->options.aggregate;
    enum error error = joint_step_make(&rank->step, rank->nccl);
    if (error == ERROR_NETWORK) {
        rank_watch_break_off(&rank->watch, error_message());
        return OK;
    }
    if (!error)
        error = step_batches_apply(&rank->applied, aggregate, rank->batches);
    if (error)
        return error;
    rank->place = (int64_t)rank->rank;
    rank_watch_tell(&rank->watch, model_get_step(model_of(rank)));
    return serve_wishes(rank);
}

/* Called once all steps are enqueued. OK: the group ended before the training. */
static enum error await_end(struct rank *rank)
{
    const struct engine *engine = rank->exchange->engine;
    enum error error = device_queue_wait(engine->device, engine->queue);
    if (!error && !rank_is_broken(rank))
        rank_watch_finish(&rank->watch);
    while (!error && !rank_is_broken(rank)) {
        if (rank_watch_is_over(&rank->watch)) {
            rank_watch_stop(&rank->watch);
            nccl_end(rank->nccl, clock_deadline_ns(LAST_MS));
            return error_set(ERROR_END, "the training is over");
        }
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped while server 0 saves the last step");
        (void)rank_watch_await_change(&rank->watch, clock_deadline_ns(LOOK_MS));
        error = serve_wishes(rank);
    }
    return error;
}

/* ---- batches ------------------------------------------------------------ */

static enum error ask_feed(struct rank *rank, struct feed *feed, int64_t batch)
{
    if (batch < 0 || index_set_has(&rank->asked, batch))
        return OK;
    enum error error = index_set_add(&rank->asked, (struct index_range){batch, batch + 1});
    return error ? error : feed_grant(feed, batch, 1);
}

/* Requests the rest of this rank's batches of the current step, and those of the next steps. */
static enum error ask_ahead(struct rank *rank, struct feed *feed)
{
    int64_t aggregate = (int64_t)rank->exchange->options.aggregate;
    enum error error = OK;
    for (int64_t i = 0; i < AHEAD && !error; i++) {
        int64_t place = i == 0 ? rank->place : (int64_t)rank->rank;
        for (; place < aggregate && !error; place += (int64_t)rank->ranks)
            error = ask_feed(rank, feed,
                             step_batches_at(&rank->applied, i * aggregate + place, rank->batches));
    }
    return error;
}

enum error rank_refill(struct rank *rank, struct feed *feed)
{
    enum error error = OK;
    while (!error) {
        if (rank_is_broken(rank))
            error = rank_join(rank);
        else if (is_finished(rank))
            error = await_end(rank);
        else if (next_batch(rank) >= 0)
            return ask_ahead(rank, feed);
        else
            error = make_step(rank);
    }
    return error;
}

bool rank_take(struct rank *rank, int64_t batch)
{
    struct index_range one = {batch, batch + 1};
    return !index_set_remove(&rank->asked, one) && !rank_is_broken(rank) &&
           batch == next_batch(rank);
}

enum error rank_push(struct rank *rank, size_t rows)
{
    enum error error = rows > 0 ? joint_step_add(&rank->step) : OK;
    rank->place += (int64_t)rank->ranks;
    return error || next_batch(rank) >= 0 ? error : make_step(rank);
}

enum error rank_end_stream(const struct rank *rank, int64_t end)
{
    return error_set(ERROR_CONFLICT,
                     "the sampler has no batch %" PRId64 " of this stream, which has %" PRId64, end,
                     rank->batches);
}
