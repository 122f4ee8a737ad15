/* SPDX-License-Identifier: MIT */
/*
 * An engine: a device, one queue on it and its kernels; used by every command of the trainer for
 * computing. One thread at a time.
 *
 * From engine_open() on, the calling thread, and those that it or a library starts from there,
 * treat denormal floats as zeros and produce none, like kernel_cuda.cu: if a feature is always
 * zero, Adam's moments halve until they are denormal, and a processor computes with those about ten
 * times slower.
 */
#ifndef TRAINER_COMPUTE_ENGINE_H
#define TRAINER_COMPUTE_ENGINE_H

#include <stddef.h>

#include "common/error.h"
#include "loader/device/device.h"
#include "trainer/compute/kernel.h"

struct engine_options {
    const char *device;    /* see device_open() */
    const char *blas;      /* see blas_open() */
    unsigned threads;      /* see struct kernel_options */
    const char *precision; /* see struct kernel_options */
    bool no_graphs;        /* likewise */
};

struct engine {
    struct device *device;
    struct device_queue *queue;
    struct kernel *kernel;
};

/* Logs what it opened; with the device "auto", warns of an unusable GPU and why; warns if the
 * device does not support the precision, and uses f32. On failure *engine is empty. */
enum error engine_open(const struct engine_options *options, struct engine *engine) MUST_CHECK;
/* Legal for an empty one. */
void engine_close(struct engine *engine);

/* How many rows of F features to process per call: at most 1000, and 16 MiB. */
size_t engine_rows(size_t features);

#endif
