/* SPDX-License-Identifier: MIT */
/*
 * malloc() and its relatives that fail once, and are counted, for programs linked with --wrap:
 * allocation number `allocations_left` from now on answers NULL. Included by one file of a program.
 */
#ifndef TESTS_UNIT_FAILING_ALLOCATOR_H
#define TESTS_UNIT_FAILING_ALLOCATOR_H

#include <stdbool.h>
#include <stdlib.h>

#include "tests/unit/unit.h"

#define ALLOCATIONS_LIMIT 10000

static _Atomic long allocations_left = -1; /* until one fails; -1: none does */
static _Atomic bool allocations_hold;      /* only what else a program wraps fails */
static _Atomic int failures;
static _Atomic long blocks; /* that our objects have, but for those that libraries gave or took */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);
void __real_free(void *block);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);
void __wrap_free(void *block);

static int fails_now(void)
{
    if (allocations_left < 0 || allocations_left-- > 0)
        return 0;
    failures++;
    return 1;
}

static int allocation_fails(void)
{
    return !allocations_hold && fails_now();
}

static void *counted(void *block)
{
    blocks += block != NULL;
    return block;
}

void *__wrap_malloc(size_t bytes)
{
    return allocation_fails() ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return allocation_fails() ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *block, size_t bytes)
{
    if (allocation_fails())
        return NULL;
    void *moved = __real_realloc(block, bytes);
    return block ? moved : counted(moved);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return allocation_fails() ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

char *__wrap_strdup(const char *text)
{
    return allocation_fails() ? NULL : counted(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t length)
{
    return allocation_fails() ? NULL : counted(__real_strndup(text, length));
}

void __wrap_free(void *block)
{
    blocks -= block != NULL;
    __real_free(block);
}

/* Runs `work` with its first, second, ... allocation failing, until none is left to fail, and
 * `check` on each answer of a run in which one failed. Every run gives back what it got; the first
 * one, in which nothing fails, may keep what is made once. ThreadSanitizer's build takes each
 * seventh, from another one each day: what a failure leaves behind is for the other builds. */
static inline void fail_each(enum error (*work)(void), void (*check)(long nth, enum error error))
{
    assert_ok(work());
    long before = blocks;
    long step = unit_is_for_threads() ? 7 : 1;
    for (long nth = (long)(unit_seed() % (uint64_t)step); nth < ALLOCATIONS_LIMIT; nth += step) {
        failures = 0;
        allocations_left = nth;
        enum error error = work();
        allocations_left = -1;
        if (blocks > before)
            fail_msg("allocation %ld failed and %ld were not given back", nth, blocks - before);
        if (failures == 0) {
            assert_true(nth > 0); /* else nothing was tested */
            assert_ok(error);
            return;
        }
        check(nth, error);
    }
    fail_msg("more than %d allocations", ALLOCATIONS_LIMIT);
}

#endif
