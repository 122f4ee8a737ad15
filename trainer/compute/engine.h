/* SPDX-License-Identifier: MIT */
/*
 * An engine: a device, one queue on it and the kernels that work there; what every command of the
 * trainer computes with. One thread at a time.
 *
 * From engine_open() on, the calling thread and those that it or a library starts from there take
 * denormal floats as zeros and make none, as kernel_cuda.cu does: where a feature is always zero,
 * Adam's moments halve until they are denormal, with which a processor computes some ten times
 * slower.
 */
#ifndef TRAINER_COMPUTE_ENGINE_H
#define TRAINER_COMPUTE_ENGINE_H

#include <stddef.h>

#include "common/error.h"
#include "loader/device/device.h"
#include "trainer/compute/kernel.h"

struct engine_options {
    const char *device;    /* as device_open() takes it */
    const char *blas;      /* as blas_open() takes it */
    unsigned threads;      /* of one matrix product */
    const char *precision; /* as struct kernel_options has it */
    bool no_graphs;        /* likewise */
};

struct engine {
    struct device *device;
    struct device_queue *queue;
    struct kernel *kernel;
};

/* Says in the log what it got; with the device "auto", warns of a GPU that is there and why it is
 * not used; warns of a precision that the device does not have, and takes f32.
 * On failure *engine is empty. */
enum error engine_open(const struct engine_options *options, struct engine *engine) MUST_CHECK;
/* Legal on an empty one. */
void engine_close(struct engine *engine);

/* Rows of F features that are worth one call when there are many: at most 1000, and 16 MiB. */
size_t engine_rows(size_t features);

#endif
