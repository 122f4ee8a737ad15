/* SPDX-License-Identifier: MIT */
/*
 * The kernel on the CPU, and the reference for the others. Products (kernel_cpu_products.c) and
 * updates use several threads. All work is done when a call returns.
 *
 * Only the loss is summed in double, over rows. Float sums run in index order (sum_of(),
 * sum_columns), so that they do not depend on the vector unit.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/machine.h"
#include "common/text.h"
#include "trainer/compute/blas.h"
#include "trainer/compute/kernel_cpu_private.h"
#include "trainer/compute/kernel_variants.h"

#define L2_CHUNK 2048       /* floats */
#define UPDATE_PART 16384   /* parameters: at least so many for each thread */
#define INDEX_PART 16384    /* values of a batch: likewise */
#define EXPONENTIAL 100     /* multiplications that a class of a row costs in a loss */
#define UPDATE_MULTIPLE 256 /* parameters: where parts begin, a multiple of every loop's step */

static void cpu_close(struct kernel *kernel)
{
    struct kernel_cpu *cpu = kernel_cpu_of(kernel);
    fork_join_free(cpu->pool);
    sparse_batch_release(&cpu->sparse);
    free(cpu->sums);
    free(cpu);
    blas_close();
}

static enum error cpu_reserve(struct kernel *kernel, size_t rows, size_t columns)
{
    return sparse_batch_reserve(&kernel_cpu_of(kernel)->sparse, rows, columns);
}

/* The index of a batch, by all threads: each reads the columns that it will multiply. */
struct index_work {
    struct kernel_cpu *cpu;
    unsigned parts;
    size_t counts[FORK_JOIN_THREADS]; /* of nonzeros, by part */
};

static void index_part(void *context, unsigned part)
{
    struct index_work *work = context;
    struct sparse_batch *sparse = &work->cpu->sparse;
    work->counts[part] = sparse_batch_index(
        sparse, work->cpu->loops, fork_join_begin(sparse->row_words, work->parts, part, 1),
        fork_join_begin(sparse->row_words, work->parts, part + 1, 1));
}

/* Is the batch, which sparse_batch_set() has begun, to be multiplied over its index? */
static bool index_input(struct kernel_cpu *cpu)
{
    struct sparse_batch *sparse = &cpu->sparse;
    struct index_work work = {
        .cpu = cpu, .parts = kernel_cpu_parts(cpu, sparse->rows * sparse->columns, INDEX_PART)};
    fork_join_run(cpu->pool, work.parts, index_part, &work);
    sparse->count = 0;
    for (unsigned part = 0; part < work.parts; part++)
        sparse->count += work.counts[part];
    return sparse_batch_worth(sparse, cpu->loops);
}

static enum error cpu_input(struct kernel *kernel, const float *values, size_t rows, size_t columns,
                            struct kernel_input *ret_input)
{
    struct kernel_cpu *cpu = kernel_cpu_of(kernel);
    sparse_batch_set(&cpu->sparse, values, rows, columns);
    *ret_input = (struct kernel_input){values, rows, columns, index_input(cpu)};
    return OK;
}

static enum error cpu_input_bytes(struct kernel *kernel, const uint8_t *bytes, float scale,
                                  size_t rows, size_t columns, struct kernel_input *ret_input)
{
    struct kernel_cpu *cpu = kernel_cpu_of(kernel);
    sparse_batch_set_bytes(&cpu->sparse, bytes, scale, rows, columns);
    *ret_input =
        (struct kernel_input){.rows = rows, .columns = columns, .indexed = index_input(cpu)};
    if (ret_input->indexed)
        return OK;
    ret_input->values = cpu->sparse.floats;
    return device_u8_to_f32(kernel->device, kernel->queue, cpu->sparse.floats, bytes,
                            rows * columns, scale);
}

static void pick(const float *row, const int32_t *columns, size_t count, float *ret_values)
{
    for (size_t i = 0; i < count; i++)
        ret_values[i] = row[columns[i]];
}

static enum error cpu_standardize(struct kernel *kernel, const struct kernel_features *wanted,
                                  const float *values, size_t rows, size_t columns,
                                  float *ret_values)
{
    const struct cpu_loops *loops = kernel_cpu_of(kernel)->loops;
    for (size_t row = 0; row < rows; row++) {
        const float *from = values + row * columns;
        float *to = ret_values + row * wanted->count;
        if (wanted->columns) {
            pick(from, wanted->columns, wanted->count, to);
            from = to;
        }
        if (wanted->mean)
            loops->standardize(from, wanted->mean, wanted->factor, wanted->count, to);
    }
    return OK;
}

/* ret_out[B,L] = logits[B,L] minus the largest of their row: no result is above 0, so that exp()
 * never overflows, and one is 0, so that a row's sum of exponentials is at least 1. May work in
 * place. */
static void shift_rows(const float *logits, size_t rows, size_t classes, float *ret_out)
{
    for (size_t row = 0; row < rows; row++) {
        float largest = logits[0];
        for (size_t j = 1; j < classes; j++)
            largest = logits[j] > largest ? logits[j] : largest;
        for (size_t j = 0; j < classes; j++)
            ret_out[j] = logits[j] - largest;
        logits += classes;
        ret_out += classes;
    }
}

static float sum_of(const float *values, size_t count)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

static enum error cpu_softmax(struct kernel *kernel, const float *logits, size_t rows,
                              size_t classes, float *ret_probabilities)
{
    shift_rows(logits, rows, classes, ret_probabilities);
    kernel_cpu_of(kernel)->loops->exponentials(ret_probabilities, rows * classes);
    for (float *p = ret_probabilities; p < ret_probabilities + rows * classes; p += classes) {
        float sum = sum_of(p, classes);
        for (size_t j = 0; j < classes; j++)
            p[j] /= sum;
    }
    return OK;
}

/* Largest (first of equals); NaN is never correct. */
static bool is_correct(const float *logits, size_t classes, size_t label)
{
    bool correct = true;
    for (size_t j = 0; j < classes; j++)
        correct &= j < label ? logits[label] > logits[j] : logits[label] >= logits[j];
    return correct;
}

/* One row [L] of LOSS_CLIPPED_SUM: exponentials become p - onehot(label), or zeros if the clip cuts
 * the gradient off; returns the loss. */
static double clipped_row(float *row, size_t classes, size_t label)
{
    float sum = sum_of(row, classes);
    float p = row[label] / sum;
    if (p < LOSS_CLIP_MINIMUM) {
        memset(row, 0, classes * sizeof(*row));
        return -log((double)LOSS_CLIP_MINIMUM);
    }
    for (size_t j = 0; j < classes; j++)
        row[j] /= sum;
    row[label] -= 1;
    return -log((double)(p > 1 ? 1 : p));
}

/* One row [L] of LOSS_MEAN: exponentials become (p - onehot(label)) / B, `share` being 1 / B;
 * `shifted_logit` is the label's, minus the largest: log p without the logarithm of a tiny p. */
static double mean_row(float *row, size_t classes, size_t label, float shifted_logit, float share)
{
    float sum = sum_of(row, classes);
    for (size_t j = 0; j < classes; j++)
        row[j] = row[j] / sum * share;
    row[label] -= share;
    return log((double)sum) - (double)shifted_logit;
}

static bool is_moving(const float *gradient, size_t count)
{
    size_t i = 0;
    while (i < count && gradient[i] == 0)
        i++;
    return i < count;
}

/* The arguments of cpu_cross_entropy(), and the results of blocks of rows. */
struct loss_work {
    const struct cpu_loops *loops;
    enum loss loss;
    const float *logits;
    const int32_t *labels;
    size_t rows, classes;
    unsigned blocks;
    float *ret_gradient;
    struct kernel_result results[FORK_JOIN_PARTS];
};

/* Two passes over a block: exponentials of all rows in one vector loop, then row by row while they
 * are in the cache; the gradient buffer holds the intermediate values. */
static void cross_entropy_block(void *context, unsigned block)
{
    struct loss_work *work = context;
    struct kernel_result result = {0};
    size_t classes = work->classes;
    size_t begin = fork_join_begin(work->rows, work->blocks, block, 1);
    size_t end = fork_join_begin(work->rows, work->blocks, block + 1, 1);
    const float *logits = work->logits + begin * classes;
    float *row = work->ret_gradient + begin * classes;
    float share = 1.0f / (float)work->rows;
    shift_rows(logits, end - begin, classes, row);
    work->loops->exponentials(row, (end - begin) * classes);
    for (size_t i = begin; i < end; i++, logits += classes, row += classes) {
        size_t label = (size_t)work->labels[i];
        result.correct += is_correct(logits, classes, label);
        if (work->loss == LOSS_CLIPPED_SUM) {
            result.loss_sum += clipped_row(row, classes, label);
        } else {
            float largest = logits[0];
            for (size_t j = 1; j < classes; j++)
                largest = logits[j] > largest ? logits[j] : largest;
            result.loss_sum += mean_row(row, classes, label, logits[label] - largest, share);
        }
        result.moving += is_moving(row, classes);
    }
    work->results[block] = result;
}

static enum error cpu_cross_entropy(struct kernel *kernel, enum loss loss, const float *logits,
                                    const int32_t *labels, size_t rows, size_t classes,
                                    float *ret_gradient, struct kernel_result *ret_result)
{
    struct kernel_cpu *cpu = kernel_cpu_of(kernel);
    struct loss_work work = {.loops = cpu->loops,
                             .loss = loss,
                             .logits = logits,
                             .labels = labels,
                             .rows = rows,
                             .classes = classes,
                             .blocks = kernel_cpu_blocks(rows, classes * EXPONENTIAL),
                             .ret_gradient = ret_gradient};
    fork_join_run(cpu->pool, work.blocks, cross_entropy_block, &work);
    struct kernel_result result = {0};
    for (unsigned block = 0; block < work.blocks; block++) {
        result.loss_sum += work.results[block].loss_sum;
        result.correct += work.results[block].correct;
        result.moving += work.results[block].moving;
    }
    *ret_result = result;
    return OK;
}

static enum error cpu_squared_error(struct kernel *kernel, enum loss loss, const float *y,
                                    const float *targets, size_t rows, float *ret_gradient,
                                    struct kernel_result *ret_result)
{
    (void)kernel;
    struct kernel_result result = {0};
    float scale = loss_is_mean(loss) ? 2.0f / (float)rows : 2.0f;
    for (size_t i = 0; i < rows; i++) {
        float difference = y[i] - targets[i];
        result.loss_sum += (double)difference * (double)difference;
        ret_gradient[i] = difference * scale;
        result.moving += ret_gradient[i] != 0;
    }
    *ret_result = result;
    return OK;
}

static enum error cpu_dropout(struct kernel *kernel, const struct dropout_mask *mask, float *values,
                              size_t count)
{
    kernel_cpu_of(kernel)->loops->drop(mask, values, count);
    return OK;
}

static enum error cpu_scale(struct kernel *kernel, float *values, size_t count, float factor)
{
    kernel_cpu_of(kernel)->loops->scale(values, factor, count);
    return OK;
}

static enum error cpu_clip(struct kernel *kernel, const struct gradient_clip *clip, float *gradient,
                           size_t count)
{
    const struct cpu_loops *loops = kernel_cpu_of(kernel)->loops;
    if (clip->value > 0)
        loops->clamp(gradient, clip->value, count);
    if (clip->norm == 0)
        return OK;
    float factor = gradient_clip_factor(clip, loops->sum_squares(gradient, count));
    if (factor != 1)
        loops->scale(gradient, factor, count);
    return OK;
}

typedef void update_loop(const struct optimizer *optimizer, float rate, size_t count,
                         const float *gradient, float *parameters,
                         float *const slots[OPTIMIZER_SLOTS_LIMIT]);

/* One update of all threads. */
struct update_work {
    const struct cpu_loops *loops;
    update_loop *apply;
    const struct optimizer *optimizer;
    float rate, decay;
    const struct kernel_update *update;
    unsigned parts;
};

static void update_piece(const struct update_work *work, size_t begin, size_t count,
                         const float *gradient)
{
    const struct kernel_update *update = work->update;
    float *slots[OPTIMIZER_SLOTS_LIMIT] = {NULL};
    for (size_t i = 0; i < optimizer_slots(work->optimizer); i++)
        slots[i] = update->slots[i] + begin;
    work->apply(work->optimizer, work->rate, count, gradient, update->parameters + begin, slots);
}

/* The gradient is the caller's, and may be in a worker's shared memory: its sum with l2 times the
 * parameters goes through a buffer that stays in the L1 cache. */
static void update_with_l2(const struct update_work *work, size_t begin, size_t end)
{
    const struct kernel_update *update = work->update;
    float gradient[L2_CHUNK];
    for (size_t at = begin; at < end; at += L2_CHUNK) {
        size_t count = end - at < L2_CHUNK ? end - at : L2_CHUNK;
        work->loops->add_multiple(update->gradient + at, work->optimizer->l2,
                                  update->parameters + at, count, gradient);
        update_piece(work, at, count, gradient);
    }
}

static void update_part(void *context, unsigned part)
{
    const struct update_work *work = context;
    size_t count = work->update->count;
    size_t begin = fork_join_begin(count, work->parts, part, UPDATE_MULTIPLE);
    size_t end = fork_join_begin(count, work->parts, part + 1, UPDATE_MULTIPLE);
    if (work->decay != 1)
        work->loops->scale(work->update->parameters + begin, work->decay, end - begin);
    if (work->optimizer->l2 == 0)
        update_piece(work, begin, end - begin, work->update->gradient + begin);
    else
        update_with_l2(work, begin, end);
}

static enum error cpu_update(struct kernel *kernel, const struct optimizer *optimizer, int64_t t,
                             const struct kernel_update *update)
{
    struct kernel_cpu *cpu = kernel_cpu_of(kernel);
    update_loop *apply = NULL;
    if (update->only_if && !*update->only_if)
        return OK;
    switch (optimizer->kind) {
    case OPTIMIZER_SGD:
        apply = cpu->loops->sgd;
        break;
    case OPTIMIZER_MOMENTUM:
        apply = cpu->loops->momentum;
        break;
    case OPTIMIZER_ADAGRAD:
        apply = cpu->loops->adagrad;
        break;
    case OPTIMIZER_ADAM:
        apply = cpu->loops->adam;
        break;
    }
    struct update_work work = {.loops = cpu->loops,
                               .apply = apply,
                               .optimizer = optimizer,
                               .rate = optimizer_rate(optimizer, t),
                               .decay = optimizer_decay(optimizer, t),
                               .update = update,
                               .parts = kernel_cpu_parts(cpu, update->count, UPDATE_PART)};
    fork_join_run(cpu->pool, work.parts, update_part, &work);
    return OK;
}

static enum error cpu_fill(struct kernel *kernel, float value, size_t count, float *ret_values)
{
    (void)kernel;
    for (size_t i = 0; i < count; i++)
        ret_values[i] = value;
    return OK;
}

static enum error cpu_add(struct kernel *kernel, const float *from, size_t count, float *to)
{
    kernel_cpu_of(kernel)->loops->add(to, from, count);
    return OK;
}

static enum error cpu_settle(struct kernel *kernel, const struct kernel_settlement *settlement)
{
    float gradients = settlement->sum[settlement->count];
    *settlement->ret_makes = *settlement->stop == 0;
    if (!*settlement->ret_makes)
        return OK;
    *settlement->ret_made = settlement->number;
    if (gradients > 1)
        kernel_cpu_of(kernel)->loops->divide(settlement->sum, gradients, settlement->count);
    return OK;
}

static const struct kernel_ops ops = {
    .name = "cpu",
    .close = cpu_close,
    .reserve = cpu_reserve,
    .input = cpu_input,
    .input_bytes = cpu_input_bytes,
    .standardize = cpu_standardize,
    .forward = kernel_cpu_forward,
    .backward = kernel_cpu_backward,
    .backward_input = kernel_cpu_backward_input,
    .softmax = cpu_softmax,
    .cross_entropy = cpu_cross_entropy,
    .squared_error = cpu_squared_error,
    .dropout = cpu_dropout,
    .scale = cpu_scale,
    .clip = cpu_clip,
    .update = cpu_update,
    .fill = cpu_fill,
    .add = cpu_add,
    .settle = cpu_settle,
};

/* As many as are wanted and can run at once: more would wait for each other's processor. */
static unsigned threads_of(const struct kernel_options *options)
{
    struct machine machine;
    unsigned wanted = options->threads ? options->threads : 1;
    if (wanted == 1)
        return 1;
    machine_look(&machine);
    unsigned most = machine.processors < FORK_JOIN_THREADS ? machine.processors : FORK_JOIN_THREADS;
    return wanted < most ? wanted : most;
}

enum error kernel_cpu_open(struct device *device, struct device_queue *queue,
                           const struct kernel_options *options, struct kernel **ret_kernel)
{
    struct kernel_cpu *made = array_new(1, sizeof(*made), "the CPU kernel");
    if (!made)
        return ERROR_MEMORY;
    unsigned threads = threads_of(options);
    enum error error = blas_open(options->blas ? options->blas : "auto");
    if (error) {
        free(made);
        return error;
    }
    error = fork_join_new(threads, &made->pool);
    if (error) {
        cpu_close(&made->kernel);
        return error;
    }
    made->loops = cpu_loops_best();
    made->kernel = (struct kernel){.ops = &ops, .device = device, .queue = queue};
    snprintf(made->kernel.description, sizeof(made->kernel.description), "CPU, %s loops, %s, %u %s",
             made->loops->name, blas_describe(), threads,
             text_plural(threads, "thread", "threads"));
    *ret_kernel = &made->kernel;
    return OK;
}
