/* SPDX-License-Identifier: MIT */
/*
 * Kernels: the arithmetic of training on one device. One of the two doors to CUDA (the other is
 * loader/device/device.h). The CPU implementation is the reference; the CUDA one is tested against
 * it.
 *
 * A kernel belongs to one device and one queue: work is enqueued there in order, and calls do not
 * wait for it. All pointers are device memory and all matrices row-major float32 without padding.
 * The same inputs give the same bits on the same machine: sums have a fixed order, and there are no
 * atomic float additions.
 *
 * Threads: one at a time. Dimensions: B rows, I inputs, O outputs, L classes, P parameters.
 */
#ifndef TRAINER_COMPUTE_KERNEL_H
#define TRAINER_COMPUTE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/device/device.h"
#include "trainer/compute/dropout.h"
#include "trainer/compute/gradient_clip.h"
#include "trainer/compute/loss.h"
#include "trainer/compute/optimizer.h"

enum activation { ACTIVATION_NONE, ACTIVATION_RELU };

struct kernel_options {
    const char *blas;      /* CPU: see blas_open(); NULL: "auto" */
    unsigned threads;      /* CPU: at most so many compute; 0: 1 */
    const char *precision; /* GPU: of the factors of products: "f32" (also NULL), "tf32", "bf16" */
    bool no_graphs;        /* GPU: kernel_captures() is false */
};

/* Into how many parts products with a layer's weights are divided on the CPU: the most threads that
 * they can use. */
unsigned kernel_layer_parts(size_t inputs, size_t outputs);

/* A layer's input, x[B,I]; made by kernel_input() from the feed's data, or filled in with `indexed`
 * false for another layer's outputs. */
struct kernel_input {
    const float *values;
    size_t rows, columns;
    bool indexed; /* the kernel has a sparse index of it, valid until the next kernel_input() */
};

/* Totals of one batch; in device memory. */
struct kernel_result {
    double loss_sum; /* sum over rows */
    int64_t correct; /* rows whose largest logit is their class */
    int64_t moving;  /* rows whose gradient is not zero */
};

/* The pieces of the flat state that one update works on, [count] each. */
struct kernel_update {
    size_t count;
    const float *gradient;
    float *parameters;
    float *slots[OPTIMIZER_SLOTS_LIMIT];
    const int32_t *only_if; /* device memory; if it is 0 nothing changes; NULL: unconditional */
};

/* The end of a step shared by several devices (kernel_settle()). */
struct kernel_settlement {
    size_t count;
    float *sum;          /* [count + 1]: of all gradients, then their number */
    int64_t number;      /* of the step */
    const int32_t *stop; /* page-locked host memory: if not 0, `sum` may be garbage */
    int32_t *ret_makes;  /* device memory: 1, the step is made; 0: it is not */
    int64_t *ret_made;   /* page-locked host memory: `number`, if the step is made */
};

/* Columns to select from a matrix, and their standardization; [count] each, in device memory. One
 * of the two may be NULL. */
struct kernel_features {
    size_t count;
    const int32_t *columns;     /* NULL: the first `count` */
    const float *mean, *factor; /* NULL: values stay unchanged */
};

/* Every implementation's struct begins with this one. */
struct kernel {
    const struct kernel_ops *ops;
    struct device *device;      /* borrowed */
    struct device_queue *queue; /* borrowed */
    bool captures;              /* kernel_captures() */
    char description[200];      /* "CPU, oneDNN 2.6.3, ..."; for the log */
};

/* Captured work of one kernel, a CUDA graph. */
struct kernel_graph;

struct kernel_ops {
    const char *name;
    void (*close)(struct kernel *kernel);
    enum error (*reserve)(struct kernel *kernel, size_t rows, size_t columns) MUST_CHECK;
    enum error (*input)(struct kernel *kernel, const float *values, size_t rows, size_t columns,
                        struct kernel_input *ret_input) MUST_CHECK;
    enum error (*input_bytes)(struct kernel *kernel, const uint8_t *bytes, float scale, size_t rows,
                              size_t columns,
                              struct kernel_input *ret_input) MUST_CHECK; /* NULL: not supported */
    enum error (*standardize)(struct kernel *kernel, const struct kernel_features *wanted,
                              const float *values, size_t rows, size_t columns,
                              float *ret_values) MUST_CHECK;
    enum error (*forward)(struct kernel *kernel, const struct kernel_input *input,
                          const float *weights, const float *bias, size_t outputs,
                          enum activation activation, float *ret_y) MUST_CHECK;
    enum error (*backward)(struct kernel *kernel, const struct kernel_input *input,
                           const float *y_gradient, size_t outputs, float *ret_weights_gradient,
                           float *ret_bias_gradient) MUST_CHECK;
    enum error (*backward_input)(struct kernel *kernel, const struct kernel_input *input,
                                 const float *y_gradient, const float *weights, size_t outputs,
                                 float *ret_input_gradient) MUST_CHECK;
    enum error (*softmax)(struct kernel *kernel, const float *logits, size_t rows, size_t classes,
                          float *ret_probabilities) MUST_CHECK;
    enum error (*cross_entropy)(struct kernel *kernel, enum loss loss, const float *logits,
                                const int32_t *labels, size_t rows, size_t classes,
                                float *ret_gradient, struct kernel_result *ret_result) MUST_CHECK;
    enum error (*squared_error)(struct kernel *kernel, enum loss loss, const float *y,
                                const float *targets, size_t rows, float *ret_gradient,
                                struct kernel_result *ret_result) MUST_CHECK;
    enum error (*dropout)(struct kernel *kernel, const struct dropout_mask *mask, float *values,
                          size_t count) MUST_CHECK;
    enum error (*scale)(struct kernel *kernel, float *values, size_t count,
                        float factor) MUST_CHECK;
    enum error (*clip)(struct kernel *kernel, const struct gradient_clip *clip, float *gradient,
                       size_t count) MUST_CHECK;
    enum error (*update)(struct kernel *kernel, const struct optimizer *optimizer, int64_t t,
                         const struct kernel_update *update) MUST_CHECK;
    enum error (*fill)(struct kernel *kernel, float value, size_t count,
                       float *ret_values) MUST_CHECK;
    enum error (*add)(struct kernel *kernel, const float *from, size_t count, float *to) MUST_CHECK;
    enum error (*settle)(struct kernel *kernel,
                         const struct kernel_settlement *settlement) MUST_CHECK;
    /* NULL if capturing is not supported: */
    enum error (*copy)(struct kernel *kernel, const float *from, size_t count,
                       float *to) MUST_CHECK;
    enum error (*capture_begin)(struct kernel *kernel) MUST_CHECK;
    enum error (*capture_end)(struct kernel *kernel, struct kernel_graph **ret_graph) MUST_CHECK;
    enum error (*graph_launch)(struct kernel *kernel, struct kernel_graph *graph) MUST_CHECK;
    void (*graph_free)(struct kernel *kernel, struct kernel_graph *graph);
};

/* Opens the implementation for `device`. `queue` must belong to it. options may be NULL. Loads BLAS
 * or cuBLAS; ERROR_UNAVAILABLE naming the library and where it was looked for. */
enum error kernel_open(struct device *device, struct device_queue *queue,
                       const struct kernel_options *options, struct kernel **ret_kernel) MUST_CHECK;
void kernel_close(struct kernel *kernel);

/* Copies `count` floats between host memory and the kernel's device, after the work in its queue,
 * and waits. */
enum error kernel_read(struct kernel *kernel, const float *from_device, size_t count,
                       float *ret_to_host) MUST_CHECK;
enum error kernel_write(struct kernel *kernel, const float *from_host, size_t count,
                        float *ret_to_device) MUST_CHECK;

/* Reserves internal memory for inputs of up to rows x columns. Call before any operation; may be
 * called again with more. Afterwards nothing is allocated, but on the CPU by the first
 * kernel_forward() of a size. */
enum error kernel_reserve(struct kernel *kernel, size_t rows, size_t columns) MUST_CHECK;

/* Makes a batch the first layer's input. The CPU counts its zeros once, and indexes the other
 * values if that makes the products cheaper (MNIST: four fifths are zero). */
enum error kernel_input(struct kernel *kernel, const float *values, size_t rows, size_t columns,
                        struct kernel_input *ret_input) MUST_CHECK;

/* The same for bytes that stand for themselves times `scale`, rounded once: the same bits as for
 * those floats from device_u8_to_f32(). Requires kernel_takes_bytes(): true on the CPU, which then
 * reads a quarter of the memory, if `scale` is a normal number. */
enum error kernel_input_bytes(struct kernel *kernel, const uint8_t *bytes, float scale, size_t rows,
                              size_t columns, struct kernel_input *ret_input) MUST_CHECK;
bool kernel_takes_bytes(const struct kernel *kernel, float scale);

/* y[B,F] = (x[B,C] in column wanted->columns - mean) * factor, F wanted->count. Bit-equal on every
 * device. */
enum error kernel_standardize(struct kernel *kernel, const struct kernel_features *wanted,
                              const float *values, size_t rows, size_t columns,
                              float *ret_values) MUST_CHECK;

/* y[B,O] = activation(x[B,I] w[I,O] + b[O]) */
enum error kernel_forward(struct kernel *kernel, const struct kernel_input *input,
                          const float *weights, const float *bias, size_t outputs,
                          enum activation activation, float *ret_y) MUST_CHECK;

/* dw[I,O] = x^T dy[B,O], db[O] = column sums of dy, overwriting both. dy is the gradient before
 * the activation. */
enum error kernel_backward(struct kernel *kernel, const struct kernel_input *input,
                           const float *y_gradient, size_t outputs, float *ret_weights_gradient,
                           float *ret_bias_gradient) MUST_CHECK;

/* dx[B,I] = (dy[B,O] w^T) where x > 0, else 0: the gradient before the ReLU that made x. */
enum error kernel_backward_input(struct kernel *kernel, const struct kernel_input *input,
                                 const float *y_gradient, const float *weights, size_t outputs,
                                 float *ret_input_gradient) MUST_CHECK;

/* p[B,L] = softmax of each row, by the shifted form. May work in place. */
enum error kernel_softmax(struct kernel *kernel, const float *logits, size_t rows, size_t classes,
                          float *ret_probabilities) MUST_CHECK;

/* LOSS_CLIPPED_SUM or LOSS_MEAN of logits[B,L] and labels[B] in 0..L-1: the gradient to the logits,
 * and the batch's totals. `ret_gradient` is not `logits`. */
enum error kernel_cross_entropy(struct kernel *kernel, enum loss loss, const float *logits,
                                const int32_t *labels, size_t rows, size_t classes,
                                float *ret_gradient, struct kernel_result *ret_result) MUST_CHECK;

/* LOSS_SQUARED_* of y[B] and targets[B]; as above, correct is 0. */
enum error kernel_squared_error(struct kernel *kernel, enum loss loss, const float *y,
                                const float *targets, size_t rows, float *ret_gradient,
                                struct kernel_result *ret_result) MUST_CHECK;

/* Drops values (dropout.h) and scales the others. Bit-equal on every device. `mask` is device
 * memory, so that captured work reads the current batch's. */
enum error kernel_dropout(struct kernel *kernel, const struct dropout_mask *mask, float *values,
                          size_t count) MUST_CHECK;

/* values[count] *= factor. Bit-equal on every device. */
enum error kernel_scale(struct kernel *kernel, float *values, size_t count,
                        float factor) MUST_CHECK;

/* Clips gradient[count] (gradient_clip.h). */
enum error kernel_clip(struct kernel *kernel, const struct gradient_clip *clip, float *gradient,
                       size_t count) MUST_CHECK;

/* Update number `t` (from 1) of the parameters and their slots (trainer/compute/optimizer.h): the
 * whole of it or, if it cannot be enqueued, nothing. Bit-equal on every device. */
enum error kernel_update(struct kernel *kernel, const struct optimizer *optimizer, int64_t t,
                         const struct kernel_update *update) MUST_CHECK;

/* For gradients summed over several devices: values[count] = value; to[count] += from[count].
 * Bit-equal on every device. */
enum error kernel_fill(struct kernel *kernel, float value, size_t count,
                       float *ret_values) MUST_CHECK;
enum error kernel_add(struct kernel *kernel, const float *from, size_t count, float *to) MUST_CHECK;
/* After the work that computes the sum: decides whether the step is made (unless *stop forbids it),
 * and turns the sum into a mean. *stop is read once, so that the whole update follows one decision
 * (`only_if`), whenever the host sets it. */
enum error kernel_settle(struct kernel *kernel,
                         const struct kernel_settlement *settlement) MUST_CHECK;

/* Repeated work that is captured once and then launched as a unit: a GPU starts its kernels faster
 * than the host could enqueue them. Requires kernel_captures(). */
bool kernel_captures(const struct kernel *kernel);

/* to[count] = from[count] */
enum error kernel_copy(struct kernel *kernel, const float *from, size_t count,
                       float *to) MUST_CHECK;

/* Records the operations up to the end, with the addresses that they read and write, instead of
 * running them. Nothing may be allocated, copied to or from the host or waited for in between. Each
 * successful begin needs its end, whatever failed in between. ERROR_UNAVAILABLE if the device or a
 * library cannot capture: enqueuing the same operations may still work. */
enum error kernel_capture_begin(struct kernel *kernel) MUST_CHECK;
enum error kernel_capture_end(struct kernel *kernel, struct kernel_graph **ret_graph) MUST_CHECK;
enum error kernel_graph_launch(struct kernel *kernel, struct kernel_graph *graph) MUST_CHECK;
/* NULL is legal. Launched work must be done. */
void kernel_graph_free(struct kernel *kernel, struct kernel_graph *graph);

#endif
