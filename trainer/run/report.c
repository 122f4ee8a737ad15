/* SPDX-License-Identifier: MIT */
#include "trainer/run/report.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "common/thread.h"

#define FLUSH_MS 500
#define FIRST_PROGRESS_MS 1000
#define PROGRESS_MS 5000
#define LINE_BYTES 200
#define OUTPUT_BYTES (64 << 10)
#define WATCHED_NS 100000000 /* between two lines of steps on a terminal */
#define LEFT_LIMIT_S 1e7     /* a longer forecast is not shown */

/* Shared by both threads; each member is written by one of them only. */
struct shared {
    _Atomic int64_t step, rows;
    _Atomic int64_t steps;            /* of this process */
    _Atomic int64_t first_wait_ns;    /* once it has ended */
    _Atomic int64_t wait_ns;          /* of ended waits, the first left out; stored last */
    _Atomic int64_t waiting_since_ns; /* 0: not waiting */
    _Atomic int64_t paused_ns;
    _Atomic double loss;
};

/* The values of the above at one moment, to take differences. */
struct moment {
    int64_t at_ns, steps, rows, wait_ns;
};

struct report {
    struct report_options options;
    struct shared shared;
    bool live;          /* progress is rewritten in place */
    bool watched;       /* lines of steps go to a terminal */
    int64_t printed_ns; /* when such a line was printed last */

    pthread_t thread;
    bool started;
    pthread_mutex_t mutex;
    pthread_cond_t ending;
    bool end; /* under mutex */

    /* Used by the training's thread only. */
    int64_t measured_ns; /* when the first batch had arrived; 0: not yet */
    int64_t wait_begin_ns, pause_begin_ns;
    int64_t begin_ns, end_ns;
};

static double share(int64_t part_ns, int64_t whole_ns)
{
    return whole_ns > 0 ? 100.0 * (double)part_ns / (double)whole_ns : 0;
}

static double rate(int64_t count, int64_t ns)
{
    return ns > 0 ? (double)count * 1e9 / (double)ns : 0;
}

/* A wait that has just ended may be missing. None is counted twice, since its end is stored before
 * the sum that contains it. */
static void take_moment(struct report *report, struct moment *ret_moment)
{
    ret_moment->wait_ns = atomic_load(&report->shared.wait_ns);
    int64_t since = atomic_load(&report->shared.waiting_since_ns);
    ret_moment->at_ns = clock_now_ns();
    ret_moment->steps = atomic_load(&report->shared.step);
    ret_moment->rows = atomic_load(&report->shared.rows);
    if (since)
        ret_moment->wait_ns += ret_moment->at_ns - since;
}

/* "  1:02:03 left" at the current rate; "" without progress or beyond LEFT_LIMIT_S. */
static void time_left(const struct report *report, double steps_per_s, char ret_text[40])
{
    int64_t left = report->options.last_step - atomic_load(&report->shared.step);
    double seconds = steps_per_s > 0 ? (double)left / steps_per_s : -1;
    ret_text[0] = '\0';
    if (seconds < 0 || seconds > LEFT_LIMIT_S)
        return;
    long whole = lround(seconds);
    if (whole >= 3600)
        snprintf(ret_text, 40, "  %ld:%02ld:%02ld left", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(ret_text, 40, "  %ld:%02ld left", whole / 60, whole % 60);
}

static void show_progress(struct report *report, const struct moment *last,
                          const struct moment *now)
{
    int64_t ns = now->at_ns - last->at_ns, wait_ns = now->wait_ns - last->wait_ns;
    double loss = atomic_load(&report->shared.loss);
    char line[LINE_BYTES], known[32] = "-", left[40];
    time_left(report, rate(now->steps - last->steps, ns), left);
    if (wait_ns < 0)
        wait_ns = 0; /* the first wait ended meanwhile, and does not count */
    if (!isnan(loss))
        snprintf(known, sizeof(known), "%.5g", loss);
    snprintf(line, sizeof(line),
             "step %" PRId64 " of %" PRId64 "  loss %s  %.0f rows/s  wait for data %.1f %%%s",
             now->steps, report->options.last_step, known, rate(now->rows - last->rows, ns),
             share(wait_ns, ns), left);
    if (report->live)
        fprintf(stderr, "\033[K%s\r", line);
    else
        log_info("%s", line);
}

static void *run(void *context)
{
    struct report *report = context;
    struct moment last, now;
    int64_t check_ns = clock_now_ns() + FIRST_PROGRESS_MS * 1000000LL;
    int64_t next_ns = 0;
    take_moment(report, &last);
    pthread_mutex_lock(&report->mutex);
    while (!report->end) {
        struct timespec wake = clock_timespec(clock_deadline_ns(FLUSH_MS));
        pthread_cond_clockwait(&report->ending, &report->mutex, CLOCK_MONOTONIC, &wake);
        if (report->end)
            break;
        pthread_mutex_unlock(&report->mutex);
        fflush(stdout);
        take_moment(report, &now);
        if (last.steps < 0) { /* training has begun, perhaps with a checkpoint's steps */
            last = now;
            next_ns = now.at_ns + (report->live ? FLUSH_MS : FIRST_PROGRESS_MS) * 1000000LL;
        }
        if (now.at_ns >= next_ns) {
            show_progress(report, &last, &now);
            last = now;
            next_ns = now.at_ns + (report->live ? FLUSH_MS : PROGRESS_MS) * 1000000LL;
        }
        if (report->options.check && now.at_ns >= check_ns && now.steps >= 0) {
            report->options.check(report->options.context);
            check_ns = now.at_ns + PROGRESS_MS * 1000000LL;
        }
        pthread_mutex_lock(&report->mutex);
    }
    pthread_mutex_unlock(&report->mutex);
    return NULL;
}

void report_bad_rows(int64_t count, enum bad_rows bad_rows)
{
    if (count > 0)
        log_warning("%" PRId64 " bad rows were %s", count,
                    bad_rows == BAD_ROWS_SKIP ? "left out" : "replaced by zeros");
}

enum error report_open(const struct report_options *options, struct report **ret_report)
{
    struct report *report = array_new(1, sizeof(*report), "a report");
    if (!report)
        return ERROR_MEMORY;
    report->options = *options;
    report->watched = isatty(STDOUT_FILENO);
    report->live = isatty(STDERR_FILENO) && !report->watched;
    atomic_init(&report->shared.step, -1);
    atomic_init(&report->shared.loss, NAN);
    pthread_mutex_init(&report->mutex, NULL);
    pthread_cond_init(&report->ending, NULL);
    setvbuf(stdout, NULL, _IOFBF, OUTPUT_BYTES);
    enum error error = thread_start("progress", run, report, &report->thread);
    if (error) {
        report_close(report);
        return error;
    }
    report->started = true;
    *ret_report = report;
    return OK;
}

void report_initializing(const struct report *report)
{
    const struct report_options *options = &report->options;
    printf("Worker %" PRId64 ": %s...\n", options->worker,
           options->is_chief ? "Initializing session" : "Waiting for session to be initialized");
}

void report_close(struct report *report)
{
    if (!report)
        return;
    if (report->started) {
        pthread_mutex_lock(&report->mutex);
        report->end = true;
        pthread_cond_signal(&report->ending);
        pthread_mutex_unlock(&report->mutex);
        pthread_join(report->thread, NULL);
        if (report->live)
            fprintf(stderr, "\033[K");
        fflush(stdout);
    }
    pthread_cond_destroy(&report->ending);
    pthread_mutex_destroy(&report->mutex);
    free(report);
}

void report_initialized(struct report *report)
{
    printf("Worker %" PRId64 ": Session initialization complete.\n", report->options.worker);
    fflush(stdout);
}

void report_begin(struct report *report, int64_t step)
{
    report->begin_ns = report->end_ns = clock_now_ns();
    atomic_store(&report->shared.step, step);
    printf("Training begins @ %f\n", clock_wall_seconds());
}

void report_wait_begin(struct report *report)
{
    report->wait_begin_ns = clock_now_ns();
    atomic_store_explicit(&report->shared.waiting_since_ns, report->wait_begin_ns,
                          memory_order_relaxed);
}

void report_wait_end(struct report *report)
{
    int64_t now_ns = clock_now_ns();
    int64_t waited_ns = atomic_load_explicit(&report->shared.wait_ns, memory_order_relaxed);
    int64_t took_ns = now_ns - report->wait_begin_ns;
    atomic_store_explicit(&report->shared.waiting_since_ns, 0, memory_order_relaxed);
    if (report->measured_ns) {
        atomic_store_explicit(&report->shared.wait_ns, waited_ns + took_ns, memory_order_release);
        return;
    }
    report->measured_ns = now_ns;
    atomic_store_explicit(&report->shared.first_wait_ns, took_ns, memory_order_release);
}

int64_t report_wait_ns(const struct report *report)
{
    return atomic_load_explicit(&report->shared.wait_ns, memory_order_relaxed);
}

void report_get_figures(struct report *report, struct report_figures *ret_figures)
{
    int64_t waited_ns = atomic_load(&report->shared.first_wait_ns);
    waited_ns += atomic_load(&report->shared.wait_ns);
    int64_t since = atomic_load(&report->shared.waiting_since_ns);
    int64_t waiting_ns = since ? clock_now_ns() - since : 0;
    *ret_figures = (struct report_figures){.step = atomic_load(&report->shared.step),
                                           .steps = atomic_load(&report->shared.steps),
                                           .rows = atomic_load(&report->shared.rows),
                                           .waited_ns = waited_ns + waiting_ns,
                                           .waiting_ns = waiting_ns,
                                           .paused_ns = atomic_load(&report->shared.paused_ns),
                                           .loss = atomic_load(&report->shared.loss)};
}

/* Writes the seconds as "%f" would, with six decimals; printf takes ten times as long. */
static char *write_seconds(char *out, double seconds)
{
    int64_t microseconds = (int64_t)(seconds * 1e6 + 0.5), fraction = microseconds % 1000000;
    out = text_write_integer(out, microseconds / 1000000);
    *out++ = '.';
    for (int64_t place = 100000; place > 0; place /= 10)
        *out++ = (char)('0' + fraction / place % 10);
    return out;
}

static char *write_text(char *out, const char *text)
{
    size_t length = strlen(text);
    memcpy(out, text, length);
    return out + length;
}

static void print_step(const struct report *report, int64_t local_step, int64_t step)
{
    char line[LINE_BYTES], *end = line;
    end = write_seconds(end, clock_wall_seconds());
    end = write_text(end, ": Worker ");
    end = text_write_integer(end, report->options.worker);
    end = write_text(end, ": training step ");
    end = text_write_integer(end, local_step);
    end = write_text(end, " done (global step: ");
    end = text_write_integer(end, step);
    end = write_text(end, ")\n");
    fwrite(line, 1, (size_t)(end - line), stdout);
}

/* A terminal receives only as many lines as a person can read; a pipe receives all of them. */
static bool is_wanted(struct report *report, int64_t step)
{
    int64_t now_ns = report->watched ? clock_now_ns() : 0;
    if (report->watched && now_ns - report->printed_ns < WATCHED_NS &&
        step != report->options.last_step)
        return false;
    report->printed_ns = now_ns;
    return true;
}

void report_step(struct report *report, int64_t step, int64_t rows, double loss)
{
    int64_t before = atomic_load_explicit(&report->shared.rows, memory_order_relaxed);
    int64_t steps = atomic_load_explicit(&report->shared.steps, memory_order_relaxed) + 1;
    int64_t every = report->options.print_every;
    atomic_store_explicit(&report->shared.steps, steps, memory_order_relaxed);
    atomic_store_explicit(&report->shared.rows, before + rows, memory_order_relaxed);
    atomic_store_explicit(&report->shared.step, step, memory_order_relaxed);
    if (!isnan(loss))
        atomic_store_explicit(&report->shared.loss, loss, memory_order_relaxed);
    if (every > 0 && step % every == 0 && is_wanted(report, step))
        print_step(report, steps, step);
}

void report_pause_begin(struct report *report)
{
    report->pause_begin_ns = clock_now_ns();
}

void report_pause_end(struct report *report)
{
    int64_t before_ns = atomic_load_explicit(&report->shared.paused_ns, memory_order_relaxed);
    int64_t took_ns = clock_now_ns() - report->pause_begin_ns;
    atomic_store_explicit(&report->shared.paused_ns, before_ns + took_ns, memory_order_relaxed);
}

void report_test(struct report *report, double accuracy, double loss)
{
    if (report->options.squared)
        printf("mean squared error = %g\n", loss);
    else
        printf("acc: %g\ncross entropy = %g\n", accuracy, loss);
}

void report_end(struct report *report)
{
    report->end_ns = clock_now_ns();
    printf("Training ends @ %f\n", clock_wall_seconds());
    printf("Training elapsed time: %f s\n", (double)(report->end_ns - report->begin_ns) / 1e9);
}

void report_done(struct report *report, bool tested, double accuracy, double loss)
{
    int64_t wait_ns = atomic_load(&report->shared.wait_ns);
    int64_t steps = atomic_load(&report->shared.steps), rows = atomic_load(&report->shared.rows);
    int64_t whole_ns = report->measured_ns ? report->end_ns - report->measured_ns : 0;
    int64_t paused_ns = atomic_load(&report->shared.paused_ns);
    int64_t ns = whole_ns - paused_ns;
    printf("done.\n");
    if (tested && report->options.squared)
        printf("mean squared error: %f\n", loss);
    else if (tested)
        printf("accuracy: %f\n", accuracy);
    log_info("%" PRId64 " %s in %.3f s: %.0f steps/s, %.0f rows/s, waited for data %.2f %% of "
             "the time; in addition %.3f s for tests and checkpoints",
             steps, text_plural(steps, "step", "steps"), (double)ns / 1e9, rate(steps, ns),
             rate(rows, ns), share(wait_ns, ns), (double)paused_ns / 1e9);
}
