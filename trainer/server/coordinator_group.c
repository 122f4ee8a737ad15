/* SPDX-License-Identifier: MIT */
/*
 * Groups: workers that each hold all parameters on their own GPU and make every step together
 * (--exchange nccl). Gradients travel from GPU to GPU; server 0 decides which workers form a group
 * and from which step, and keeps the last saved state.
 *
 *   GROUP_NONE    workers join (JOIN), those of an ended group again
 *   GROUP_NAMING  rank 0 makes the id by which the members find each other (ID)
 *   GROUP_TRAINS  members receive their places (GROUP) and report their progress (BEAT)
 *
 * A group ends when a member is lost, silent or joins again, when another worker joins and there
 * is a place for it, when no member makes progress, or when an evaluator ends the training. The
 * next group starts from the latest step that any of its members has made. The step's number alone
 * determines which batches are applied, whichever members made it, so that each counts once.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "trainer/ledger/step_batches.h"
#include "trainer/server/coordinator_private.h"

#define GATHER_MS 5000 /* after the first JOIN, for other workers to join */
#define SILENT_MS 5000 /* a member that is silent for this long is left out */
#define ADMIT_MS 2000  /* a group is not ended earlier than this to admit another worker */
#define STALL_MS 60000 /* without progress while all wait: the network between them may be cut */
#define STALLS_MOST 6  /* STALL_MS doubles at most this often: a step may take that long */

static bool has_joined(const struct peer *peer)
{
    return peer->kind == PEER_WORKER && peer->waits && peer->whole &&
           peer->header.type == WIRE_JOIN;
}

static bool is_member(const struct coordinator *coordinator, const struct peer *peer)
{
    const struct group *group = &coordinator->group;
    return group->phase != GROUP_NONE && peer->kind == PEER_WORKER && peer->group == group->number;
}

static bool is_silent(const struct peer *peer)
{
    return clock_now_ns() - peer->asked_ns > SILENT_MS * INT64_C(1000000);
}

/* The step whose values a joining worker has; -1: it has none of this generation. */
static int64_t step_of(const struct coordinator *coordinator, const struct peer *peer)
{
    return peer->header.generation == coordinator->generation ? peer->header.step : -1;
}

int64_t coordinator_made_step(const struct coordinator *coordinator)
{
    int64_t held = coordinator_step(coordinator), made = coordinator->group.made;
    return made > held ? made : held;
}

/* The batches that are applied after `step` of this generation. */
static enum error applied_after(const struct coordinator *coordinator, int64_t step,
                                struct index_set *ret_applied)
{
    const struct held_shard *held = coordinator->held;
    int64_t steps = step - held->parameters.step;
    enum error error = index_set_copy(ret_applied, &held->applied);
    return error ? error
                 : step_batches_apply(ret_applied, steps * (int64_t)coordinator->options.aggregate,
                                      held->end);
}

/* ---- a group begins ------------------------------------------------------ */

static int compare_members(const void *a, const void *b)
{
    const struct peer *first = *(struct peer *const *)a, *second = *(struct peer *const *)b;
    if (first->index != second->index)
        return first->index < second->index ? -1 : 1;
    return first->member_order < second->member_order ? -1 : 1;
}

/* Moves the `wanted` members to the front, those with the values of later steps first, and sorts
 * them by index: their order is their rank. */
static void choose_members(const struct coordinator *coordinator, struct peer **joined,
                           size_t count, size_t wanted)
{
    for (size_t i = 0; i < wanted; i++) {
        size_t best = i;
        for (size_t j = i + 1; j < count; j++) {
            if (step_of(coordinator, joined[j]) > step_of(coordinator, joined[best]))
                best = j;
        }
        struct peer *chosen = joined[best];
        memmove(joined + i + 1, joined + i, (best - i) * sizeof(struct peer *));
        joined[i] = chosen;
    }
    qsort(joined, wanted, sizeof(struct peer *), compare_members);
}

/* Chooses the step to start from and the member that has its values; if only this server has them,
 * it sends them to rank 0. */
static void choose_source(struct coordinator *coordinator, struct peer *const members[],
                          size_t count)
{
    struct group *group = &coordinator->group;
    group->step = coordinator_step(coordinator);
    group->source = 0;
    group->sends_state = true;
    for (size_t i = 0; i < count; i++) {
        int64_t step = step_of(coordinator, members[i]);
        if (step < group->step || (step == group->step && !group->sends_state))
            continue;
        group->step = step;
        group->source = i;
        group->sends_state = false;
    }
    group->made = group->step;
}

static void begin_group(struct coordinator *coordinator, struct peer **joined, size_t count)
{
    struct group *group = &coordinator->group;
    size_t most = coordinator->options.aggregate;
    size_t wanted = count < most ? count : most;
    choose_members(coordinator, joined, count, wanted);
    choose_source(coordinator, joined, wanted);
    group->number++;
    group->phase = GROUP_NAMING;
    group->ranks = wanted;
    group->begun_ns = group->moved_ns = clock_now_ns();
    group->is_finished = false;
    if (coordinator->stopped)
        coordinator->last = group->step;
    for (size_t i = 0; i < wanted; i++) {
        joined[i]->group = group->number;
        joined[i]->rank = i;
        joined[i]->is_placed = false;
        joined[i]->made = group->step;
    }
    coordinator->changed = true;
    log_info("%zu %s from step %" PRId64 " on: group %" PRId64 ", %s to %s", wanted,
             wanted == 1 ? "GPU trains" : "GPUs train together", group->step, group->number,
             joined[0]->name, joined[wanted - 1]->name);
}

/* May a group start with the workers that have joined so far? */
static bool is_complete(const struct coordinator *coordinator, struct peer *const peers[],
                        size_t count, size_t joined)
{
    const struct group *group = &coordinator->group;
    bool others = false;
    if (joined >= coordinator->options.aggregate || clock_now_ns() > group->gather_ns)
        return true;
    for (size_t i = 0; i < count; i++)
        others |= peers[i]->kind == PEER_WORKER && !has_joined(peers[i]) && !is_silent(peers[i]);
    return group->number > 0 && !others;
}

static enum error gather(struct coordinator *coordinator, struct peer *const peers[], size_t count)
{
    struct group *group = &coordinator->group;
    size_t joined = 0;
    for (size_t i = 0; i < count; i++)
        joined += has_joined(peers[i]);
    if (joined == 0)
        group->gather_ns = 0;
    else if (group->gather_ns == 0)
        group->gather_ns = clock_deadline_ns(GATHER_MS);
    if (joined == 0 || !is_complete(coordinator, peers, count, joined))
        return OK;
    struct peer **list = array_new(joined, sizeof(struct peer *), "workers");
    if (!list)
        return ERROR_MEMORY;
    joined = 0;
    for (size_t i = 0; i < count; i++) {
        if (has_joined(peers[i]))
            list[joined++] = peers[i];
    }
    for (size_t i = 0; i < joined; i++)
        list[i]->member_order = i;
    group->gather_ns = 0;
    begin_group(coordinator, list, joined);
    free(list);
    return OK;
}

static void end_group(struct coordinator *coordinator, const char *who, const char *why)
{
    struct group *group = &coordinator->group;
    log_info("group %" PRId64 " is over at step %" PRId64 " or the next: %s%s", group->number,
             group->made, who, why);
    group->phase = GROUP_NONE;
    group->gather_ns = 0;
    coordinator->changed = true;
}

void group_forget(struct coordinator *coordinator)
{
    coordinator->group.phase = GROUP_NONE;
    coordinator->group.made = 0;
    coordinator->group.gather_ns = 0;
    coordinator->group.is_unsaved = false;
}

void group_lose(struct coordinator *coordinator, const struct peer *peer)
{
    if (is_member(coordinator, peer) && coordinator->phase == COORDINATOR_RUNNING)
        end_group(coordinator, peer->name, " is lost");
}

/* ---- frames -------------------------------------------------------------- */

/* Is a state newer than this server's needed? By time, at the end, or when the program stops. */
static bool wants_state(const struct coordinator *coordinator)
{
    const struct group *group = &coordinator->group;
    int64_t now_ns = clock_now_ns();
    bool is_due = coordinator->options.save_ms > 0 && now_ns >= coordinator->next_cut_ns;
    if (coordinator->phase != COORDINATOR_RUNNING || group->phase != GROUP_TRAINS ||
        coordinator->initial || saver_is_busy(coordinator->saver) ||
        now_ns < coordinator->not_before_ns ||
        (group->made == coordinator_step(coordinator) && cut_is_saved(coordinator)))
        return false;
    return is_due || group->is_finished || coordinator->cut_wanted;
}

static enum error send_news(struct coordinator *coordinator, struct peer *worker)
{
    const struct group *group = &coordinator->group;
    bool is_of_now = is_member(coordinator, worker);
    bool wants = is_of_now && worker->rank == 0 && wants_state(coordinator);
    struct wire_header header = {.type = WIRE_NEWS,
                                 .generation = coordinator->generation,
                                 .batch = is_of_now ? group->number : 0,
                                 .over = coordinator->phase == COORDINATOR_OVER,
                                 .detail = coordinator_saved_bit(coordinator)};
    header.detail |= wants ? WIRE_WANTS_STATE : 0;
    return peer_send(worker, &header, NULL, 0);
}

static enum error send_place(const struct coordinator *coordinator, struct peer *worker)
{
    const struct group *group = &coordinator->group;
    const struct held_shard *held = coordinator->held;
    bool is_first = worker->rank == 0;
    struct group_place place = {.rank = (uint32_t)worker->rank,
                                .ranks = (uint32_t)group->ranks,
                                .source = (uint32_t)group->source,
                                .has_id = !is_first,
                                .last = coordinator->last};
    struct wire_header header = {.type = WIRE_GROUP,
                                 .generation = coordinator->generation,
                                 .batch = group->number,
                                 .step = group->step,
                                 .shared = is_first && group->sends_state};
    struct index_set applied = {.count = 0};
    if (!is_first)
        memcpy(place.id, group->id, sizeof(place.id));
    enum error error = applied_after(coordinator, group->step, &applied);
    struct iovec parts[] = {
        {&place, sizeof(place)},
        {applied.ranges, applied.count * sizeof(*applied.ranges)},
        {(void *)held_shard_state(held), held_shard_state_count(held) * sizeof(float)}};
    header.stock = (uint32_t)applied.count;
    if (!error)
        error = peer_send(worker, &header, parts, header.shared ? 3 : 2);
    index_set_release(&applied);
    return error;
}

/* The stream ends before batch `end`; < 0: its end is not known. */
static enum error take_end(struct coordinator *coordinator, int64_t end)
{
    if (end < 0 || end >= coordinator->held->end)
        return OK;
    held_shard_end(coordinator->held, end);
    return batch_ledger_end(&coordinator->ledger, end);
}

/* Called again for a waiting worker when something has changed. */
static enum error take_join(struct coordinator *coordinator, struct peer *worker)
{
    struct group *group = &coordinator->group;
    int64_t steps = coordinator->options.train_steps;
    if (coordinator->phase == COORDINATOR_OVER)
        return send_news(coordinator, worker);
    if (step_of(coordinator, worker) > steps) /* others would begin there */
        return error_set(ERROR_INPUT, "JOIN of step %" PRId64 " in a training of %" PRId64,
                         worker->header.step, steps);
    enum error error = take_end(coordinator, worker->header.done);
    if (error)
        return error;
    if (is_member(coordinator, worker) && worker->is_placed)
        end_group(coordinator, worker->name, " has left it");
    worker->waits = true;
    if (!is_member(coordinator, worker) || (group->phase == GROUP_NAMING && worker->rank > 0))
        return OK;
    worker->waits = false;
    worker->is_placed = true;
    return send_place(coordinator, worker);
}

static enum error take_id(struct coordinator *coordinator, struct peer *worker)
{
    struct group *group = &coordinator->group;
    if (worker->payload_bytes != sizeof(group->id))
        return error_set(ERROR_INPUT, "ID of %zu bytes, not %zu", worker->payload_bytes,
                         sizeof(group->id));
    if (is_member(coordinator, worker) && worker->rank == 0 && group->phase == GROUP_NAMING &&
        worker->header.batch == group->number) {
        memcpy(group->id, worker->payload, sizeof(group->id));
        group->phase = GROUP_TRAINS;
        group->moved_ns = clock_now_ns();
        coordinator->changed = true;
    }
    return send_news(coordinator, worker);
}

static enum error check_step(const struct coordinator *coordinator, const struct peer *worker)
{
    const struct wire_header *header = &worker->header;
    const struct group *group = &coordinator->group;
    if (header->step >= group->step && header->step <= coordinator->last)
        return OK;
    return error_set(ERROR_INPUT,
                     "%s of step %" PRId64 " in a group of steps %" PRId64 " to %" PRId64,
                     wire_type_name(header->type), header->step, group->step, coordinator->last);
}

static enum error take_beat(struct coordinator *coordinator, struct peer *worker)
{
    struct group *group = &coordinator->group;
    const struct wire_header *header = &worker->header;
    enum error error = OK;
    if (!is_member(coordinator, worker) || header->batch != group->number)
        return send_news(coordinator, worker);
    error = check_step(coordinator, worker);
    if (error)
        return error;
    worker->pushes += header->step > worker->made ? header->step - worker->made : 0;
    worker->made = header->step;
    worker->hangs = header->stock > 0;
    group->is_finished |= worker->rank == 0 && header->over;
    if (header->step > group->made) {
        group->made = header->step;
        group->moved_ns = clock_now_ns();
        group->stalls = 0;
    }
    if (coordinator->initial && header->step > coordinator_step(coordinator))
        error = cut_save_initial(coordinator);
    return error ? error : send_news(coordinator, worker);
}

/* Rank 0's state becomes a checkpoint, and the start of a group whose members have older ones. */
static enum error take_state(struct coordinator *coordinator, struct peer *worker)
{
    const struct wire_header *header = &worker->header;
    size_t bytes = held_shard_state_count(coordinator->held) * sizeof(float);
    struct index_set applied = {.count = 0};
    if (worker->payload_bytes != bytes)
        return error_set(ERROR_INPUT, "STATE of %zu bytes; it has %zu here", worker->payload_bytes,
                         bytes);
    bool is_of_now = is_member(coordinator, worker) && worker->rank == 0 &&
                     coordinator->group.phase == GROUP_TRAINS &&
                     header->batch == coordinator->group.number && !coordinator->initial;
    if (!is_of_now || header->step < coordinator_step(coordinator))
        return send_news(coordinator, worker);
    enum error error = check_step(coordinator, worker);
    if (!error)
        error = applied_after(coordinator, header->step, &applied);
    if (!error)
        error = cut_take_state(coordinator, (const float *)(const void *)worker->payload,
                               header->step, &applied);
    index_set_release(&applied);
    return error ? error : send_news(coordinator, worker);
}

uint64_t coordinator_group_limit(const struct coordinator *coordinator, enum wire_type type)
{
    if (!coordinator->options.is_grouped)
        return 0;
    if (type == WIRE_ID)
        return GROUP_ID_BYTES;
    bool is_known = type == WIRE_STATE && coordinator->phase != COORDINATOR_NEW;
    return is_known ? held_shard_state_count(coordinator->held) * sizeof(float) : 0;
}

enum error coordinator_group(struct coordinator *coordinator, struct peer *worker)
{
    switch ((enum wire_type)worker->header.type) {
    case WIRE_JOIN:
        return take_join(coordinator, worker);
    case WIRE_ID:
        return take_id(coordinator, worker);
    case WIRE_BEAT:
        return take_beat(coordinator, worker);
    default:
        return take_state(coordinator, worker);
    }
}

/* ---- time --------------------------------------------------------------- */

/* Does no member make progress although all have contributed to the step? */
static bool is_stalled(const struct coordinator *coordinator, struct peer *const peers[],
                       size_t count)
{
    const struct group *group = &coordinator->group;
    if (clock_now_ns() - group->moved_ns < (STALL_MS * INT64_C(1000000) << group->stalls))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (is_member(coordinator, peers[i]) && !peers[i]->hangs)
            return false;
    }
    return true;
}

enum error group_tick(struct coordinator *coordinator, struct peer *const peers[], size_t count)
{
    struct group *group = &coordinator->group;
    if (!coordinator->options.is_grouped || coordinator->phase != COORDINATOR_RUNNING)
        return OK;
    bool may_admit = group->phase == GROUP_TRAINS &&
                     group->ranks < coordinator->options.aggregate && !group->is_finished &&
                     clock_now_ns() - group->begun_ns > ADMIT_MS * INT64_C(1000000);
    for (size_t i = 0; i < count && group->phase != GROUP_NONE; i++) {
        bool member = is_member(coordinator, peers[i]);
        if (member && peers[i]->is_placed && is_silent(peers[i]))
            end_group(coordinator, peers[i]->name, " has been silent for 5 s");
        else if (!member && may_admit && has_joined(peers[i]))
            end_group(coordinator, peers[i]->name, " joins");
    }
    if (group->phase == GROUP_TRAINS && coordinator->stopped && coordinator->last > group->made &&
        !group->is_finished)
        end_group(coordinator, "the evaluator", " ends the training");
    if (group->phase == GROUP_TRAINS && is_stalled(coordinator, peers, count)) {
        group->stalls += group->stalls < STALLS_MOST;
        end_group(coordinator, "nobody", " gets on: all wait for each other");
    }
    return group->phase == GROUP_NONE ? gather(coordinator, peers, count) : OK;
}
