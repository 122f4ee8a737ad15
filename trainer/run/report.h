/* SPDX-License-Identifier: MIT */
/*
 * The report of a training: its lines on standard output, and its progress.
 *
 *   standard output   the lines of the classic programs (OUTPUT.md lists them), written in blocks
 *                     and flushed at least once a second, so that thousands of steps a second cost
 *                     nothing to print; on a terminal ten lines of steps a second at most
 *   standard error    a progress line every few seconds (rewritten in place on a terminal): step,
 *                     loss ("-" while none is known), rows/s, the share of time that was waited
 *                     for data and the time that is left; a summary at the end
 *
 * A separate thread flushes and shows progress, so that both continue while training waits for
 * data. All functions but report_close() and report_get_figures() belong to the training's thread.
 */
#ifndef TRAINER_RUN_REPORT_H
#define TRAINER_RUN_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/feed.h"

struct report_options {
    int64_t worker;      /* the number in "Worker 0:" */
    int64_t print_every; /* steps between two step lines; 0: none */
    int64_t last_step;   /* the global step at which training ends */
    bool squared;        /* a regression: tests show the mean squared error */
    bool is_chief;       /* others wait for the chief, and print that, as in the classic programs */
    /* Called on the report's thread every few seconds between report_begin() and report_close();
     * should take less than half a second. NULL: none. */
    void (*check)(void *context);
    void *context;
};

/* Logs the number of bad rows, if any, and how they were handled. */
void report_bad_rows(int64_t count, enum bad_rows bad_rows);

struct report;

/* Starts the thread; prints nothing. */
enum error report_open(const struct report_options *options, struct report **ret_report) MUST_CHECK;
/* Stops the thread and flushes. NULL is legal. */
void report_close(struct report *report);

/* Prints "Worker 0: Initializing session...", or that it waits for the chief. */
void report_initializing(const struct report *report);
void report_initialized(struct report *report);
/* "Training begins @ ..."; `step` is the current global step. */
void report_begin(struct report *report, int64_t step);

/* Call around each wait for a batch. The first one counts as start-up, not as waiting. */
void report_wait_begin(struct report *report);
void report_wait_end(struct report *report);
/* Sum of all waits so far. */
int64_t report_wait_ns(const struct report *report);

/* Figures for monitoring, from any thread. */
struct report_figures {
    int64_t step;        /* the global one; -1: training has not begun */
    int64_t steps, rows; /* of this process */
    int64_t waited_ns;   /* for data: all waits, including the first and the current one. Right
                            after a wait has ended it may briefly be smaller by that wait */
    int64_t waiting_ns;  /* the current wait; 0: none */
    int64_t paused_ns;   /* for tests and checkpoints */
    double loss;         /* NAN: unknown */
};
void report_get_figures(struct report *report, struct report_figures *ret_figures);

/* A step is done: `rows` more rows; its loss, or NAN if unknown. */
void report_step(struct report *report, int64_t step, int64_t rows, double loss);

/* Call around tests and checkpoints, which are neither training nor waiting. */
void report_pause_begin(struct report *report);
void report_pause_end(struct report *report);

/* "acc: ..." and "cross entropy = ...", or "mean squared error = ...". */
void report_test(struct report *report, double accuracy, double loss);

/* "Training ends @ ..." and "Training elapsed time: ... s". */
void report_end(struct report *report);

/* "done." and the last test as "accuracy: ..." or "mean squared error: ..." if there was one; logs
 * the summary. */
void report_done(struct report *report, bool tested, double accuracy, double loss);

#endif
