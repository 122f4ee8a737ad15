/* SPDX-License-Identifier: MIT */
/*
 * One mutex for the states, one condition per kind of waiter: fetchers (freed), copier (filled),
 * caller (copied). Copier and caller are woken for the one batch that each waits for; if both wait
 * for the same one, the caller copies it. While batches stay where they are, the copier is not
 * woken at all. Fetchers, which work ahead, are woken when half of the slots are free (or the
 * caller runs dry), so that one wake-up serves several batches; likewise the copier, when it waits
 * for targets.
 */
#include "loader/feed/ring.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "loader/feed/slot_memory.h"

#define TICK_MS 100
#define LONG_WAIT_MS 5000 /* until the log says what the caller waits for */
#define AGAIN_MS 10000
#define SLICES_MS 1000 /* closer waits count as one */
#define REASON_BYTES 400

struct ring {
    struct device *device;
    struct ring_shape shape;
    struct slot *slots;
    struct slot_memory *memory;
    pthread_mutex_t lock;
    pthread_cond_t freed, filled, copied;
    size_t counts[SLOT_STATES];
    size_t cursor;          /* where the search for a free slot begins */
    size_t free_waiters;    /* fetchers in ring_take_free() */
    size_t wake_free_at;    /* free slots needed to wake them */
    size_t target_waiters;  /* copiers in ring_take_ready() with a slot, but no target */
    size_t wake_target_at;  /* free targets needed to wake them */
    int64_t next_copy;      /* numbers below it are copied, or being copied */
    bool copier_waits;      /* until `next_copy` is READY */
    int64_t wanted_copied;  /* number that the caller waits for; -1: none */
    _Atomic int64_t pulled; /* numbers below it were pulled */
    bool stopped, interrupted;
    int64_t awaited;                     /* number waited for last, perhaps in slices: */
    int64_t since_ns, until_ns, warn_ns; /* from when, until when; when to log it */
    char reason[REASON_BYTES];           /* why the sampler has no batch; "": not known */
    int64_t end; /* the first number that will not come; INT64_MAX: not known yet */
    struct error_report end_report;
};

static const char *const state_stages[SLOT_STATES] = {"pulled: waiting for the sampler",
                                                      "fetched from the store",
                                                      "queued for its copy",
                                                      "copied to the device",
                                                      "there",
                                                      "there"};

enum error ring_new(const struct ring_shape *shape, struct device *device, struct ring **ret_ring)
{
    assert(shape->slots >= 2 && shape->slots <= RING_SLOTS_LIMIT);
    assert(shape->device_row_bytes > 0 || shape->row_bytes == 0 || device->kind == DEVICE_CPU);
    struct ring *ring = array_new(1, sizeof(*ring), "a ring");
    if (!ring)
        return ERROR_MEMORY;
    *ring = (struct ring){.device = device,
                          .shape = *shape,
                          .wanted_copied = -1,
                          .wake_free_at = shape->slots / 2,
                          .end = INT64_MAX};
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->freed, NULL);
    pthread_cond_init(&ring->filled, NULL);
    pthread_cond_init(&ring->copied, NULL);
    ring->slots = array_new(shape->slots, sizeof(struct slot), "the slots of a ring");
    enum error error =
        ring->slots ? slot_memory_new(shape, device, ring->slots, &ring->memory) : ERROR_MEMORY;
    if (error) {
        ring_free(ring);
        return error;
    }
    ring->wake_target_at = (slot_memory_targets(ring->memory) + 1) / 2;
    ring->counts[SLOT_FREE] = shape->slots;
    *ret_ring = ring;
    return OK;
}

void ring_free(struct ring *ring)
{
    if (!ring)
        return;
    pthread_cond_destroy(&ring->freed);
    pthread_cond_destroy(&ring->filled);
    pthread_cond_destroy(&ring->copied);
    pthread_mutex_destroy(&ring->lock);
    slot_memory_free(ring->memory);
    free(ring->slots);
    free(ring);
}

/* ---- states ------------------------------------------------------------- */

/* The only place where a slot's state changes. */
static void slot_move(struct ring *ring, struct slot *slot, enum slot_state from,
                      enum slot_state to)
{
    assert(slot == &ring->slots[slot->number]);
    assert(slot->state == from);
    assert(to == (from + 1) % SLOT_STATES);
    ring->counts[from]--;
    ring->counts[to]++;
    slot->state = to;
}

/* Round-robin, so that the slot whose work on the device is most likely complete comes first. On a
 * CPU all of it is complete: there the first slot, whose memory is most likely in the cache. */
static struct slot *find_free(struct ring *ring)
{
    if (ring->device->kind == DEVICE_CPU)
        ring->cursor = 0;
    for (size_t i = 0; i < ring->shape.slots; i++) {
        struct slot *slot = &ring->slots[ring->cursor];
        ring->cursor = (ring->cursor + 1) % ring->shape.slots;
        if (slot->state == SLOT_FREE)
            return slot;
    }
    return NULL;
}

static struct slot *find(struct ring *ring, enum slot_state state, int64_t sequence)
{
    for (size_t i = 0; i < ring->shape.slots; i++) {
        struct slot *slot = &ring->slots[i];
        if (slot->state == state && slot->sequence == sequence)
            return slot;
    }
    return NULL;
}

/* At most a tick. */
static void wait_until(struct ring *ring, pthread_cond_t *condition, int64_t deadline_ns)
{
    int64_t tick_ns = clock_deadline_ns(TICK_MS);
    struct timespec until = clock_timespec(tick_ns < deadline_ns ? tick_ns : deadline_ns);
    pthread_cond_clockwait(condition, &ring->lock, CLOCK_MONOTONIC, &until);
}

static void wait_a_tick(struct ring *ring, pthread_cond_t *condition)
{
    wait_until(ring, condition, INT64_MAX);
}

static enum error check_stopped(const struct ring *ring)
{
    if (ring->stopped)
        return error_set(ERROR_CANCELLED, "the feed is being closed");
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped by a signal");
    return OK;
}

/* Is the copier worth waking? Not for a batch that stays where it is: the caller takes it. */
static bool wants_copier(const struct ring *ring)
{
    return ring->copier_waits && !(ring->shape.caller_copies && ring->shape.device_row_bytes == 0);
}

/* ---- fetchers ----------------------------------------------------------- */

enum error ring_take_free(struct ring *ring, struct slot **ret_slot)
{
    enum error error;
    pthread_mutex_lock(&ring->lock);
    while (!(error = check_stopped(ring)) && ring->counts[SLOT_FREE] == 0) {
        ring->free_waiters++;
        wait_a_tick(ring, &ring->freed);
        ring->free_waiters--;
    }
    if (!error) {
        struct slot *slot = find_free(ring);
        slot_move(ring, slot, SLOT_FREE, SLOT_FILLING);
        *ret_slot = slot;
    }
    pthread_mutex_unlock(&ring->lock);
    return error;
}

void ring_filled(struct ring *ring, struct slot *slot, int64_t sequence)
{
    pthread_mutex_lock(&ring->lock);
    assert(slot->rows <= ring->shape.rows);
    slot->sequence = sequence;
    slot_move(ring, slot, SLOT_FILLING, SLOT_READY);
    bool is_next = ring->next_copy == sequence;
    bool caller_copies = ring->shape.caller_copies && ring->wanted_copied == sequence;
    bool wakes_copier = wants_copier(ring);
    pthread_mutex_unlock(&ring->lock); /* so that a woken thread does not block on it */
    if (is_next && caller_copies)
        pthread_cond_signal(&ring->copied);
    else if (is_next && wakes_copier)
        pthread_cond_signal(&ring->filled);
}

/* Can number `sequence` still come? */
static enum error check_for(const struct ring *ring, int64_t sequence)
{
    enum error error = check_stopped(ring);
    return error || sequence < ring->end ? error : error_restore(&ring->end_report);
}

/* ---- the copier --------------------------------------------------------- */

static bool has_target(const struct ring *ring)
{
    return slot_memory_free_targets(ring->memory) > 0;
}

static void begin_copy(struct ring *ring, struct slot *slot)
{
    slot_memory_bind(ring->memory, slot);
    slot_move(ring, slot, SLOT_READY, SLOT_COPYING);
    ring->next_copy++;
}

enum error ring_take_ready(struct ring *ring, struct slot **ret_slot)
{
    struct slot *slot = NULL;
    enum error error;
    pthread_mutex_lock(&ring->lock);
    while (!(error = check_for(ring, ring->next_copy)) &&
           (!(slot = find(ring, SLOT_READY, ring->next_copy)) || !has_target(ring))) {
        ring->copier_waits = !slot;
        ring->target_waiters += slot != NULL;
        wait_a_tick(ring, &ring->filled);
        ring->copier_waits = false;
        ring->target_waiters -= slot != NULL;
    }
    if (!error) {
        begin_copy(ring, slot);
        *ret_slot = slot;
    }
    pthread_mutex_unlock(&ring->lock);
    return error;
}

struct slot *ring_take_adjacent(struct ring *ring, const struct slot *slot)
{
    struct slot *next = NULL;
    pthread_mutex_lock(&ring->lock);
    if (slot->number + 1 < ring->shape.slots && slot->sequence + 1 < ring->end && !ring->stopped)
        next = &ring->slots[slot->number + 1];
    if (next && (next->state != SLOT_READY || next->sequence != slot->sequence + 1 ||
                 next->sequence != ring->next_copy || !has_target(ring)))
        next = NULL;
    if (next)
        begin_copy(ring, next);
    pthread_mutex_unlock(&ring->lock);
    return next;
}

void ring_copied(struct ring *ring, struct slot *slot)
{
    pthread_mutex_lock(&ring->lock);
    slot_move(ring, slot, SLOT_COPYING, SLOT_COPIED);
    bool is_wanted = ring->wanted_copied == slot->sequence;
    pthread_mutex_unlock(&ring->lock);
    if (is_wanted)
        pthread_cond_signal(&ring->copied);
}

/* ---- the caller --------------------------------------------------------- */

static void warn_of_long_wait(const struct ring *ring, int64_t sequence, int64_t waited_ns)
{
    bool pulled = sequence < atomic_load_explicit(&ring->pulled, memory_order_relaxed);
    enum slot_state state = pulled ? SLOT_FILLING : SLOT_FREE; /* slots without a number yet */
    for (size_t i = 0; i < ring->shape.slots; i++) {
        const struct slot *slot = &ring->slots[i];
        if ((slot->state == SLOT_READY || slot->state == SLOT_COPYING) &&
            slot->sequence == sequence)
            state = slot->state;
    }
    log_warning("waited %.0f s for batch %" PRId64 " so far; it is not yet %s%s",
                (double)waited_ns * 1e-9, sequence, state_stages[state],
                state == SLOT_FREE ? ring->reason : "");
}

/* Callers that must notice signals, or have other work, wait in slices. */
static void begin_wait(struct ring *ring, int64_t sequence)
{
    int64_t now_ns = clock_now_ns();
    if (ring->awaited == sequence && now_ns - ring->until_ns < SLICES_MS * 1000000LL)
        return;
    ring->awaited = sequence;
    ring->since_ns = now_ns;
    ring->warn_ns = clock_deadline_ns(LONG_WAIT_MS);
}

/* The caller runs dry: any free slot is worth filling now. */
static void hurry(struct ring *ring)
{
    if (ring->free_waiters > 0 && ring->counts[SLOT_FREE] > 0)
        pthread_cond_broadcast(&ring->freed);
    if (ring->target_waiters > 0 && has_target(ring))
        pthread_cond_broadcast(&ring->filled);
}

static enum error not_yet(void)
{
    error_set(ERROR_TIMEOUT, "no batch was ready in the time given");
    return error_set_kind(ERROR_TIMEOUT, RING_NOT_YET);
}

/* An interrupt ends one wait. */
static enum error check_caller(struct ring *ring, int64_t deadline_ns)
{
    if (ring->interrupted) {
        ring->interrupted = false;
        return error_set(ERROR_CANCELLED, "the wait for a batch was interrupted");
    }
    if (clock_left_ms(deadline_ns) == 0)
        return not_yet();
    return OK;
}

/* COPIED, or READY for the caller to copy: the copier is busy elsewhere or asleep; or, while the
 * copier works on it, the next one that nobody copies yet. */
static struct slot *find_for_caller(struct ring *ring, int64_t sequence)
{
    struct slot *slot = find(ring, SLOT_COPIED, sequence);
    if (!slot && ring->shape.caller_copies && ring->next_copy < ring->end && has_target(ring))
        slot = find(ring, SLOT_READY, ring->next_copy);
    return slot;
}

static enum error wait_for_copied(struct ring *ring, int64_t sequence, int64_t deadline_ns,
                                  struct slot **ret_slot)
{
    enum error error;
    begin_wait(ring, sequence);
    hurry(ring);
    while (!(error = check_for(ring, sequence)) && !(*ret_slot = find_for_caller(ring, sequence)) &&
           !(error = check_caller(ring, deadline_ns))) {
        ring->wanted_copied = sequence;
        wait_until(ring, &ring->copied, deadline_ns);
        ring->wanted_copied = -1;
        if (clock_left_ms(ring->warn_ns) == 0) {
            warn_of_long_wait(ring, sequence, clock_now_ns() - ring->since_ns);
            ring->warn_ns = clock_deadline_ns(AGAIN_MS);
        }
    }
    ring->until_ns = clock_now_ns();
    return error;
}

/* A copier that waited for the number that the caller now has may find the next one ready. */
static bool caller_takes(struct ring *ring, struct slot *slot)
{
    if (slot->state == SLOT_COPIED) {
        slot_move(ring, slot, SLOT_COPIED, SLOT_BUSY);
        return false;
    }
    begin_copy(ring, slot);
    return wants_copier(ring) && find(ring, SLOT_READY, ring->next_copy);
}

enum error ring_take_copied(struct ring *ring, int64_t sequence, int64_t deadline_ns,
                            struct slot **ret_slot)
{
    bool wakes_copier = false;
    pthread_mutex_lock(&ring->lock);
    struct slot *slot = find_for_caller(ring, sequence);
    enum error error = check_for(ring, sequence);
    if (!error && ring->counts[SLOT_BUSY] == ring_targets(ring))
        error = error_set(
            ERROR_USAGE, "all %zu batches are out; put one back first, or give the feed more slots",
            ring_targets(ring));
    if (!error && !slot)
        error = wait_for_copied(ring, sequence, deadline_ns, &slot);
    if (!error) {
        wakes_copier = caller_takes(ring, slot);
        *ret_slot = slot;
    }
    pthread_mutex_unlock(&ring->lock);
    if (wakes_copier)
        pthread_cond_signal(&ring->filled);
    return error;
}

void ring_say(struct ring *ring, const char *reason)
{
    pthread_mutex_lock(&ring->lock);
    snprintf(ring->reason, sizeof(ring->reason), "%s%s", reason ? ": " : "", reason ? reason : "");
    pthread_mutex_unlock(&ring->lock);
}

void ring_interrupt(struct ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    ring->interrupted = true;
    pthread_cond_signal(&ring->copied);
    pthread_mutex_unlock(&ring->lock);
}

bool ring_is_busy(struct ring *ring, const struct slot *slot)
{
    pthread_mutex_lock(&ring->lock);
    bool busy = slot->state == SLOT_BUSY;
    pthread_mutex_unlock(&ring->lock);
    return busy;
}

void ring_put(struct ring *ring, struct slot *slot)
{
    pthread_mutex_lock(&ring->lock);
    slot_move(ring, slot, SLOT_BUSY, SLOT_FREE);
    slot_memory_unbind(ring->memory, slot);
    bool may_fill = ring->free_waiters > 0 && ring->counts[SLOT_FREE] >= ring->wake_free_at;
    bool may_copy =
        ring->target_waiters > 0 && slot_memory_free_targets(ring->memory) >= ring->wake_target_at;
    pthread_mutex_unlock(&ring->lock);
    if (may_fill)
        pthread_cond_broadcast(&ring->freed);
    if (may_copy)
        pthread_cond_broadcast(&ring->filled);
}

/* ---- the end ------------------------------------------------------------ */

static void wake_all(struct ring *ring)
{
    pthread_cond_broadcast(&ring->freed);
    pthread_cond_broadcast(&ring->filled);
    pthread_cond_broadcast(&ring->copied);
}

void ring_pulled(struct ring *ring, int64_t count)
{
    atomic_store_explicit(&ring->pulled, count, memory_order_relaxed);
}

void ring_end(struct ring *ring, int64_t sequence, const struct error_report *report)
{
    assert(report->code);
    pthread_mutex_lock(&ring->lock);
    if (sequence < ring->end) {
        ring->end = sequence;
        ring->end_report = *report;
        wake_all(ring);
    }
    pthread_mutex_unlock(&ring->lock);
}

void ring_stop(struct ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    ring->stopped = true;
    wake_all(ring);
    pthread_mutex_unlock(&ring->lock);
}

struct slot *ring_slot(struct ring *ring, size_t number)
{
    assert(number < ring->shape.slots);
    return &ring->slots[number];
}

size_t ring_targets(const struct ring *ring)
{
    return slot_memory_targets(ring->memory);
}
