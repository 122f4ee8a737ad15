/* SPDX-License-Identifier: MIT */
/*
 * Cuts: copies of all shards after the same set of batches, taken while the training goes on.
 *
 *   FREEZE   shards stop applying gradients; each reports what it has applied (FROZEN)
 *   UNION    each applies what any other one has, as the pushes arrive; then it copies its state
 *            and goes on (COPIED)
 *   COPY     the states arrive and become a checkpoint, written on the saver's thread
 *
 * A worker that dies may have pushed a batch to some servers only; others never receive it,
 * and the cut is abandoned after CUT_MS. A later one succeeds once the batch is granted again. If
 * the worker is still there, a large gradient may be on its way: the next cut has twice the time.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/errand.h"
#include "common/log.h"
#include "trainer/server/coordinator_private.h"

#define UNTOUCHED 0xa5
#define CUT_MS 1000       /* a cut that takes longer is abandoned */
#define CUT_AGAIN_MS 2000 /* and retried after this time */
#define DOUBLINGS_MOST 3  /* of CUT_MS: a worker that sends to others for longer counts as silent */

/* ---- cuts --------------------------------------------------------------- */

void cut_end(struct coordinator *coordinator)
{
    struct cut *cut = &coordinator->cut;
    cut->phase = CUT_NONE;
    index_set_clear(&cut->batches);
    free(cut->state);
    cut->state = NULL;
}

void cut_drop_room(struct cut *cut)
{
    errand_leave(cut->maker);
    cut->maker = NULL;
    cut->room = NULL;
}

/* Logs servers that have sent nothing since the cut began: they are stopped or unreachable. */
static void say_silent(struct coordinator *coordinator)
{
    for (size_t i = 1; i < coordinator->options.servers; i++) {
        struct remote *remote = &coordinator->remotes[i];
        bool silent = remote->peer && remote->peer->asked_ns < coordinator->cut.begin_ns;
        if (silent && !remote->silent)
            log_warning("no checkpoint is taken while parameter server %zu does not answer", i);
        remote->silent = silent;
    }
}

static void call_cut_off(struct coordinator *coordinator)
{
    log_debug("cut %" PRId64 " abandoned", coordinator->cut.number);
    coordinator_tell_servers(coordinator, WIRE_THAW, NULL);
    held_shard_thaw(coordinator->held);
    cut_end(coordinator);
    coordinator->not_before_ns = clock_deadline_ns(CUT_AGAIN_MS);
    coordinator->changed = true;
}

void cut_lose_server(struct coordinator *coordinator)
{
    if (coordinator->cut.phase == CUT_COPYING)
        cut_end(coordinator); /* the shards are open */
    else if (coordinator->cut.phase != CUT_NONE)
        call_cut_off(coordinator);
}

static enum error unite(struct coordinator *coordinator)
{
    struct cut *cut = &coordinator->cut;
    cut->phase = CUT_UNITING;
    cut->missing = coordinator->options.servers;
    coordinator_tell_servers(coordinator, WIRE_UNION, &cut->batches);
    coordinator->changed = true;
    return held_shard_unite(coordinator->held, &cut->batches);
}

/* Memory for a state. The kernel allocates its pages when they are first written, which takes
 * longer than a copy; therefore a thread writes them before the cut begins. */
struct room {
    size_t count;
    float *state;
};

static void make_room(void *context)
{
    struct room *room = context;
    room->state = array_new(room->count, sizeof(float), "a checkpoint's state");
    if (room->state)
        memset(room->state, UNTOUCHED, room->count * sizeof(float));
}

static void free_room(void *context)
{
    struct room *room = context;
    free(room->state);
    free(room);
}

static enum error order_room(struct coordinator *coordinator)
{
    struct cut *cut = &coordinator->cut;
    cut->room = array_new(1, sizeof(*cut->room), "a checkpoint's state");
    if (!cut->room)
        return ERROR_MEMORY;
    cut->room->count = coordinator->layout.state;
    enum error error = errand_new(make_room, free_room, cut->room, &cut->maker);
    if (error) {
        free(cut->room);
        return error;
    }
    error = errand_start(cut->maker, "cut");
    if (error)
        cut_drop_room(cut);
    return error;
}

/* *ret_there: cut->state is allocated; false: it is being allocated. */
static enum error take_room(struct coordinator *coordinator, bool *ret_there)
{
    struct cut *cut = &coordinator->cut;
    enum error error = cut->maker ? OK : order_room(coordinator);
    *ret_there = !error && errand_wait(cut->maker, 0);
    if (!*ret_there)
        return error;
    cut->state = cut->room->state;
    cut->room->state = NULL;
    cut_drop_room(cut);
    *ret_there = cut->state != NULL;
    return cut->state ? OK
                      : error_set_memory(coordinator->layout.state * sizeof(float),
                                         "a checkpoint's state");
}

static enum error begin_cut(struct coordinator *coordinator)
{
    struct cut *cut = &coordinator->cut;
    cut->begin_ns = clock_now_ns();
    cut->number++;
    cut->phase = CUT_FREEZING;
    cut->missing = cut->copies = coordinator->options.servers - 1;
    cut->deadline_ns = clock_deadline_ns((int64_t)CUT_MS << cut->doublings);
    held_shard_freeze(coordinator->held);
    enum error error = index_set_copy(&cut->batches, &coordinator->held->applied);
    coordinator_tell_servers(coordinator, WIRE_FREEZE, NULL);
    if (!error && cut->missing == 0)
        error = unite(coordinator);
    return error;
}

static void let_leave(const struct coordinator *coordinator, struct remote *remote)
{
    struct wire_header header = {.type = WIRE_STORED,
                                 .generation = coordinator->generation,
                                 .batch = coordinator->cut.number};
    remote->leaves_with = 0;
    if (peer_send(remote->peer, &header, NULL, 0))
        log_debug("%s", error_message());
}

/* A server that must stop waits for a complete cut that began after its request: if it left after
 * an abandoned one, its shard would be missing. If this one must stop, too, nobody trains
 * meanwhile, and the cut must be on disk: a save that fails needs another cut. */
static void let_leave_with_cut(struct coordinator *coordinator)
{
    coordinator->cut_wanted = coordinator->leaving; /* until all is saved */
    for (size_t i = 1; i < coordinator->options.servers; i++) {
        struct remote *remote = &coordinator->remotes[i];
        if (!remote->peer || remote->leaves_with == 0)
            continue;
        if (coordinator->cut.number < remote->leaves_with)
            coordinator->cut_wanted = true;
        else
            let_leave(coordinator, remote);
    }
}

/* Lets servers leave without another cut, if their shards were at the saved step, or had not
 * reached it, when they asked: none will be due. */
static void let_leave_without(struct coordinator *coordinator)
{
    for (size_t i = 1; i < coordinator->options.servers; i++) {
        struct remote *remote = &coordinator->remotes[i];
        if (remote->peer && remote->leaves_with != 0 &&
            remote->leaves_at <= coordinator_step(coordinator))
            let_leave(coordinator, remote);
    }
}

/* As in a single process, a failed save is retried, except if the state is not finite (it will not
 * become finite), or if another trainer has taken over the logdir; that of the last step, which may
 * be an early end, for SAVER_LAST_MS. */
static enum error put_off_save(struct coordinator *coordinator, int64_t step, enum error error)
{
    bool is_last = coordinator_is_finished(coordinator);
    if (!error)
        return OK;
    coordinator->facts.position.ended = false; /* no checkpoint tells it */
    if (is_last && coordinator->last_by_ns == 0)
        coordinator->last_by_ns = clock_deadline_ns(SAVER_LAST_MS);
    if (error == ERROR_INPUT || error == ERROR_CONFLICT ||
        (is_last && clock_now_ns() > coordinator->last_by_ns))
        return logdir_say_not_saved(coordinator->logdir, step, error);
    coordinator->not_before_ns = coordinator->cut_wanted || is_last
                                     ? clock_deadline_ns(CUT_AGAIN_MS)
                                     : saver_retry_ns(coordinator->options.save_ms);
    /* A group's state is saved again from here: its rank 0 may have left after sending it. */
    coordinator->group.is_unsaved = coordinator->options.is_grouped;
    log_warning("step %" PRId64 " was not saved: %s; it is tried again", step, error_message());
    return OK;
}

/* Does no batch follow those of a state? The stream has ended, or an evaluator stopped it. */
static bool is_early_end(const struct coordinator *coordinator, int64_t step,
                         const struct index_set *batches)
{
    int64_t end = coordinator->ledger.end, last = coordinator->last;
    bool is_stopped = last < coordinator->options.train_steps && step >= last;
    return is_stopped || index_set_gap(batches, 0, end).first >= end;
}

/* All states have arrived: saves them. */
static enum error save_cut(struct coordinator *coordinator)
{
    struct cut *cut = &coordinator->cut;
    struct checkpoint_snapshot *snapshot = NULL;
    float *state = cut->state;
    enum error error = index_set_copy(&coordinator->facts.done, &cut->batches);
    cut->state = NULL;
    coordinator->facts.position.ended = is_early_end(coordinator, cut->step, &cut->batches);
    coordinator->facts.position.stopped = coordinator->facts.position.ended && coordinator->stopped;
    coordinator->facts.position.stream.epochs = coordinator_epochs(coordinator);
    if (error) {
        free(state);
        cut_end(coordinator);
        return put_off_save(coordinator, cut->step, error);
    }
    error = checkpoint_snapshot_of(state, cut->step, &coordinator->layout, &coordinator->facts,
                                   &snapshot);
    cut_end(coordinator);
    coordinator->next_cut_ns = clock_deadline_ns(coordinator->options.save_ms);
    if (!error)
        error = saver_start(coordinator->saver, snapshot);
    if (!error && !coordinator->leaving)
        let_leave_with_cut(coordinator);
    return put_off_save(coordinator, cut->step, error);
}

/* One more server has copied its state and goes on. Once all have, only copies in transit are
 * missing. */
enum error cut_take_copied(struct coordinator *coordinator)
{
    struct cut *cut = &coordinator->cut;
    if (--cut->missing > 0)
        return OK;
    cut->phase = CUT_COPYING;
    if (cut->doublings > 0 &&
        clock_now_ns() - cut->begin_ns < (cut->deadline_ns - cut->begin_ns) / 4)
        cut->doublings--;
    return cut->copies == 0 ? save_cut(coordinator) : OK;
}

/* Saves what this server holds, which is the whole model. */
static enum error save_held(struct coordinator *coordinator)
{
    const struct held_shard *held = coordinator->held;
    struct cut *cut = &coordinator->cut;
    size_t count = held_shard_state_count(held);
    enum error error = index_set_copy(&cut->batches, &held->applied);
    if (!error && !(cut->state = array_new(count, sizeof(float), "a checkpoint's state")))
        error = ERROR_MEMORY;
    if (error)
        return put_off_save(coordinator, held->parameters.step, error);
    memcpy(cut->state, held_shard_state(held), count * sizeof(float));
    cut->step = held->parameters.step;
    coordinator->group.is_unsaved = false;
    return save_cut(coordinator);
}

enum error cut_take_state(struct coordinator *coordinator, const float *state, int64_t step,
                          const struct index_set *applied)
{
    struct batch_ledger *ledger = &coordinator->ledger;
    enum error error =
        held_shard_begin(coordinator->held, coordinator->generation, state, step, applied);
    batch_ledger_release(ledger);
    if (!error)
        error = batch_ledger_init(ledger, applied);
    if (!error && coordinator->held->end < INT64_MAX)
        error = batch_ledger_end(ledger, coordinator->held->end);
    coordinator->group.is_unsaved = saver_is_busy(coordinator->saver);
    return error || coordinator->group.is_unsaved ? error : save_held(coordinator);
}

/* Copies this server's own shard, once it has applied what the others have. */
static enum error copy_own(struct coordinator *coordinator)
{
    struct held_shard *held = coordinator->held;
    struct cut *cut = &coordinator->cut;
    shard_scatter(&held->shard, &coordinator->layout, held_shard_state(held), cut->state);
    cut->step = coordinator_step(coordinator);
    if (!coordinator->leaving) /* later updates would be lost */
        held_shard_thaw(held);
    coordinator->pause_ns = clock_now_ns() - cut->begin_ns;
    coordinator->changed = true;
    return cut_take_copied(coordinator);
}

/* ---- saves -------------------------------------------------------------- */

static enum error finish_save(struct coordinator *coordinator)
{
    int64_t step;
    enum error error = saver_finish(coordinator->saver, &step);
    if (!error)
        log_info("saved %s", logdir_newest_path(coordinator->logdir));
    if (!error && coordinator->leaving)
        let_leave_with_cut(coordinator);
    return put_off_save(coordinator, step, error);
}

enum error cut_save_initial(struct coordinator *coordinator)
{
    struct checkpoint_snapshot *snapshot = NULL;
    float *state = coordinator->initial;
    int64_t step = coordinator->initial_step;
    coordinator->initial = NULL;
    coordinator->facts.position.ended = coordinator->facts.position.stopped = false;
    enum error error =
        checkpoint_snapshot_of(state, step, &coordinator->layout, &coordinator->facts, &snapshot);
    if (!error)
        error = saver_start(coordinator->saver, snapshot);
    return put_off_save(coordinator, step, error);
}

int64_t coordinator_pause_ns(const struct coordinator *coordinator)
{
    return coordinator->pause_ns;
}

int64_t coordinator_saved_step(struct coordinator *coordinator)
{
    if (!saver_is_busy(coordinator->saver)) /* during a save the logdir belongs to the saver */
        coordinator->saved_step = logdir_newest_step(coordinator->logdir);
    return coordinator->saved_step;
}

uint16_t coordinator_saved_bit(struct coordinator *coordinator)
{
    return coordinator_saved_step(coordinator) >= 0 ? WIRE_IS_SAVED : 0;
}

/* A cut that was saved before an early end was known does not record that end, which other
 * processes wait for. */
bool cut_is_saved(const struct coordinator *coordinator)
{
    int64_t step = coordinator_step(coordinator);
    bool is_told = coordinator->facts.position.ended ||
                   !is_early_end(coordinator, step, &coordinator->held->applied);
    return is_told && logdir_newest_step(coordinator->logdir) == step;
}

/* A group's GPUs have made steps that this server's state lacks: a newer state is on its way. */
static bool awaits_state(const struct coordinator *coordinator)
{
    return coordinator->group.phase == GROUP_TRAINS && coordinator->cut_wanted &&
           coordinator->group.made > coordinator_step(coordinator);
}

/* Is everything that this server has saved? */
static bool has_nothing_new(const struct coordinator *coordinator)
{
    return !saver_is_busy(coordinator->saver) && coordinator->cut.phase == CUT_NONE &&
           (cut_is_saved(coordinator) || coordinator_step(coordinator) == 0);
}

bool coordinator_is_saved(const struct coordinator *coordinator)
{
    return !saver_is_busy(coordinator->saver) &&
           (coordinator->phase != COORDINATOR_RUNNING ||
            !coordinator_has_all_servers(coordinator) ||
            (!awaits_state(coordinator) && has_nothing_new(coordinator)));
}

bool coordinator_is_saving(const struct coordinator *coordinator)
{
    return saver_is_busy(coordinator->saver);
}

/* A program that must stop cannot wait for the next attempt after a failed save. */
void cut_want(struct coordinator *coordinator)
{
    coordinator->cut_wanted = true;
    coordinator->not_before_ns = 0;
}

void coordinator_save_last(struct coordinator *coordinator)
{
    coordinator->leaving = true;
    cut_want(coordinator);
}

static bool is_cut_due(const struct coordinator *coordinator)
{
    int64_t now_ns = clock_now_ns();
    if (coordinator->options.is_grouped || coordinator->phase != COORDINATOR_RUNNING ||
        coordinator->cut.phase != CUT_NONE || coordinator->initial ||
        saver_is_busy(coordinator->saver) || cut_is_saved(coordinator) ||
        now_ns < coordinator->not_before_ns || !coordinator_has_all_servers(coordinator))
        return false;
    return coordinator->cut_wanted || coordinator_is_finished(coordinator) ||
           (coordinator->options.save_ms > 0 && now_ns >= coordinator->next_cut_ns);
}

enum error cut_take_frozen(struct coordinator *coordinator, const struct peer *server)
{
    struct cut *cut = &coordinator->cut;
    enum error error = peer_read_set(server, &cut->batches);
    coordinator->remotes[server->index].silent = false;
    if (!error && --cut->missing == 0)
        error = unite(coordinator);
    return error;
}

enum error cut_take_copy(struct coordinator *coordinator, const struct peer *server)
{
    struct cut *cut = &coordinator->cut;
    const struct shard *shard = &coordinator->remotes[server->index].shard;
    if (server->payload_bytes != sizeof(float) * shard_state_count(shard, &coordinator->layout))
        return error_set(ERROR_INPUT, "a copy of %zu bytes is not of shard %" PRId64,
                         server->payload_bytes, server->index);
    shard_scatter(shard, &coordinator->layout, (const float *)(const void *)server->payload,
                  cut->state);
    return --cut->copies == 0 && cut->phase == CUT_COPYING ? save_cut(coordinator) : OK;
}

/* Has a batch of the union been given back? Whoever was sending it may be gone. */
static bool has_returned(const struct coordinator *coordinator)
{
    const struct index_set *returned = &coordinator->ledger.returned;
    for (size_t i = 0; i < returned->count; i++) {
        struct index_range range = returned->ranges[i];
        struct index_range gap = index_set_gap(&coordinator->cut.batches, range.first, range.end);
        if (gap.first != range.first || gap.end != range.end)
            return true;
    }
    return false;
}

/* A stream may have no batch, with which the initial state would be saved. */
static bool has_only_begun(const struct coordinator *coordinator)
{
    return coordinator->phase == COORDINATOR_RUNNING && coordinator->initial &&
           coordinator_is_finished(coordinator) && !cut_is_saved(coordinator);
}

/* Calls the cut off if it takes too long. */
static void limit_cut(struct coordinator *coordinator)
{
    struct cut *cut = &coordinator->cut;
    int64_t now_ns = clock_now_ns();
    bool may_unite = cut->phase == CUT_UNITING && !has_returned(coordinator);
    if (now_ns <= (may_unite ? cut->deadline_ns : cut->begin_ns + CUT_MS * INT64_C(1000000)))
        return;
    say_silent(coordinator);
    cut->doublings += may_unite && cut->doublings < DOUBLINGS_MOST;
    call_cut_off(coordinator);
}

enum error cut_tick(struct coordinator *coordinator)
{
    struct cut *cut = &coordinator->cut;
    enum error error = OK;
    bool is_there = false;
    if (has_only_begun(coordinator))
        error = cut_save_initial(coordinator);
    if (!error && is_cut_due(coordinator))
        error = put_off_save(coordinator, coordinator_step(coordinator),
                             take_room(coordinator, &is_there));
    if (!error && is_there)
        error = begin_cut(coordinator);
    if (!error && cut->phase == CUT_UNITING && held_shard_is_cut(coordinator->held))
        error = copy_own(coordinator);
    if (!error && (cut->phase == CUT_FREEZING || cut->phase == CUT_UNITING))
        limit_cut(coordinator);
    if (!error && saver_is_done(coordinator->saver))
        error = finish_save(coordinator);
    if (!error && coordinator->cut_wanted && has_nothing_new(coordinator))
        let_leave_without(coordinator);
    if (!error && coordinator->group.is_unsaved && !saver_is_busy(coordinator->saver) &&
        clock_now_ns() >= coordinator->not_before_ns)
        error = save_held(coordinator);
    return error;
}
