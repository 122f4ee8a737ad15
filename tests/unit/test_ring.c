/* SPDX-License-Identifier: MIT */
/* Covers loader/feed/ring: with slot_memory. */
#include "tests/unit/fake_device.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/log.h"
#include "loader/feed/ring.h"

#define ROWS 4

static struct device *cpu;

static struct ring *make_ring_whose(size_t slots, size_t targets, bool caller_copies)
{
    struct ring_shape shape = {.slots = slots,
                               .rows = ROWS,
                               .row_bytes = 8,
                               .device_row_bytes = 32,
                               .targets = targets,
                               .caller_copies = caller_copies};
    struct ring *ring;
    assert_ok(ring_new(&shape, cpu, &ring));
    return ring;
}

static struct ring *make_ring_of(size_t slots, size_t targets)
{
    return make_ring_whose(slots, targets, false);
}

static struct ring *make_ring(size_t slots)
{
    return make_ring_of(slots, 0);
}

/* ---- one thread --------------------------------------------------------- */

static void test_once_round(void **state)
{
    (void)state;
    struct ring *ring = make_ring(2);
    struct slot *slot, *same;
    assert_ok(ring_take_free(ring, &slot));
    assert_int_equal(slot->state, SLOT_FILLING);
    slot->rows = ROWS;
    ring_filled(ring, slot, 0);
    assert_int_equal(slot->state, SLOT_READY);
    assert_ok(ring_take_ready(ring, &same));
    assert_ptr_equal(same, slot);
    assert_int_equal(slot->state, SLOT_COPYING);
    ring_copied(ring, slot);
    assert_int_equal(slot->state, SLOT_COPIED);
    assert_false(ring_is_busy(ring, slot));
    assert_ok(ring_take_copied(ring, 0, INT64_MAX, &same));
    assert_ptr_equal(same, slot);
    assert_int_equal(slot->state, SLOT_BUSY);
    assert_true(ring_is_busy(ring, slot));
    ring_put(ring, slot);
    assert_int_equal(slot->state, SLOT_FREE);
    ring_free(ring);
    ring_free(NULL);
}

static void test_memory_of_a_slot(void **state)
{
    (void)state;
    struct ring *ring = make_ring(3);
    for (size_t i = 0; i < 3; i++) {
        struct slot *slot = ring_slot(ring, i);
        assert_int_equal(slot->number, i);
        memset(slot->ids, 1, ROWS * sizeof(int64_t));
        memset(slot->labels, 1, ROWS * sizeof(double));
        memset(slot->host, 1, ROWS * 8);
        assert_ptr_not_equal(slot->device, slot->host);
        memset(slot->device, 1, ROWS * 32);
    }
    ring_free(ring);
    struct ring_shape alias = {.slots = 2, .rows = ROWS, .row_bytes = 8};
    assert_ok(ring_new(&alias, cpu, &ring));
    assert_ptr_equal(ring_slot(ring, 0)->device, ring_slot(ring, 0)->host);
    ring_free(ring);
}

static void test_too_much_memory(void **state)
{
    (void)state;
    struct ring *ring;
    struct ring_shape shape = {.slots = 2, .rows = SIZE_MAX / 16, .row_bytes = 1 << 20};
    assert_fails(ring_new(&shape, cpu, &ring), ERROR_MEMORY, "2 slots of");
    shape = (struct ring_shape){
        .slots = 2, .rows = 1, .row_bytes = 1, .device_row_bytes = SIZE_MAX / 4 * 3};
    assert_fails(ring_new(&shape, cpu, &ring), ERROR_MEMORY, "than the");
    shape = (struct ring_shape){.slots = 4096, .rows = 1 << 30, .row_bytes = 1024};
    assert_fails(ring_new(&shape, cpu, &ring), ERROR_MEMORY, "4096 slots of 1073741824 rows");
}

static enum error promise_memory(struct device *device, size_t bytes, void **ret_memory)
{
    return fake_memory_new(device, bytes > 0, ret_memory);
}

/* What lies on a GPU takes nothing from the machine's memory. */
static void test_a_gpu_may_have_more_memory(void **state)
{
    (void)state;
    struct ring *ring;
    size_t physical = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    struct ring_shape shape = {.slots = 2, .rows = 1, .row_bytes = 1, .device_row_bytes = physical};
    struct device_ops ops = fake_device_ops;
    struct device gpu = fake_device;
    ops.memory_new = promise_memory;
    gpu.ops = &ops;
    assert_fails(ring_new(&shape, cpu, &ring), ERROR_MEMORY, "than the");
    assert_ok(ring_new(&shape, &gpu, &ring));
    ring_free(ring);
}

static void fill(struct ring *ring, int64_t sequence)
{
    struct slot *slot;
    assert_ok(ring_take_free(ring, &slot));
    slot->rows = 1;
    slot->ids[0] = sequence;
    ring_filled(ring, slot, sequence);
}

static void copy(struct ring *ring, int64_t sequence)
{
    struct slot *slot;
    assert_ok(ring_take_ready(ring, &slot));
    assert_int_equal(slot->ids[0], sequence);
    ring_copied(ring, slot);
}

static void test_order_is_by_number(void **state)
{
    (void)state;
    static const int64_t filled[] = {3, 0, 2, 1};
    struct ring *ring = make_ring(4);
    struct slot *slots[4];
    for (size_t i = 0; i < 4; i++)
        fill(ring, filled[i]);
    for (int64_t i = 0; i < 4; i++)
        copy(ring, i);
    for (int64_t i = 0; i < 4; i++) {
        assert_ok(ring_take_copied(ring, i, INT64_MAX, &slots[i]));
        assert_int_equal(slots[i]->sequence, i);
    }
    struct slot *none;
    assert_fails(ring_take_copied(ring, 4, INT64_MAX, &none), ERROR_USAGE, "all 4 batches are out");
    ring_put(ring, slots[2]); /* back in any order */
    ring_put(ring, slots[0]);
    assert_ok(ring_take_free(ring, &none)); /* no wait */
    assert_ok(ring_take_free(ring, &none));
    ring_free(ring);
}

struct copying {
    struct ring *ring;
    int64_t count;
};

static void *copy_several(void *context)
{
    const struct copying *copying = context;
    for (int64_t i = 0; i < copying->count; i++)
        copy(copying->ring, i);
    return NULL;
}

static void *fill_the_first(void *context)
{
    fill(context, 1);
    fill(context, 0);
    return NULL;
}

/* Copies number `sequence` as the feed's caller, and returns its slot, which is out. */
static struct slot *copy_as_caller(struct ring *ring, int64_t sequence)
{
    struct slot *slot, *same;
    assert_ok(ring_take_copied(ring, sequence, INT64_MAX, &slot));
    assert_int_equal(slot->state, SLOT_COPYING);
    assert_int_equal(slot->ids[0], sequence);
    ring_copied(ring, slot);
    assert_ok(ring_take_copied(ring, sequence, INT64_MAX, &same));
    assert_ptr_equal(same, slot);
    assert_int_equal(slot->state, SLOT_BUSY);
    return slot;
}

static void test_who_waits_copies(void **state)
{
    (void)state;
    struct ring *ring = make_ring_whose(4, 2, true);
    struct slot *slot, *copied;
    pthread_t filler;
    assert_int_equal(pthread_create(&filler, NULL, fill_the_first, ring), 0);
    slot = copy_as_caller(ring, 0); /* waits for it */
    assert_int_equal(pthread_join(filler, NULL), 0);
    copy(ring, 1); /* the copier goes on behind it */
    assert_ok(ring_take_copied(ring, 1, INT64_MAX, &copied));
    assert_int_equal(copied->state, SLOT_BUSY);
    fill(ring, 2); /* both targets are out */
    ring_put(ring, slot);
    slot = copy_as_caller(ring, 2);
    ring_put(ring, copied);
    fill(ring, 3);
    assert_ok(ring_take_ready(ring, &copied)); /* the copier's now: the caller waits for it */
    assert_fails(ring_take_copied(ring, 3, clock_deadline_ns(0), &slot), ERROR_TIMEOUT, "no batch");
    ring_free(ring);
}

static void test_fewer_targets_than_slots(void **state)
{
    (void)state;
    struct ring *ring = make_ring_of(5, 2);
    struct copying copying = {.ring = ring, .count = 4};
    struct slot *slots[4];
    pthread_t copier;
    assert_int_equal(ring_targets(ring), 2);
    for (int64_t i = 0; i < 5; i++)
        fill(ring, i); /* all slots, although two can be copied */
    assert_int_equal(pthread_create(&copier, NULL, copy_several, &copying), 0);
    assert_ok(ring_take_copied(ring, 0, INT64_MAX, &slots[0]));
    assert_ok(ring_take_copied(ring, 1, INT64_MAX, &slots[1]));
    assert_ptr_not_equal(slots[0]->device, slots[1]->device);
    assert_fails(ring_take_copied(ring, 2, INT64_MAX, &slots[2]), ERROR_USAGE, "all 2 batches");
    const void *used = slots[1]->device;
    ring_put(ring, slots[1]);
    assert_ok(ring_take_copied(ring, 2, INT64_MAX, &slots[2])); /* the copier is woken */
    assert_ptr_equal(slots[2]->device, used);                   /* what the cache still has */
    ring_put(ring, slots[0]);
    ring_put(ring, slots[2]);
    assert_ok(ring_take_copied(ring, 3, INT64_MAX, &slots[3]));
    assert_int_equal(pthread_join(copier, NULL), 0);
    ring_free(ring);
    ring = make_ring_of(2, 5);
    assert_int_equal(ring_targets(ring), 2);
    ring_free(ring);
}

/* What is kept by a GPU is read after its batch was put back: targets stay with their slots. */
static void test_a_gpu_has_a_target_for_each_slot(void **state)
{
    (void)state;
    struct ring_shape shape = {
        .slots = 3, .rows = ROWS, .row_bytes = 8, .device_row_bytes = 32, .targets = 2};
    struct ring *ring;
    assert_ok(ring_new(&shape, &fake_device, &ring));
    assert_int_equal(ring_targets(ring), 3);
    assert_ptr_not_equal(ring_slot(ring, 0)->device, ring_slot(ring, 1)->device);
    ring_free(ring);
}

/* ---- the end ------------------------------------------------------------ */

static void end(struct ring *ring, int64_t sequence, enum error code, const char *message)
{
    struct error_report report;
    error_set(code, "%s", message);
    error_report_take(code, &report);
    ring_end(ring, sequence, &report);
}

/* Batches in the order of their numbers that lie side by side, and those alone. */
static void test_takes_what_is_adjacent(void **state)
{
    (void)state;
    struct ring *ring = make_ring(6);
    struct slot *slots[6], *first;
    for (size_t i = 0; i < 6; i++)
        assert_ok(ring_take_free(ring, &slots[i]));
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(slots[i]->number, i);
        slots[i]->rows = 1;
    }
    ring_filled(ring, slots[0], 0);
    ring_filled(ring, slots[1], 1);
    ring_filled(ring, slots[2], 3);
    ring_filled(ring, slots[3], 2);
    ring_filled(ring, slots[4], 4);
    assert_ok(ring_take_ready(ring, &first));
    assert_ptr_equal(ring_take_adjacent(ring, first), slots[1]);
    assert_int_equal(slots[1]->state, SLOT_COPYING);
    assert_null(ring_take_adjacent(ring, slots[1])); /* there lies batch 3 */
    assert_ok(ring_take_ready(ring, &first));
    assert_null(ring_take_adjacent(ring, first)); /* 3 lies before it */
    assert_ok(ring_take_ready(ring, &first));
    assert_null(ring_take_adjacent(ring, first)); /* behind it lies 2 */
    assert_ok(ring_take_ready(ring, &first));
    assert_null(ring_take_adjacent(ring, first)); /* nothing is ready there */
    ring_filled(ring, slots[5], 5);
    end(ring, 5, ERROR_IO, "the disk is gone");
    assert_null(ring_take_adjacent(ring, first)); /* nor comes */
    ring_free(ring);
    ring = make_ring_of(2, 1);
    fill(ring, 0);
    fill(ring, 1);
    assert_ok(ring_take_ready(ring, &first));
    assert_null(ring_take_adjacent(ring, first)); /* it has no target */
    ring_free(ring);
}

static void test_what_lies_before_the_end_is_delivered(void **state)
{
    (void)state;
    struct ring *ring = make_ring(4);
    struct slot *slot;
    for (int64_t i = 0; i < 3; i++)
        fill(ring, i);
    end(ring, 2, ERROR_IO, "the disk is gone");
    end(ring, 3, ERROR_END, "later, so it does not count");
    copy(ring, 0);
    copy(ring, 1);
    assert_fails(ring_take_ready(ring, &slot), ERROR_IO, "the disk is gone");
    assert_ok(ring_take_copied(ring, 0, INT64_MAX, &slot));
    assert_ok(ring_take_copied(ring, 1, INT64_MAX, &slot));
    assert_fails(ring_take_copied(ring, 2, INT64_MAX, &slot), ERROR_IO, "the disk is gone");
    error_set(OK, "something else");
    assert_fails(ring_take_copied(ring, 7, INT64_MAX, &slot), ERROR_IO, "the disk is gone");
    end(ring, 1, ERROR_NETWORK, "earlier, so it counts");
    assert_fails(ring_take_copied(ring, 2, INT64_MAX, &slot), ERROR_NETWORK,
                 "earlier, so it counts");
    ring_free(ring);
}

/* Both copy at a time; a failure of the one behind does not hide the one before it. */
static void test_who_waits_for_a_copy_copies_the_next(void **state)
{
    (void)state;
    struct ring *ring = make_ring_whose(5, 3, true);
    struct slot *first, *next, *slot;
    for (int64_t i = 0; i < 4; i++)
        fill(ring, i);
    assert_ok(ring_take_ready(ring, &first));
    assert_ok(ring_take_copied(ring, 0, INT64_MAX, &next));
    assert_int_equal(next->state, SLOT_COPYING);
    assert_int_equal(next->sequence, 1);
    ring_copied(ring, next);
    assert_ok(ring_take_copied(ring, 0, INT64_MAX, &slot)); /* still not there */
    assert_int_equal(slot->sequence, 2);
    end(ring, 2, ERROR_IO, "a copy that failed");
    assert_fails(ring_take_copied(ring, 0, clock_deadline_ns(0), &slot), ERROR_TIMEOUT, "no batch");
    ring_copied(ring, first);
    for (int64_t i = 0; i < 2; i++) {
        assert_ok(ring_take_copied(ring, i, INT64_MAX, &slot));
        assert_int_equal(slot->state, SLOT_BUSY);
        assert_int_equal(slot->sequence, i);
        ring_put(ring, slot);
    }
    assert_fails(ring_take_copied(ring, 2, INT64_MAX, &slot), ERROR_IO, "a copy that failed");
    ring_free(ring);
}

/* An end behind which batches lie ready: the device failed as an earlier one was put back. */
static void test_what_lies_behind_the_end_is_not_delivered(void **state)
{
    (void)state;
    struct ring *ring = make_ring(4);
    struct slot *slot;
    for (int64_t i = 0; i < 2; i++) {
        fill(ring, i);
        copy(ring, i);
    }
    assert_ok(ring_take_copied(ring, 0, INT64_MAX, &slot));
    end(ring, 0, ERROR_IO, "the device is gone");
    ring_put(ring, slot);
    assert_fails(ring_take_copied(ring, 1, INT64_MAX, &slot), ERROR_IO, "the device is gone");
    ring_free(ring);
}

static void test_stop_ends_everything(void **state)
{
    (void)state;
    struct ring *ring = make_ring(2);
    struct slot *slot;
    fill(ring, 0);
    copy(ring, 0);
    ring_stop(ring);
    assert_fails(ring_take_free(ring, &slot), ERROR_CANCELLED, "closed");
    assert_fails(ring_take_ready(ring, &slot), ERROR_CANCELLED, "closed");
    assert_fails(ring_take_copied(ring, 0, INT64_MAX, &slot), ERROR_CANCELLED, "closed");
    ring_free(ring);
}

static void *interrupt(void *context)
{
    clock_sleep_ms(20);
    ring_interrupt(context);
    return NULL;
}

static void test_a_wait_for_a_batch_ends_in_time_and_when_interrupted(void **state)
{
    (void)state;
    struct ring *ring = make_ring(2);
    struct slot *slot;
    pthread_t thread;
    assert_fails(ring_take_copied(ring, 0, clock_deadline_ns(0), &slot), ERROR_TIMEOUT, "no batch");
    assert_fails(ring_take_copied(ring, 0, clock_deadline_ns(5), &slot), ERROR_TIMEOUT, "no batch");
    assert_int_equal(pthread_create(&thread, NULL, interrupt, ring), 0);
    assert_fails(ring_take_copied(ring, 0, INT64_MAX, &slot), ERROR_CANCELLED, "interrupted");
    assert_int_equal(pthread_join(thread, NULL), 0);
    ring_interrupt(ring);
    ring_interrupt(ring);
    fill(ring, 0);
    copy(ring, 0);
    assert_ok(ring_take_copied(ring, 0, clock_deadline_ns(0), &slot)); /* it need not wait */
    assert_fails(ring_take_copied(ring, 1, INT64_MAX, &slot), ERROR_CANCELLED, "interrupted");
    assert_fails(ring_take_copied(ring, 1, clock_deadline_ns(0), &slot), ERROR_TIMEOUT, "no batch");
    ring_put(ring, slot);
    ring_free(ring);
}

/* ---- a device that is still at work ------------------------------------- */

static struct device_queue *callers; /* the queue of whoever uses the batches */
static bool freed_early;

static void free_memory(struct device *device, void *memory)
{
    pthread_mutex_lock(&callers->lock);
    freed_early |= callers->done + 1 < callers->added; /* the event itself is counted late */
    pthread_mutex_unlock(&callers->lock);
    fake_memory_free(device, memory);
}

/* Batches are put back when the work on them is enqueued: their memory stays until it is done. */
static void test_memory_stays_until_the_device_is_done_with_it(void **state)
{
    (void)state;
    char seen[ROWS * 32];
    struct device_ops ops = fake_device_ops;
    ops.memory_free = free_memory;
    struct device late = fake_device;
    late.ops = &ops;
    struct ring_shape shape = {.slots = 2, .rows = ROWS, .row_bytes = 8, .device_row_bytes = 32};
    struct ring *ring;
    struct slot *slot;
    assert_ok(ring_new(&shape, &late, &ring));
    assert_ok(fake_queue_new(&late, &callers));
    for (int64_t i = 0; i < 2; i++) {
        fill(ring, i);
        copy(ring, i);
    }
    for (int64_t i = 0; i < 2; i++) {
        assert_ok(ring_take_copied(ring, i, INT64_MAX, &slot));
        for (int k = 0; k < 50; k++)
            assert_ok(device_copy_out(&late, callers, seen, slot->device, sizeof(seen)));
        assert_ok(device_event_record(&late, slot->released, callers));
        ring_put(ring, slot);
    }
    ring_free(ring);
    assert_false(freed_early);
    fake_queue_free(&late, callers);
}

/* ---- wrong use aborts: each in a process of its own --------------------- */

static void put_what_was_not_taken(struct ring *ring)
{
    ring_put(ring, ring_slot(ring, 0));
}

static void fill_what_is_free(struct ring *ring)
{
    ring_filled(ring, ring_slot(ring, 0), 0);
}

static void copy_what_is_ready(struct ring *ring)
{
    fill(ring, 0);
    ring_copied(ring, ring_slot(ring, 0));
}

static void put_what_is_only_copied(struct ring *ring)
{
    fill(ring, 0);
    copy(ring, 0);
    ring_put(ring, ring_slot(ring, 0));
}

static void put_twice(struct ring *ring)
{
    struct slot *slot;
    fill(ring, 0);
    copy(ring, 0);
    assert_ok(ring_take_copied(ring, 0, INT64_MAX, &slot));
    ring_put(ring, slot);
    ring_put(ring, slot);
}

static void fill_too_many_rows(struct ring *ring)
{
    struct slot *slot;
    assert_ok(ring_take_free(ring, &slot));
    slot->rows = ROWS + 1;
    ring_filled(ring, slot, 0);
}

static void test_wrong_transitions_abort(void **state)
{
    (void)state;
    static void (*const wrongs[])(struct ring *) = {
        put_what_was_not_taken,  fill_what_is_free, copy_what_is_ready,
        put_what_is_only_copied, put_twice,         fill_too_many_rows};
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            struct rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            signal(SIGABRT, SIG_DFL);
            if (!freopen("/dev/null", "w", stderr))
                _exit(1);
            wrongs[i](make_ring(2));
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
    }
}

/* ---- many threads ------------------------------------------------------- */

#define BATCHES 3000

struct crowd {
    struct ring *ring;
    _Atomic int64_t next;
};

static void *fill_many(void *context)
{
    struct crowd *crowd = context;
    struct slot *slot;
    while (!ring_take_free(crowd->ring, &slot)) {
        int64_t sequence = atomic_fetch_add(&crowd->next, 1);
        if (sequence % 7 == 3)
            sched_yield();
        slot->rows = 1;
        slot->ids[0] = sequence * 3;
        if (sequence >= BATCHES) {
            end(crowd->ring, BATCHES, ERROR_END, "enough");
            return NULL;
        }
        ring_filled(crowd->ring, slot, sequence);
    }
    return NULL;
}

static void copy_one(struct crowd *crowd, struct slot *slot)
{
    assert_int_equal(slot->state, SLOT_COPYING);
    *(int64_t *)slot->device = slot->ids[0] + 1;
    ring_copied(crowd->ring, slot);
}

static void *copy_many(void *context)
{
    struct crowd *crowd = context;
    struct slot *slot;
    while (!ring_take_ready(crowd->ring, &slot))
        copy_one(crowd, slot);
    return NULL;
}

static void run_crowd_of(struct ring *ring, size_t fillers, bool has_copier, size_t held)
{
    struct crowd crowd = {.ring = ring};
    pthread_t threads[16], copier;
    struct slot *out[8] = {NULL};
    struct slot *slot;
    int64_t sequence = 0;
    for (size_t i = 0; i < fillers; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fill_many, &crowd), 0);
    if (has_copier)
        assert_int_equal(pthread_create(&copier, NULL, copy_many, &crowd), 0);
    while (!ring_take_copied(crowd.ring, sequence, INT64_MAX, &slot)) {
        if (slot->state == SLOT_COPYING) {
            copy_one(&crowd, slot);
            continue;
        }
        size_t place = (size_t)sequence % held;
        assert_int_equal(slot->sequence, sequence);
        assert_int_equal(*(int64_t *)slot->device, sequence * 3 + 1);
        if (out[place]) { /* nobody else wrote there meanwhile */
            assert_int_equal(*(int64_t *)out[place]->device, out[place]->sequence * 3 + 1);
            ring_put(crowd.ring, out[place]);
        }
        out[place] = slot;
        sequence++;
    }
    assert_int_equal(sequence, BATCHES);
    ring_stop(crowd.ring);
    for (size_t i = 0; i < fillers; i++)
        pthread_join(threads[i], NULL);
    if (has_copier)
        pthread_join(copier, NULL);
    ring_free(crowd.ring);
}

static void run_crowd(size_t slots, size_t targets, size_t fillers, size_t held)
{
    run_crowd_of(make_ring_of(slots, targets), fillers, true, held);
    run_crowd_of(make_ring_whose(slots, targets, true), fillers, true, held);
    run_crowd_of(make_ring_whose(slots, targets, true), fillers, false, held);
}

static void test_many_threads(void **state)
{
    (void)state;
    run_crowd(2, 0, 1, 1);
    run_crowd(3, 0, 1, 2); /* the caller holds two of three */
    run_crowd(4, 0, 7, 3);
    run_crowd(8, 0, 3, 2);
    run_crowd(64, 0, 16, 2);
    run_crowd(64, 4, 3, 3);
    run_crowd(8, 2, 2, 1);
}

struct waiter {
    struct ring *ring;
    int which;
    enum error error;
};

static void *wait_for_ever(void *context)
{
    struct waiter *waiter = context;
    struct slot *slot;
    waiter->error = waiter->which == 0   ? ring_take_free(waiter->ring, &slot)
                    : waiter->which == 1 ? ring_take_ready(waiter->ring, &slot)
                                         : ring_take_copied(waiter->ring, 0, INT64_MAX, &slot);
    return NULL;
}

static void test_stop_wakes_each_waiter(void **state)
{
    (void)state;
    struct ring *ring = make_ring(2);
    struct slot *slot;
    struct waiter waiters[3];
    pthread_t threads[3];
    assert_ok(ring_take_free(ring, &slot));
    assert_ok(ring_take_free(ring, &slot));
    for (int i = 0; i < 3; i++) {
        waiters[i] = (struct waiter){.ring = ring, .which = i};
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_ever, &waiters[i]), 0);
    }
    clock_sleep_ms(20);
    ring_stop(ring);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(waiters[i].error, ERROR_CANCELLED);
    }
    ring_free(ring);
}

static int open_cpu(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    return device_open("cpu", &cpu);
}

static int close_cpu(void **state)
{
    (void)state;
    device_close(cpu);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once_round),
        cmocka_unit_test(test_memory_of_a_slot),
        cmocka_unit_test(test_too_much_memory),
        cmocka_unit_test(test_a_gpu_may_have_more_memory),
        cmocka_unit_test(test_order_is_by_number),
        cmocka_unit_test(test_who_waits_copies),
        cmocka_unit_test(test_who_waits_for_a_copy_copies_the_next),
        cmocka_unit_test(test_fewer_targets_than_slots),
        cmocka_unit_test(test_a_gpu_has_a_target_for_each_slot),
        cmocka_unit_test(test_takes_what_is_adjacent),
        cmocka_unit_test(test_what_lies_before_the_end_is_delivered),
        cmocka_unit_test(test_what_lies_behind_the_end_is_not_delivered),
        cmocka_unit_test(test_stop_ends_everything),
        cmocka_unit_test(test_a_wait_for_a_batch_ends_in_time_and_when_interrupted),
        cmocka_unit_test(test_memory_stays_until_the_device_is_done_with_it),
        cmocka_unit_test(test_wrong_transitions_abort),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_stop_wakes_each_waiter),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
