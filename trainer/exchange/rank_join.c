/* SPDX-License-Identifier: MIT */
/* How a worker becomes a rank: it joins, receives its place, connects over NCCL, and receives the
 * values of the step from which the group starts. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "trainer/exchange/rank_private.h"
#include "trainer/wire/group.h"

#define SEND_MS 60000
#define SAY_MS 6000      /* until the log says what the worker waits for */
#define CONNECT_MS 60000 /* for NCCL to connect all ranks */
#define POLL_MS 2
#define AGAIN_MS 1000    /* after a group that did not connect */
#define FAILURES_LIMIT 5 /* such groups in a row */

_Static_assert(GROUP_ID_BYTES == NCCL_ID_BYTES, "an id is NCCL's");

static struct remote *zero_of(const struct rank *rank)
{
    return &rank->exchange->remotes[0];
}

enum error rank_leave(struct rank *rank)
{
    const struct engine *engine = rank->exchange->engine;
    rank_watch_stop(&rank->watch);
    joint_step_stop(&rank->step);
    nccl_abort(rank->nccl);
    rank->group = 0;
    return device_queue_wait(engine->device, engine->queue);
}

/* ---- frames to and from server 0 ------------------------------------------ */

/* Waits for server 0's answer without a limit: it may itself be waiting for other workers. */
static enum error await_answer(struct rank *rank, struct wire_header *ret_header)
{
    struct remote *zero = zero_of(rank);
    uint64_t most = group_frame_limit(model_state_count(rank->exchange->model));
    enum error error = link_await(&zero->link, clock_deadline_ns(SAY_MS));
    if (error == ERROR_TIMEOUT) {
        log_info("waiting for %s to say who trains together", zero->name);
        error = link_await(&zero->link, INT64_MAX);
    }
    return error ? error : link_receive(&zero->link, most, ret_header, clock_deadline_ns(SEND_MS));
}

static enum error take_place(struct rank *rank, const struct wire_header *header,
                             void **ret_payload, struct group_frame *ret_frame)
{
    struct remote *zero = zero_of(rank);
    void *payload = array_new(header->bytes + 1, 1, "a place in a group");
    if (!payload)
        return ERROR_MEMORY;
    enum error error = link_read(&zero->link, payload, header->bytes, clock_deadline_ns(SEND_MS));
    if (!error)
        error =
            group_frame_read(header, payload, model_state_count(rank->exchange->model), ret_frame);
    *ret_payload = payload;
    return error;
}

/* Sends JOIN and reads the answer's header; *ret_header of type WIRE_NEWS: the training is over. */
static enum error ask_for_place(struct rank *rank, struct wire_header *ret_header)
{
    struct remote *zero = zero_of(rank);
    struct wire_header header = {.type = WIRE_JOIN,
                                 .generation = rank->has_values ? rank->exchange->generation : 0,
                                 .batch = WIRE_NONE,
                                 .done = rank->batches < INT64_MAX ? rank->batches : WIRE_NONE,
                                 .step =
                                     rank->has_values ? joint_step_made(&rank->step) : WIRE_NONE};
    enum error error = link_send(&zero->link, &header, NULL, 0, clock_deadline_ns(SEND_MS));
    if (!error)
        error = await_answer(rank, ret_header);
    if (!error)
        exchange_was_answered(rank->exchange, zero);
    if (!error && ret_header->type != WIRE_GROUP && ret_header->type != WIRE_NEWS)
        error = error_set(ERROR_INPUT, "%s answers %s to JOIN", zero->name,
                          wire_type_name(ret_header->type));
    return error;
}

/* Makes the group's id, as rank 0, and sends it to server 0. *ret_stands false: the group is
 * already over. */
static enum error make_id(struct rank *rank, const struct wire_header *place,
                          char id[GROUP_ID_BYTES], bool *ret_stands)
{
    struct remote *zero = zero_of(rank);
    struct wire_header header = {
        .type = WIRE_ID, .generation = place->generation, .batch = place->batch, .done = WIRE_NONE};
    struct iovec part = {id, GROUP_ID_BYTES};
    enum error error = nccl_make_id(rank->nccl, id);
    if (!error)
        error = link_send(&zero->link, &header, &part, 1, clock_deadline_ns(SEND_MS));
    if (!error)
        error = await_answer(rank, &header);
    *ret_stands = !error && header.type == WIRE_NEWS && header.batch == place->batch;
    return error;
}

/* ---- the group ---------------------------------------------------------- */

/* ERROR_TIMEOUT: the group ended before all ranks had connected. */
static enum error connect_ranks(struct rank *rank, const struct group_place *place)
{
    int64_t deadline_ns = clock_deadline_ns(CONNECT_MS);
    enum error error = nccl_begin(rank->nccl, place->id, place->ranks, place->rank);
    if (error)
        return error;
    while ((error = nccl_poll(rank->nccl)) == ERROR_TIMEOUT) {
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped while GPUs connect");
        if (rank_is_broken(rank))
            return error_set(ERROR_TIMEOUT, "its group ended before all GPUs had connected");
        if (clock_now_ns() > deadline_ns)
            return error_set(ERROR_NETWORK,
                             "the GPUs of %" PRIu32 " workers have not connected "
                             "within %d s",
                             place->ranks, CONNECT_MS / 1000);
        clock_sleep_ms(POLL_MS);
    }
    if (error == ERROR_CONFLICT)
        return error_prefix(error, "each worker needs a GPU of its own (--device cuda:N, or "
                                   "CUDA_VISIBLE_DEVICES): ");
    if (!error)
        rank_watch_connects(&rank->watch);
    return error;
}

/* Broadcasts the source's values and waits for them. ERROR_TIMEOUT: the group ended first, and the
 * received values may be garbage. */
static enum error share_values(struct rank *rank, const struct wire_header *header,
                               const struct group_frame *frame)
{
    struct exchange *exchange = rank->exchange;
    const struct engine *engine = exchange->engine;
    struct model *model = exchange->model;
    enum error error = OK;
    bool is_source = frame->place.source == frame->place.rank;
    if (frame->state)
        error = model_write(model, frame->state, header->step);
    rank->has_values = is_source && !error;
    if (!error)
        error =
            nccl_broadcast(rank->nccl, model_values(model), model_state_count(model),
                           frame->place.source, device_queue_native(engine->device, engine->queue));
    if (!error)
        error = device_queue_wait(engine->device, engine->queue);
    if (!error && joint_step_is_stopped(&rank->step))
        error = error_set(ERROR_TIMEOUT, "its group ended before all GPUs had the same values");
    rank->has_values |= !error;
    return error;
}

static enum error begin(struct rank *rank, const struct wire_header *header,
                        const struct group_frame *frame)
{
    const struct group_place *place = &frame->place;
    int64_t had = joint_step_made(&rank->step);
    rank->exchange->generation = header->generation;
    joint_step_begin(&rank->step, header->step);
    enum error error = index_set_copy(&rank->applied, &frame->applied);
    rank->group = header->batch;
    rank->rank = place->rank;
    rank->ranks = place->ranks;
    rank->last = place->last;
    rank->place = place->rank;
    if (!error)
        error = rank_watch_start(&rank->watch, header->generation, header->batch);
    if (!error)
        error = connect_ranks(rank, place);
    if (error) { /* the values have not changed */
        rank_watch_stop(&rank->watch);
        joint_step_begin(&rank->step, had);
    }
    if (!error)
        error = share_values(rank, header, frame);
    if (error)
        return error;
    rank->failures = 0;
    log_info("rank %zu of %zu GPUs that train together, from step %" PRId64 " on (group %" PRId64
             ")",
             rank->rank, rank->ranks, header->step, header->batch);
    return OK;
}

/* Leaves a group that failed; OK: to be joined again. One that ended before it began
 * (ERROR_TIMEOUT) is not logged; FAILURES_LIMIT in a row that cannot connect are an error. */
static enum error put_up_with(struct rank *rank, enum error error)
{
    struct error_report report;
    error_report_take(error, &report);
    enum error of_queue = rank_leave(rank);
    if (of_queue)
        return of_queue;
    if (error == ERROR_TIMEOUT || exchange_may_come_back(error)) {
        if (error != ERROR_TIMEOUT)
            log_warning("%s", report.message);
    } else if (error != ERROR_UNAVAILABLE || ++rank->failures >= FAILURES_LIMIT) {
        return error_restore(&report);
    } else {
        log_warning("%s; it is tried again", report.message);
    }
    if (error != ERROR_TIMEOUT && stop_wait(clock_deadline_ns(AGAIN_MS)))
        return error_set(ERROR_CANCELLED, "stopped while waiting for a group");
    return OK;
}

/* Makes one attempt. *ret_done: this worker is a rank. */
static enum error join_once(struct rank *rank, bool *ret_done)
{
    struct wire_header header = {.type = 0};
    struct group_frame frame = {.state = NULL};
    void *payload = NULL;
    bool stands = true;
    enum error error = ask_for_place(rank, &header);
    if (!error && header.type == WIRE_NEWS) {
        if (header.over)
            error = error_set(ERROR_END, "the training is over");
        return error;
    }
    if (!error)
        error = take_place(rank, &header, &payload, &frame);
    if (!error && header.generation != rank->exchange->generation)
        rank->has_values = false; /* they are of an earlier generation */
    if (!error && !frame.place.has_id)
        error = make_id(rank, &header, frame.place.id, &stands);
    if (!error && stands)
        error = begin(rank, &header, &frame);
    *ret_done = !error && stands;
    group_frame_release(&frame);
    free(payload);
    return error;
}

enum error rank_join(struct rank *rank)
{
    bool done = false;
    enum error error = rank->group != 0 ? rank_leave(rank) : OK;
    rank->exchange->was_saved |= rank_watch_was_saved(&rank->watch);
    while (!error && !done) {
        if (zero_of(rank)->link.descriptor < 0)
            error = exchange_connect(rank->exchange, zero_of(rank));
        if (error)
            return error;
        error = join_once(rank, &done);
        if (error && error != ERROR_END && error != ERROR_CANCELLED)
            error = put_up_with(rank, error);
    }
    return error;
}
