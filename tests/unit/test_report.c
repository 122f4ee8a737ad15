/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/run/report: the time that is left, by a clock of the test's own. What is printed
 * goes to a file meanwhile.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "trainer/run/report.h"

#define SECOND_NS INT64_C(1000000000)
#define FAR_S 100      /* later than whatever the report does next */
#define THREAD_READS 3 /* of the clock, before its first step */

static _Atomic int64_t clock_ns, checked_ns;
static int64_t begun_ns;
static _Atomic int clock_reads;

int64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_now_ns(void)
{
    atomic_fetch_add(&clock_reads, 1);
    return atomic_load(&clock_ns);
}

/* The report's thread sleeps by the machine's clock, for which a time of this one may be years away:
 * always a millisecond. */
int64_t __wrap_clock_deadline_ns(int64_t milliseconds);
int64_t __wrap_clock_deadline_ns(int64_t milliseconds)
{
    struct timespec now;
    (void)milliseconds;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec + SECOND_NS / 1000;
}

/* Comes behind the line of progress, where there is one. */
static void note_check(void *context)
{
    (void)context;
    atomic_store(&checked_ns, atomic_load(&clock_ns));
}

/* What it has to show then it has shown when this returns, and shows no more until it is later. */
static void pass(int64_t seconds)
{
    int64_t now_ns = atomic_fetch_add(&clock_ns, seconds * SECOND_NS) + seconds * SECOND_NS;
    while (atomic_load(&checked_ns) != now_ns)
        clock_sleep_ms(1);
}

/* When the thread read the clock first is unknown. */
static void settle(void)
{
    while (atomic_load(&checked_ns) == 0) {
        int reads = atomic_load(&clock_reads);
        atomic_fetch_add(&clock_ns, FAR_S * SECOND_NS);
        while (atomic_load(&clock_reads) == reads)
            clock_sleep_ms(1);
    }
    pass(FAR_S);
    pass(FAR_S);
}

static void make_steps(struct report *report, int64_t *step, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        report_step(report, ++*step, 1, NAN);
}

/* 100 steps in 10 s, one in 20 s, 90 in 1800 s, none in 10 s, one in 1e8 s. */
static void train(struct report *report, int64_t step)
{
    while (atomic_load(&clock_reads) < THREAD_READS)
        clock_sleep_ms(1);
    begun_ns = atomic_load(&clock_ns);
    report_begin(report, step);
    settle();
    make_steps(report, &step, 100);
    pass(10);
    make_steps(report, &step, 1);
    pass(20);
    make_steps(report, &step, 90);
    pass(1800);
    pass(10);
    make_steps(report, &step, 1);
    pass(100000000);
    report_end(report);
}

static void redirect(const char *path, int kept[2])
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        kept[i] = dup(STDOUT_FILENO + i);
        assert_true(kept[i] >= 0 && dup2(file, STDOUT_FILENO + i) >= 0);
    }
    close(file);
}

static void put_back(const int kept[2])
{
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        assert_true(dup2(kept[i], STDOUT_FILENO + i) >= 0);
        close(kept[i]);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
}

/* Lines of progress at this step that end so. */
static int count(const char *path, const char *step, const char *ending)
{
    char line[1000];
    int lines = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        size_t length = strlen(line), tail = strlen(ending);
        lines += strstr(line, step) && strstr(line, " rows/s  wait for data ") && length > tail &&
                 strcmp(line + length - tail, ending) == 0;
    }
    fclose(file);
    return lines;
}

static bool has_line(const char *path, const char *wanted)
{
    char line[1000];
    bool found = false;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        found |= strcmp(line, wanted) == 0;
    fclose(file);
    return found;
}

/* Of a training that goes on from step 1000: what was trained before says nothing of its rate. */
static void test_the_time_that_is_left(void **state)
{
    const struct report_options options = {.last_step = 2000, .check = note_check};
    struct report *report;
    char folder[256], path[300], wanted[80];
    int kept[2];
    (void)state;
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/printed", folder);
    redirect(path, kept);
    enum error error = report_open(&options, &report);
    if (!error)
        train(report, 1000);
    report_close(error ? NULL : report);
    put_back(kept);
    assert_ok(error);
    assert_int_equal(count(path, "step 1000 of 2000 ", "left\n"), 0);
    assert_int_equal(count(path, "step 1100 of 2000 ", " %  1:30 left\n"), 1);
    assert_int_equal(count(path, "step 1101 of 2000 ", " %  4:59:40 left\n"), 1);
    assert_int_equal(count(path, "step 1191 of 2000 ", " %  4:29:40 left\n"), 1);
    assert_int_equal(count(path, "step 1191 of 2000 ", " %\n"), 1); /* nothing moves */
    assert_int_equal(count(path, "step 1192 of 2000 ", " %\n"), 1); /* in 2,500 years */
    /* Not by the wall clock, which may have been set meanwhile. */
    snprintf(wanted, sizeof(wanted), "Training elapsed time: %" PRId64 ".000000 s\n",
             (atomic_load(&clock_ns) - begun_ns) / SECOND_NS);
    assert_true(has_line(path, wanted));
    unit_folder_remove(folder);
}

/* The first wait and that of now count for an onlooker; a summary leaves the first one out. */
static void test_figures_for_an_onlooker(void **state)
{
    const struct report_options options = {.last_step = 2000};
    struct report *report;
    struct report_figures figures;
    char folder[256], path[300];
    int kept[2];
    (void)state;
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/printed", folder);
    redirect(path, kept);
    atomic_store(&clock_ns, SECOND_NS);
    enum error error = report_open(&options, &report);
    put_back(kept);
    assert_ok(error);
    report_get_figures(report, &figures);
    assert_int_equal(figures.step, -1);
    assert_true(isnan(figures.loss));
    report_wait_begin(report);
    atomic_fetch_add(&clock_ns, 3 * SECOND_NS);
    report_get_figures(report, &figures);
    assert_int_equal(figures.waited_ns, 3 * SECOND_NS);
    assert_int_equal(figures.waiting_ns, 3 * SECOND_NS);
    report_wait_end(report);
    report_wait_begin(report);
    atomic_fetch_add(&clock_ns, 2 * SECOND_NS);
    report_wait_end(report);
    report_pause_begin(report);
    atomic_fetch_add(&clock_ns, SECOND_NS);
    report_pause_end(report);
    report_step(report, 1001, 50, 0.25);
    report_get_figures(report, &figures);
    assert_int_equal(figures.waited_ns, 5 * SECOND_NS);
    assert_int_equal(figures.waiting_ns, 0);
    assert_int_equal(figures.paused_ns, SECOND_NS);
    assert_int_equal(figures.step, 1001);
    assert_int_equal(figures.steps, 1);
    assert_int_equal(figures.rows, 50);
    assert_true(figures.loss == 0.25);
    assert_int_equal(report_wait_ns(report), 2 * SECOND_NS);
    report_close(report);
    unit_folder_remove(folder);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_figures_for_an_onlooker),
    cmocka_unit_test(test_the_time_that_is_left),
};

UNIT_MAIN(tests)
