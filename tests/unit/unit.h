/* SPDX-License-Identifier: MIT */
/*
 * What every unit test includes: cmocka in the order it wants, TAP on standard output, a folder of
 * its own for files, and checks of error messages.
 */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* wants those above before it */

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "unit_threads.h"

/* The group that runs, and how many of it have begun. */
static const struct CMUnitTest *unit_tests;
static size_t unit_begun;
/* Of the last of them: had threads been started when it began, and did some run? */
static int unit_started_before;
static bool unit_met_threads;
static FILE *unit_note;

/* Notes the last test's name if it met threads. */
static inline void unit_note_threads(void)
{
    bool met = unit_met_threads || unit_threads_run() || *unit_started != unit_started_before;
    if (unit_begun > 0 && met)
        fprintf(unit_note, "%s\n", unit_tests[unit_begun - 1].name);
    unit_started_before = *unit_started;
    unit_met_threads = unit_threads_run();
}

/* Names the test on standard output before anything of it runs: where a program hangs or dies, it
 * was in the test that it named last. */
static inline int unit_begin(void **state)
{
    if (unit_note)
        unit_note_threads();
    const struct CMUnitTest *test = &unit_tests[unit_begun++];
    printf("# begin %s\n", test->name);
    return test->setup_func ? test->setup_func(state) : 0;
}

/* What is repeated for statistics or at random is repeated so many times less under a sanitizer:
 * the figures are the plain build's to judge, and memory and threads are used alike each time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIT_LESS 5
#else
#define UNIT_LESS 1
#endif

/* True when the suite may take long (tests/run --long). */
static inline int unit_is_long(void)
{
    const char *wanted = getenv("TOMBOLA_LONG");
    return wanted && strcmp(wanted, "1") == 0;
}

/* True where only what threads do to each other counts: in ThreadSanitizer's build, unless the suite
 * may take long. */
static inline int unit_is_for_threads(void)
{
#ifdef __SANITIZE_THREAD__
    return !unit_is_long();
#else
    return 0;
#endif
}

static inline int unit_run(const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                           CMFixtureFunction teardown)
{
    size_t kept = 0;
    struct CMUnitTest *asked = calloc(2 * count, sizeof(*asked)), *named = asked + count;
    if (!asked)
        return 1;
    for (size_t i = 0; i < count; i++) {
        if (unit_is_for_threads() && !unit_threads_wanted(tests[i].name))
            continue;
        asked[kept] = named[kept] = tests[i];
        named[kept++].setup_func = unit_begin;
    }
    unit_tests = asked;
    setvbuf(stdout, NULL, _IOLBF, 0);
    unit_note = unit_threads_note();
    int failed = kept ? _cmocka_run_group_tests("tests", named, kept, setup, teardown) : 0;
    if (unit_note) {
        unit_note_threads();
        fclose(unit_note);
    }
    if (kept == 0)
        printf("1..0 # SKIP none of its tests meets threads\n");
    free(asked);
    return failed;
}

#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown) \
    unit_run(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

/* The body of main(): runs the array `tests`. */
#define UNIT_MAIN(tests)                                  \
    int main(void)                                        \
    {                                                     \
        cmocka_set_message_output(CM_OUTPUT_TAP);         \
        return cmocka_run_group_tests(tests, NULL, NULL); \
    }

/* `call` must fail with `code` and a message that holds `text`. */
#define assert_fails(call, code, text)                                                \
    do {                                                                              \
        assert_int_equal((call), (code));                                             \
        if (!strstr(error_message(), (text)))                                         \
            fail_msg("message \"%s\" does not hold \"%s\"", error_message(), (text)); \
    } while (0)

#define assert_ok(call)                                                 \
    do {                                                                \
        enum error unit_error = (call);                                 \
        if (unit_error)                                                 \
            fail_msg("%s: %d, %s", #call, unit_error, error_message()); \
    } while (0)

/* Where a test's random choices begin: another one each day, so that they see new ground, and
 * printed, so that a run can be repeated with TOMBOLA_SEED. Only for what must hold whatever the
 * choices are. */
static inline uint64_t unit_seed(void)
{
    static uint64_t seed;
    static int known;
    if (!known) {
        const char *wanted = getenv("TOMBOLA_SEED");
        seed = wanted ? strtoull(wanted, NULL, 10) : (uint64_t)time(NULL) / 86400;
        known = 1;
        printf("# TOMBOLA_SEED=%llu repeats the choices of this run\n", (unsigned long long)seed);
    }
    return seed;
}

/* A new empty folder, its path in `out`; remove it with unit_folder_remove(). */
static inline void unit_folder_make(char out[256])
{
    const char *base = getenv("TMPDIR");
    snprintf(out, 256, "%s/tombola-unit-XXXXXX", base && base[0] ? base : "/tmp");
    if (!mkdtemp(out))
        fail_msg("cannot make a folder like %s", out);
}

static inline int unit_remove_entry(const char *path, const struct stat *status, int kind,
                                    struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

static inline void unit_folder_remove(const char *folder)
{
    nftw(folder, unit_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
