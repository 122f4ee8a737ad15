/* SPDX-License-Identifier: MIT */
#include "trainer/exchange/rank_watch.h"

#include <inttypes.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/thread.h"

#define BEAT_MS 200
#define ANSWER_MS 10000 /* for server 0, whose answer waits for no other peer */
#define SEND_MS 60000   /* for a state to be sent */

/* ---- the thread ---------------------------------------------------------- */

/* Operations that hang end with garbage, which joint_step_stop() keeps out of the model. */
void rank_watch_break_off(struct rank_watch *watch, const char *why)
{
    pthread_mutex_lock(&watch->lock);
    bool was = watch->is_broken;
    watch->is_broken = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    if (was)
        return;
    log_info("group %" PRId64 " is over: %s", watch->group, why);
    joint_step_stop(watch->step);
    nccl_abort(watch->nccl);
}

static void take_news(struct rank_watch *watch, const struct wire_header *news)
{
    pthread_mutex_lock(&watch->lock);
    watch->is_over |= news->over != 0;
    watch->wants_state = (news->detail & WIRE_WANTS_STATE) != 0;
    watch->was_saved |= (news->detail & WIRE_IS_SAVED) != 0;
    bool is_past = news->batch != watch->group;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    if (is_past)
        rank_watch_break_off(watch, "server 0 has ended it");
}

static enum error ask(struct rank_watch *watch, struct wire_header *header,
                      const struct iovec *parts, size_t count)
{
    enum error error = link_send(watch->link, header, parts, count, clock_deadline_ns(SEND_MS));
    if (!error)
        error = link_receive(watch->link, 0, header, clock_deadline_ns(ANSWER_MS));
    if (error)
        return error;
    if (header->type != WIRE_NEWS || header->bytes > 0)
        return error_set(ERROR_INPUT, "%s answers %s to a rank", watch->link->name,
                         wire_type_name(header->type));
    take_news(watch, header);
    return OK;
}

static enum error beat(struct rank_watch *watch)
{
    int64_t made = joint_step_made(watch->step);
    pthread_mutex_lock(&watch->lock);
    struct wire_header header = {.type = WIRE_BEAT,
                                 .generation = watch->generation,
                                 .batch = watch->group,
                                 .done = WIRE_NONE,
                                 .step = made,
                                 .stock =
                                     watch->ordered > made ? (uint32_t)(watch->ordered - made) : 0,
                                 .over = watch->is_finished};
    pthread_mutex_unlock(&watch->lock);
    return ask(watch, &header, NULL, 0);
}

/* A state that is lost on the way stays marked as unsent: the group is over. */
static enum error send_state(struct rank_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    const float *state = watch->state;
    struct iovec part = {(void *)state, watch->state_count * sizeof(float)};
    struct wire_header header = {.type = WIRE_STATE,
                                 .generation = watch->generation,
                                 .batch = watch->group,
                                 .done = WIRE_NONE,
                                 .step = watch->state_step};
    pthread_mutex_unlock(&watch->lock);
    enum error error = state ? ask(watch, &header, &part, 1) : OK;
    if (error)
        return error;
    pthread_mutex_lock(&watch->lock);
    watch->state = NULL;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    return OK;
}

static enum error look_at_nccl(struct rank_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    bool looks = watch->is_connecting && !watch->is_broken;
    pthread_mutex_unlock(&watch->lock);
    enum error error = looks ? nccl_poll(watch->nccl) : OK;
    return error == ERROR_TIMEOUT ? OK : error;
}

/* False: the thread must end. */
static bool wait_for_next(struct rank_watch *watch)
{
    struct timespec until = clock_timespec(clock_deadline_ns(BEAT_MS));
    pthread_mutex_lock(&watch->lock);
    int waited = 0;
    while (!watch->ends && (!watch->state || watch->is_broken) && waited == 0)
        waited = pthread_cond_clockwait(&watch->changed, &watch->lock, CLOCK_MONOTONIC, &until);
    bool goes_on = !watch->ends;
    pthread_mutex_unlock(&watch->lock);
    return goes_on;
}

static void *run(void *context)
{
    struct rank_watch *watch = context;
    stop_spare_thread(); /* a rank that must stop may have a state to send */
    device_choose(watch->device, watch->device->index);
    pthread_mutex_lock(&watch->lock);
    watch->is_ready = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    while (wait_for_next(watch)) {
        enum error error = watch->link->descriptor < 0 ? OK : beat(watch);
        if (!error && watch->link->descriptor >= 0)
            error = send_state(watch);
        if (error)
            link_close(watch->link); /* the model's thread reconnects */
        if (!error)
            error = look_at_nccl(watch);
        if (error)
            rank_watch_break_off(watch, error_message());
    }
    return NULL;
}

/* ---- the model's thread -------------------------------------------------- */

void rank_watch_init(struct rank_watch *watch)
{
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->changed, NULL);
}

void rank_watch_release(struct rank_watch *watch)
{
    rank_watch_stop(watch);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
}

enum error rank_watch_start(struct rank_watch *watch, uint64_t generation, int64_t group)
{
    watch->generation = generation;
    watch->group = group;
    watch->is_ready = watch->ends = watch->is_connecting = watch->is_broken = false;
    watch->is_finished = watch->wants_state = false;
    watch->ordered = joint_step_made(watch->step);
    watch->state = NULL;
    enum error error = thread_start("rank watch", run, watch, &watch->thread);
    watch->runs = !error;
    pthread_mutex_lock(&watch->lock);
    while (!error && !watch->is_ready)
        pthread_cond_wait(&watch->changed, &watch->lock);
    pthread_mutex_unlock(&watch->lock);
    return error;
}

void rank_watch_stop(struct rank_watch *watch)
{
    if (!watch->runs)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->ends = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    watch->runs = false;
}

void rank_watch_connects(struct rank_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->is_connecting = true;
    pthread_mutex_unlock(&watch->lock);
}

void rank_watch_tell(struct rank_watch *watch, int64_t ordered)
{
    pthread_mutex_lock(&watch->lock);
    watch->ordered = ordered;
    pthread_mutex_unlock(&watch->lock);
}

void rank_watch_finish(struct rank_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->is_finished = true;
    pthread_mutex_unlock(&watch->lock);
}

static bool read_flag(struct rank_watch *watch, const bool *flag)
{
    pthread_mutex_lock(&watch->lock);
    bool value = *flag;
    pthread_mutex_unlock(&watch->lock);
    return value;
}

bool rank_watch_is_broken(struct rank_watch *watch)
{
    return read_flag(watch, &watch->is_broken);
}

bool rank_watch_is_over(struct rank_watch *watch)
{
    return read_flag(watch, &watch->is_over);
}

bool rank_watch_was_saved(struct rank_watch *watch)
{
    return read_flag(watch, &watch->was_saved);
}

bool rank_watch_wants_state(struct rank_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    bool wants = watch->wants_state && !watch->state;
    pthread_mutex_unlock(&watch->lock);
    return wants;
}

void rank_watch_send(struct rank_watch *watch, const float *state, size_t count, int64_t step)
{
    pthread_mutex_lock(&watch->lock);
    watch->state = state;
    watch->state_count = count;
    watch->state_step = step;
    watch->wants_state = false;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

bool rank_watch_await_change(struct rank_watch *watch, int64_t deadline_ns)
{
    struct timespec until = clock_timespec(deadline_ns);
    pthread_mutex_lock(&watch->lock);
    int waited = pthread_cond_clockwait(&watch->changed, &watch->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&watch->lock);
    return waited == 0;
}

bool rank_watch_await_sent(struct rank_watch *watch, int64_t deadline_ns)
{
    struct timespec until = clock_timespec(deadline_ns);
    int waited = 0;
    pthread_mutex_lock(&watch->lock);
    while (watch->state && !watch->is_broken && waited == 0)
        waited = pthread_cond_clockwait(&watch->changed, &watch->lock, CLOCK_MONOTONIC, &until);
    bool was_sent = !watch->state;
    pthread_mutex_unlock(&watch->lock);
    return was_sent;
}
