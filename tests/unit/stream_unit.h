/* SPDX-License-Identifier: MIT */
/* Streams on `range:1000?labels=10` with a state folder, and a caller that waits as an HTTP
 * connection does. */
#ifndef TESTS_UNIT_STREAM_UNIT_H
#define TESTS_UNIT_STREAM_UNIT_H

#include "tests/unit/unit.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/clock.h"
#include "common/log.h"
#include "sampler/journal/state_folder.h"
#include "sampler/stream/streams.h"

#define UNIT_STREAM_PATIENCE_MS 600000

struct stream_unit {
    char folder[256]; /* "": nothing is kept */
    struct frame_set *frames;
    struct stream_definition definition;
    struct state *state;
    struct streams *streams;
    struct stream *stream; /* `default`, taken */
    int64_t max_streams;   /* 0: 100 */
};

static inline enum error stream_unit_try(struct stream_unit *unit, enum durability durability)
{
    struct streams_options options = {.durability = durability,
                                      .max_streams = unit->max_streams ? unit->max_streams : 100};
    struct sampling_plan *plan;
    unit->state = NULL;
    unit->streams = NULL;
    if (!unit->frames) {
        assert_ok(frame_set_new(&unit->frames));
        assert_ok(frame_set_add(unit->frames, "default", "range:1000?labels=10", NULL));
    }
    if (unit->folder[0])
        assert_ok(state_open(unit->folder, &unit->state));
    options.state = unit->state;
    enum error error = streams_open(&options, &unit->streams);
    if (!error)
        error = sampling_plan_open(unit->frames, NULL, &unit->definition, &plan);
    if (!error)
        error = streams_start(unit->streams, unit->frames, NULL, &unit->definition, plan);
    return error;
}

static inline void stream_unit_define(struct stream_unit *unit, int64_t epochs, enum tail tail)
{
    static char no_fields[] = "";
    unit->definition = (struct stream_definition){.name = "default",
                                                  .frame = "default",
                                                  .design = "srs",
                                                  .seed = 1,
                                                  .epochs = epochs,
                                                  .tail = tail,
                                                  .fields = no_fields};
}

static inline void stream_unit_open(struct stream_unit *unit, enum durability durability)
{
    assert_ok(stream_unit_try(unit, durability));
    unit->stream = streams_take(unit->streams, "default");
    assert_non_null(unit->stream);
}

/* As a kill does: nothing is finished. */
static inline void stream_unit_drop(struct stream_unit *unit)
{
    stream_put(unit->stream);
    unit->stream = NULL;
    streams_free(unit->streams);
    state_close(unit->state);
}

static inline void stream_unit_close(struct stream_unit *unit)
{
    assert_ok(streams_finish(unit->streams));
    stream_unit_drop(unit);
}

static inline void stream_unit_end(struct stream_unit *unit)
{
    frame_set_free(unit->frames);
    unit->frames = NULL;
    if (unit->folder[0])
        unit_folder_remove(unit->folder);
}

/* ---- a caller that waits ------------------------------------------------ */

struct stream_caller {
    struct journal_waiter waiter;
    _Atomic bool called;
};

static inline void stream_caller_ready(struct journal_waiter *waiter)
{
    struct stream_caller *caller = (struct stream_caller *)waiter; /* its first member */
    atomic_store(&caller->called, true);
}

static inline enum error stream_caller_wait(struct stream_caller *caller, enum error error,
                                            bool waits)
{
    if (!waits)
        return error;
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    while (!atomic_load(&caller->called)) {
        if (clock_left_ms(deadline_ns) == 0)
            return ERROR_CANCELLED;
        sched_yield();
    }
    return caller->waiter.error ? caller->waiter.error : error;
}

static inline enum error unit_pull(struct stream *stream, const struct ledger_pull *pull,
                                   struct stream_batch *ret_batch)
{
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    bool waits;
    enum error error = stream_draw(stream, pull, &caller.waiter, ret_batch, &waits);
    return stream_caller_wait(&caller, error, waits);
}

static inline enum error unit_draw(struct stream *stream, int64_t size,
                                   struct stream_batch *ret_batch)
{
    struct ledger_pull pull = {.size = size, .room = 1000000};
    return unit_pull(stream, &pull, ret_batch);
}

static inline enum error unit_lease(struct stream *stream, const char *worker, int64_t seq,
                                    int64_t size, struct stream_batch *ret_batch)
{
    struct ledger_pull pull = {.size = size, .worker = worker, .seq = seq, .room = 1000000};
    return unit_pull(stream, &pull, ret_batch);
}

static inline enum error unit_ack(struct stream *stream, const char *worker, int64_t seq)
{
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    bool waits;
    enum error error = stream_ack(stream, worker, &seq, 1, &caller.waiter, &waits);
    return stream_caller_wait(&caller, error, waits);
}

#endif
