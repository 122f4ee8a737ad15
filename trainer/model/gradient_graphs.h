/* SPDX-License-Identifier: MIT */
/*
 * The computation of a gradient as CUDA graphs, one for each number of rows: captured once, then
 * launched as a unit. Data that changes from batch to batch must stay at the same address.
 *
 * The first batch with a number of rows is enqueued, since libraries load and allocate during it;
 * the second is captured. If the kernel does not support capturing, or a capture has failed (logged
 * once), all are enqueued: the results are bit-identical.
 *
 * Threads: the kernel's.
 */
#ifndef TRAINER_MODEL_GRADIENT_GRAPHS_H
#define TRAINER_MODEL_GRADIENT_GRAPHS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "trainer/compute/kernel.h"

/* Full batches, the last ones of an epoch, and remainders of --bad-rows skip; any further sizes are
 * enqueued. */
#define GRADIENT_GRAPHS_LIMIT 16

/* A different key means different work. */
struct gradient_key {
    size_t rows;
    const float *values;
    float *gradient;
};

struct gradient_graph {
    struct gradient_key key;
    struct kernel_graph *graph; /* NULL: enqueued once so far */
};

struct gradient_graphs {
    struct kernel *kernel; /* borrowed */
    bool on;
    size_t count;
    struct gradient_graph list[GRADIENT_GRAPHS_LIMIT];
};

void gradient_graphs_init(struct gradient_graphs *graphs, struct kernel *kernel);
void gradient_graphs_release(struct gradient_graphs *graphs);

/* Runs the work that enqueue(context) enqueues, which must be the same for equal keys. */
enum error gradient_graphs_run(struct gradient_graphs *graphs, const struct gradient_key *key,
                               enum error (*enqueue)(void *context), void *context) MUST_CHECK;

#endif
