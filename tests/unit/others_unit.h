/* SPDX-License-Identifier: MIT */
/*
 * Streams of which one is drawn from whenever their mutex is free: what takes long has to let
 * others draw in between, which is counted. For a program linked with --wrap=pthread_mutex_unlock.
 */
#ifndef TESTS_UNIT_OTHERS_UNIT_H
#define TESTS_UNIT_OTHERS_UNIT_H

#include "tests/unit/stream_unit.h"

#include "sampler/stream/streams_private.h"

enum { MANY = 2000, NAME_BYTES = 24 };

static struct stream_unit unit;
static struct stream *other; /* from which others draw, taken */

/* It is taken. */
static inline struct stream *create_taken(const char *name)
{
    struct stream_definition definition = unit.definition;
    struct stream *stream;
    bool waits;
    sampling_plan_take(unit.stream->plan);
    snprintf(definition.name, sizeof(definition.name), "%s", name);
    assert_ok(
        streams_create(unit.streams, &definition, unit.stream->plan, 0, NULL, &stream, &waits));
    return stream;
}

static inline void create(const char *name)
{
    stream_put(create_taken(name));
}

static inline int open_unit(void **state)
{
    (void)state;
    unit = (struct stream_unit){.max_streams = 2 * MANY};
    stream_unit_define(&unit, 0, TAIL_SPAN);
    stream_unit_open(&unit, DURABILITY_NONE);
    other = create_taken("other");
    return 0;
}

static inline int close_unit(void **state)
{
    (void)state;
    stream_put(other);
    stream_unit_drop(&unit);
    stream_unit_end(&unit);
    return 0;
}

/* ---- others that draw whenever the mutex is free ------------------------ */

static bool draws_between;
static int draws;              /* while something else was in the middle of its work */
static void (*also)(int draw); /* or NULL: what else is done then */

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct stream_batch batch;
    int status = __real_pthread_mutex_unlock(mutex);
    if (!draws_between || mutex != &unit.streams->mutex)
        return status;
    draws_between = false;
    assert_ok(unit_draw(other, 1, &batch));
    draws++;
    if (also)
        also(draws);
    draws_between = true;
    return status;
}

static inline void let_others_draw(void)
{
    draws = 0;
    draws_between = true;
}

/* How often somebody could draw since then. */
static inline int others_drew(void)
{
    draws_between = false;
    also = NULL;
    return draws;
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, open_unit, close_unit)

#endif
