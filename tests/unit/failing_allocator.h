/*
 * malloc() and its relatives that fail once, for programs linked with --wrap: allocation number
 * `allocations_left` from now on answers NULL. Included by one file of a program.
 */
#ifndef TESTS_UNIT_FAILING_ALLOCATOR_H
#define TESTS_UNIT_FAILING_ALLOCATOR_H

#include <stdlib.h>

static long allocations_left = -1; /* until one fails; -1: none does */
static int failures;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);

static int fails_now(void)
{
    if (allocations_left < 0 || allocations_left-- > 0)
        return 0;
    failures++;
    return 1;
}

void *__wrap_malloc(size_t bytes)
{
    return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *block, size_t bytes)
{
    return fails_now() ? NULL : __real_realloc(block, bytes);
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t length)
{
    return fails_now() ? NULL : __real_strndup(text, length);
}

#endif
