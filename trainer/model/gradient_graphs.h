/* SPDX-License-Identifier: MIT */
/*
 * The work of a gradient as CUDA graphs, one for each number of rows: captured once, then launched
 * as one. What differs from batch to batch must lie where it lay before.
 *
 * The first batch of so many rows is enqueued, since libraries load and allocate what they need on
 * the way; the second is captured. Where the kernel captures nothing, or nothing any more, since a
 * capture failed (the log says so, once), all are enqueued: the results are the same to the bit.
 *
 * Threads: one at a time, that of the kernel.
 */
#ifndef TRAINER_MODEL_GRADIENT_GRAPHS_H
#define TRAINER_MODEL_GRADIENT_GRAPHS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "trainer/compute/kernel.h"

/* Whole batches, the last ones of an epoch, and what --bad-rows skip leaves; beyond, work is
 * enqueued. */
#define GRADIENT_GRAPHS_LIMIT 16

/* Work with another one is other work. */
struct gradient_key {
    size_t rows;
    const float *values;
    float *gradient;
};

struct gradient_graph {
    struct gradient_key key;
    struct kernel_graph *graph; /* NULL: enqueued once */
};

struct gradient_graphs {
    struct kernel *kernel; /* borrowed */
    bool on;
    size_t count;
    struct gradient_graph list[GRADIENT_GRAPHS_LIMIT];
};

void gradient_graphs_init(struct gradient_graphs *graphs, struct kernel *kernel);
void gradient_graphs_release(struct gradient_graphs *graphs);

/* Does what enqueue(context) enqueues, which is the same for equal keys. */
enum error gradient_graphs_run(struct gradient_graphs *graphs, const struct gradient_key *key,
                               enum error (*enqueue)(void *context), void *context) MUST_CHECK;

#endif
