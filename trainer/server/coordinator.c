/* SPDX-License-Identifier: MIT */
#include "trainer/server/coordinator.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "trainer/server/coordinator_private.h"

#define CLAIM_MS 30000      /* a dead connection is noticed within this time */
#define CLAIM_AGAIN_MS 5000 /* a claim that is not repeated for this long has lapsed */
#define LOAD_AGAIN_MS 1000  /* between two attempts to read a logdir that is away */

/* ---- life cycle --------------------------------------------------------- */

static enum error open_logdir(struct coordinator *coordinator)
{
    struct checkpoint *checkpoint = NULL;
    enum error error = logdir_open(coordinator->options.logdir, coordinator->options.patience_ms,
                                   &coordinator->logdir);
    if (!error)
        error = saver_open(coordinator->logdir, &coordinator->saver);
    if (!error)
        error = logdir_newest(coordinator->logdir, &checkpoint);
    if (error || !checkpoint)
        return error;
    bool done = checkpoint_step(checkpoint) >= coordinator->options.train_steps;
    bool stopped = coordinator->options.may_stop && checkpoint_was_stopped(checkpoint);
    log_info("%s has step %" PRId64 " of %" PRId64 "%s", checkpoint_path(checkpoint),
             checkpoint_step(checkpoint), coordinator->options.train_steps,
             done      ? ": nothing is left to train"
             : stopped ? ", where --early-stopping ended training: nothing is left to train (it "
                         "goes on without --early-stopping)"
                       : ": going on from there");
    error = coordinator_set_facts(coordinator, checkpoint);
    if (!error && (done || stopped))
        coordinator->phase = COORDINATOR_OVER;
    return error;
}

enum error coordinator_open(const struct coordinator_options *options, struct held_shard *held,
                            struct coordinator **ret_coordinator)
{
    struct coordinator *coordinator = array_new(1, sizeof(*coordinator), "the coordinator");
    if (!coordinator)
        return ERROR_MEMORY;
    coordinator->options = *options;
    coordinator->held = held;
    coordinator->last = options->train_steps;
    coordinator->pause_ns = -1;
    coordinator->bytes = (struct buffer)BUFFER_INIT(WIRE_FACTS_LIMIT);
    coordinator->remotes =
        array_new(options->servers, sizeof(*coordinator->remotes), "parameter servers");
    enum error error = coordinator->remotes ? open_logdir(coordinator) : ERROR_MEMORY;
    if (error) {
        coordinator_close(coordinator);
        return error;
    }
    *ret_coordinator = coordinator;
    return OK;
}

void coordinator_close(struct coordinator *coordinator)
{
    if (!coordinator)
        return;
    saver_close(coordinator->saver);
    checkpoint_close(coordinator->checkpoint);
    index_set_release(&coordinator->facts.done);
    batch_ledger_release(&coordinator->ledger);
    index_set_release(&coordinator->cut.batches);
    cut_drop_room(&coordinator->cut);
    free(coordinator->cut.state);
    free(coordinator->initial);
    free(coordinator->remotes);
    buffer_release(&coordinator->bytes);
    logdir_close(coordinator->logdir);
    free(coordinator);
}

enum coordinator_phase coordinator_get_phase(const struct coordinator *coordinator)
{
    return coordinator->phase;
}

bool coordinator_changed(struct coordinator *coordinator)
{
    bool changed = coordinator->changed;
    coordinator->changed = false;
    return changed;
}

/* ---- a generation begins ------------------------------------------------ */

static enum error init_from(struct coordinator *coordinator, float *state)
{
    struct checkpoint *checkpoint = NULL;
    enum error error = checkpoint_open_foreign(coordinator->options.init_from, &checkpoint);
    if (!error)
        error = checkpoint_read_parameters(checkpoint, &coordinator->layout, state);
    checkpoint_close(checkpoint);
    return error;
}

/* Loads the newest checkpoint's state or, without a checkpoint, the initial state. */
static enum error load(struct coordinator *coordinator, float *state, int64_t *ret_step)
{
    struct checkpoint *newest = NULL;
    enum error error = logdir_newest(coordinator->logdir, &newest);
    index_set_clear(&coordinator->facts.done);
    if (error)
        return error;
    if (newest) {
        *ret_step = checkpoint_step(newest);
        const struct checkpoint_facts *facts = checkpoint_get_facts(newest);
        coordinator->facts.position.ended = facts->position.ended;
        error = checkpoint_read_state(newest, &coordinator->layout, state);
        if (!error)
            error = index_set_copy(&coordinator->facts.done, &facts->done);
        checkpoint_close(newest);
        return error;
    }
    if (logdir_newest_step(coordinator->logdir) >= 0) /* its disk may not be mounted */
        return error_set(ERROR_NOT_FOUND, "%s is not there any more, nor is another checkpoint",
                         logdir_newest_path(coordinator->logdir));
    *ret_step = 0;
    model_initial_state(&coordinator->facts.model, &coordinator->layout, state);
    return coordinator->options.init_from ? init_from(coordinator, state) : OK;
}

static enum error new_generation(uint64_t *ret_generation)
{
    do {
        if (getrandom(ret_generation, sizeof(*ret_generation), 0) != sizeof(*ret_generation))
            return error_set_errno(ERROR_IO, errno, "cannot draw a generation's number");
    } while (*ret_generation == 0);
    return OK;
}

/* Sends the facts, then the shard with which the generation begins. */
static enum error restore(struct coordinator *coordinator, struct remote *remote,
                          const float *state, int64_t step)
{
    const struct model_layout *layout = &coordinator->layout;
    size_t count = shard_state_count(&remote->shard, layout);
    float *part = array_new(count, sizeof(*part), "a shard");
    if (!part)
        return ERROR_MEMORY;
    shard_gather(&remote->shard, layout, state, part);
    struct wire_header header = {
        .type = WIRE_RESTORE, .generation = coordinator->generation, .step = step};
    struct iovec rest = {.iov_base = part, .iov_len = count * sizeof(*part)};
    enum error error = coordinator_send_facts(coordinator, remote->peer);
    if (!error)
        error = peer_send_set(remote->peer, &header, &coordinator->facts.done, &rest);
    free(part);
    return error == ERROR_MEMORY ? error : OK; /* a lost server connects again */
}

static enum error begin_own(struct coordinator *coordinator, const float *state, int64_t step)
{
    struct held_shard *held = coordinator->held;
    float *part = array_new(held_shard_state_count(held), sizeof(*part), "a shard");
    if (!part)
        return ERROR_MEMORY;
    shard_gather(&coordinator->remotes[0].shard, &coordinator->layout, state, part);
    enum error error =
        held_shard_begin(held, coordinator->generation, part, step, &coordinator->facts.done);
    free(part);
    return error;
}

static bool all_begun(const struct coordinator *coordinator)
{
    for (size_t i = 1; i < coordinator->options.servers; i++) {
        if (!coordinator->remotes[i].begun)
            return false;
    }
    return true;
}

static void run(struct coordinator *coordinator)
{
    coordinator->phase = COORDINATOR_RUNNING;
    coordinator->not_before_ns = coordinator->last_by_ns = 0;
    coordinator->changed = true;
    coordinator->next_cut_ns = clock_deadline_ns(coordinator->options.save_ms);
    log_info("training goes on from step %" PRId64 " of %" PRId64 " on %zu parameter server%s",
             coordinator_step(coordinator), coordinator->options.train_steps,
             coordinator->options.servers, coordinator->options.servers == 1 ? "" : "s");
}

/* Resets all shards and the ledger to the newest checkpoint, after let_go() cleared all holders. */
static enum error begin_generation(struct coordinator *coordinator)
{
    int64_t step = 0;
    float *state = array_new(coordinator->layout.state, sizeof(*state), "a model's state");
    cut_end(coordinator);
    enum error error = state ? load(coordinator, state, &step) : ERROR_MEMORY;
    if (!error)
        error = new_generation(&coordinator->generation);
    if (!error) {
        coordinator->stopped = false;
        held_shard_forget_end(coordinator->held);
        coordinator->last = coordinator->options.train_steps;
        group_forget(coordinator);
        batch_ledger_release(&coordinator->ledger);
        error = batch_ledger_init(&coordinator->ledger, &coordinator->facts.done);
    }
    if (!error)
        error = begin_own(coordinator, state, step);
    for (size_t i = 1; i < coordinator->options.servers && !error; i++)
        error = restore(coordinator, &coordinator->remotes[i], state, step);
    free(coordinator->initial);
    coordinator->initial = NULL;
    if (!error &&
        (logdir_newest_step(coordinator->logdir) < 0 || coordinator->facts.position.ended)) {
        coordinator->initial = state;
        coordinator->initial_step = step;
        state = NULL;
    }
    free(state);
    if (!error && all_begun(coordinator))
        run(coordinator);
    return error;
}

/* A logdir that vanished may come back, and holds what the training goes on from: it is read again
 * later. */
static enum error await_logdir(struct coordinator *coordinator, enum error error)
{
    bool had_one = logdir_newest_step(coordinator->logdir) >= 0;
    bool is_away = had_one && (error == ERROR_NOT_FOUND || error == ERROR_IO);
    if (is_away && coordinator->load_ns == 0)
        log_warning("no checkpoint to go back to: %s; waiting for it (started again, parameter "
                    "server 0 goes on from what it finds)",
                    error_message());
    coordinator->load_ns = is_away ? clock_deadline_ns(LOAD_AGAIN_MS) : 0;
    coordinator->anew |= is_away;
    return is_away ? OK : error;
}

/* Ends a generation: no worker holds its batches any more, and no server has begun the next one. */
static void let_go(struct coordinator *coordinator, struct peer *const peers[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        index_set_clear(&peers[i]->holder.held);
    for (size_t i = 0; i < coordinator->options.servers; i++)
        coordinator->remotes[i].begun = false;
}

enum error coordinator_lost(struct coordinator *coordinator, struct peer *peer)
{
    if (coordinator->proposer == peer) {
        coordinator->proposer = NULL;
        coordinator->changed = true; /* so that another worker is asked */
    }
    group_lose(coordinator, peer);
    for (size_t i = 1; i < coordinator->options.servers; i++) {
        struct remote *remote = &coordinator->remotes[i];
        if (remote->peer != peer)
            continue;
        if (coordinator->phase != COORDINATOR_OVER)
            log_warning("parameter server %zu is lost: waiting for it", i);
        remote->peer = NULL;
        cut_lose_server(coordinator);
        if (!remote->begun)
            coordinator->anew = true; /* its RESTORE may not have arrived */
    }
    if (peer->holder.held.count == 0)
        return OK;
    coordinator->changed = true;
    return batch_ledger_give_back(&coordinator->ledger, &peer->holder);
}

/* ---- servers ------------------------------------------------------------ */

/* A second connection claims to be parameter server `index`. If it has the current generation's
 * shard, it is the same server, whose first connection died without notice here. Otherwise it may
 * be the server restarted after its machine died; then the first connection is found dead within
 * CLAIM_MS. ERROR_TIMEOUT: ask again. */
static enum error settle_claim(struct coordinator *coordinator, struct remote *remote,
                               const struct peer *server, uint64_t generation)
{
    int64_t now_ns = clock_now_ns();
    if (generation != 0 && generation == coordinator->generation) {
        peer_hang_up(remote->peer);
        cut_lose_server(coordinator);
        return OK;
    }
    if (now_ns - remote->claimed_ns > CLAIM_AGAIN_MS * INT64_C(1000000)) {
        remote->claim_ns = now_ns;
        log_warning("%s: parameter server %" PRId64 " is there already (%s), unless that "
                    "connection is lost",
                    server->name, server->index, remote->peer->name);
    }
    remote->claimed_ns = now_ns;
    bool is_lost = now_ns - remote->claim_ns < CLAIM_MS * INT64_C(1000000); /* or may be, so far */
    return error_set(is_lost ? ERROR_TIMEOUT : ERROR_CONFLICT,
                     "parameter server %" PRId64 " is there already (%s)", server->index,
                     remote->peer->name);
}

enum error coordinator_join(struct coordinator *coordinator, struct peer *server,
                            uint64_t generation)
{
    if (server->index < 1 || (uint64_t)server->index >= coordinator->options.servers)
        return error_set(ERROR_CONFLICT, "there is no parameter server %" PRId64 " among %zu",
                         server->index, coordinator->options.servers);
    struct remote *remote = &coordinator->remotes[server->index];
    enum error error = remote->peer ? settle_claim(coordinator, remote, server, generation) : OK;
    if (error)
        return error;
    remote->peer = server;
    remote->leaves_with = 0;
    if (coordinator->phase == COORDINATOR_OVER) {
        coordinator_tell_servers(coordinator, WIRE_END, NULL);
        return OK;
    }
    if (remote->begun && generation == coordinator->generation) {
        log_info("parameter server %" PRId64 " is back with its shard", server->index);
        return OK;
    }
    if (coordinator->phase == COORDINATOR_RUNNING) {
        log_warning("parameter server %" PRId64 " came without its shard: training goes back to "
                    "the last cut",
                    server->index);
        coordinator->phase = COORDINATOR_GATHERING;
    }
    coordinator->anew = true;
    return OK;
}

uint64_t coordinator_limit(const struct coordinator *coordinator, const struct peer *server,
                           enum wire_type type)
{
    if (type == WIRE_FROZEN)
        return INDEX_SET_LIMIT * sizeof(struct index_range);
    if (type != WIRE_COPY || coordinator->phase == COORDINATOR_NEW)
        return 0;
    return sizeof(float) *
           shard_state_count(&coordinator->remotes[server->index].shard, &coordinator->layout);
}

static void take_restored(struct coordinator *coordinator, const struct peer *server)
{
    struct remote *remote = &coordinator->remotes[server->index];
    remote->begun = server->header.generation == coordinator->generation;
    if (coordinator->phase == COORDINATOR_GATHERING && !coordinator->anew && all_begun(coordinator))
        run(coordinator);
}

enum error coordinator_answer(struct coordinator *coordinator, struct peer *server)
{
    const struct wire_header *header = &server->header;
    struct cut *cut = &coordinator->cut;
    bool of_cut = header->batch == cut->number && header->generation == coordinator->generation;
    if (coordinator->remotes[server->index].peer != server) /* it has reconnected since */
        return OK;
    switch ((enum wire_type)header->type) {
    case WIRE_RESTORED:
        take_restored(coordinator, server);
        return OK;
    case WIRE_FREEZE:
        cut_want(coordinator);
        coordinator->remotes[server->index].leaves_with = cut->number + 1;
        coordinator->remotes[server->index].leaves_at = header->step;
        return OK;
    case WIRE_FROZEN:
        return of_cut && cut->phase == CUT_FREEZING ? cut_take_frozen(coordinator, server) : OK;
    case WIRE_COPIED:
        return of_cut && cut->phase == CUT_UNITING ? cut_take_copied(coordinator) : OK;
    case WIRE_COPY:
        return of_cut && cut->state ? cut_take_copy(coordinator, server) : OK;
    default:
        return error_set(ERROR_INPUT, "%s is not a frame that a parameter server sends to server 0",
                         wire_type_name(header->type));
    }
}

/* ---- time --------------------------------------------------------------- */

static void end(struct coordinator *coordinator)
{
    int64_t steps = coordinator->options.train_steps;
    int64_t step = logdir_newest_step(coordinator->logdir);
    if (step < steps && !coordinator->stopped)
        log_info("the stream ended after %" PRId64 " of %" PRId64 " %s", step, steps,
                 text_plural(steps, "step", "steps"));
    coordinator->phase = COORDINATOR_OVER;
    coordinator->changed = true;
    coordinator_tell_servers(coordinator, WIRE_END, NULL);
}

enum error coordinator_tick(struct coordinator *coordinator, struct peer *const peers[],
                            size_t count)
{
    enum error error = OK;
    if (coordinator->lost_by[0])
        return error_set(ERROR_CONFLICT,
                         "%s has no checkpoint, but %s is of a training that has saved one: is the "
                         "disk mounted? To begin anew, end that worker first",
                         coordinator->options.logdir, coordinator->lost_by);
    if (coordinator_say_waiting(coordinator, peers, count) &&
        coordinator_has_nothing_left(coordinator))
        end(coordinator);
    if (coordinator->phase == COORDINATOR_GATHERING && coordinator->anew &&
        !saver_is_busy(coordinator->saver) && coordinator_has_all_servers(coordinator) &&
        clock_now_ns() >= coordinator->load_ns) {
        let_go(coordinator, peers, count);
        coordinator->anew = false;
        error = await_logdir(coordinator, begin_generation(coordinator));
    }
    if (!error)
        error = work_take_from_silent(coordinator, peers, count);
    if (!error)
        error = group_tick(coordinator, peers, count);
    if (!error)
        error = cut_tick(coordinator);
    if (!error && coordinator->phase == COORDINATOR_RUNNING &&
        coordinator_is_finished(coordinator) && !saver_is_busy(coordinator->saver) &&
        cut_is_saved(coordinator))
        end(coordinator);
    return error;
}
