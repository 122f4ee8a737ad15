/* SPDX-License-Identifier: MIT */
/*
 * A layer's products on the CPU: dense ones by the BLAS library, those with a batch that is mostly
 * zeros by the sparse loops (sparse_batch.h).
 *
 * Each product is computed in parts, one for a range of the layer's inputs, that is of rows of w
 * and dw: with several threads each processor keeps its own rows of the weights, their gradient and
 * the optimizer's slots in its cache from step to step. The parts depend on the layer's size alone,
 * not on the number of threads, and so the bits do not either.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trainer/compute/blas.h"
#include "trainer/compute/kernel_cpu_private.h"

/* A part has at least so many inputs and weights; it begins at a multiple of 16 rows, which is one
 * of a cache line for any number of outputs. */
#define PART_INPUTS 192
#define PART_WEIGHTS 32768
#define PART_MULTIPLE 16

/* One product of x[B,I], w[I,O] and y[B,O] or their gradients. */
struct product {
    struct kernel_cpu *cpu;
    const struct kernel_input *input;
    const float *weights, *bias, *y_gradient;
    size_t outputs;
    unsigned parts;
    float *ret_out;
};

unsigned kernel_layer_parts(size_t inputs, size_t outputs)
{
    unsigned parts = 1;
    while (2 * parts <= SPARSE_BATCH_PARTS && inputs / (2 * parts) >= PART_INPUTS &&
           inputs / (2 * parts) * outputs >= PART_WEIGHTS)
        parts *= 2;
    return parts;
}

/* The part's inputs. */
static struct sparse_part range_of(const struct product *p, unsigned part)
{
    size_t inputs = p->input->columns;
    return (struct sparse_part){fork_join_begin(inputs, p->parts, part, PART_MULTIPLE),
                                fork_join_begin(inputs, p->parts, part + 1, PART_MULTIPLE), part};
}

static struct product product_of(struct kernel *kernel, const struct kernel_input *input,
                                 size_t outputs, float *ret_out)
{
    return (struct product){.cpu = kernel_cpu_of(kernel),
                            .input = input,
                            .outputs = outputs,
                            .parts = kernel_layer_parts(input->columns, outputs),
                            .ret_out = ret_out};
}

static void run(struct product *p, void (*part)(void *context, unsigned part))
{
    fork_join_run(p->cpu->pool, p->parts, part, p);
}

/* Where the part's sum over its inputs goes: the first one's into y itself. */
static float *sum_of_part(const struct product *p, unsigned part)
{
    return part == 0 ? p->ret_out : p->cpu->sums + (part - 1) * p->input->rows * p->outputs;
}

/* The sparse product adds to what is there: B copies of the bias, or zeros. */
static void forward_part(void *context, unsigned part)
{
    const struct product *p = context;
    struct sparse_part range = range_of(p, part);
    size_t rows = p->input->rows, columns = p->input->columns;
    float *y = sum_of_part(p, part);
    if (!p->input->indexed) {
        blas_multiply(&(struct blas_product){
            .m = rows,
            .n = p->outputs,
            .k = range.end - range.begin,
            .a = p->input->values + range.begin,
            .a_stride = columns,
            .b = p->weights + range.begin * p->outputs,
            .b_stride = p->outputs,
            .c = y,
            .c_stride = p->outputs,
        });
        return;
    }
    if (part > 0)
        memset(y, 0, rows * p->outputs * sizeof(*y));
    for (size_t row = 0; part == 0 && row < rows; row++)
        memcpy(y + row * p->outputs, p->bias, p->outputs * sizeof(*y));
    p->cpu->loops->multiply(&p->cpu->sparse, &range, p->weights, p->outputs, y);
}

/* Room for the sums of all parts but the first; grows with the first batch of a size. */
static enum error reserve_sums(struct kernel_cpu *cpu, size_t count)
{
    if (count <= cpu->sums_limit)
        return OK;
    float *sums = array_new(count, sizeof(*sums), "a layer's sums");
    if (!sums)
        return ERROR_MEMORY;
    free(cpu->sums);
    cpu->sums = sums;
    cpu->sums_limit = count;
    return OK;
}

/* x[B,I] w[I,O]: the sums of the parts are added in order. The dense product's bias is added by the
 * pass that applies the ReLU. It can differ from the sparse one by a rounding, so the choice must
 * depend on the batch alone (sparse_batch_worth()). */
enum error kernel_cpu_forward(struct kernel *kernel, const struct kernel_input *input,
                              const float *weights, const float *bias, size_t outputs,
                              enum activation activation, float *ret_y)
{
    struct kernel_cpu *cpu = kernel_cpu_of(kernel);
    struct product p = product_of(kernel, input, outputs, ret_y);
    p.weights = weights;
    p.bias = bias;
    size_t count = input->rows * outputs;
    bool relu = activation == ACTIVATION_RELU;
    enum error error = reserve_sums(cpu, (p.parts - 1) * count);
    if (error)
        return error;
    run(&p, forward_part);
    for (unsigned part = 1; part < p.parts; part++)
        cpu->loops->add(ret_y, sum_of_part(&p, part), count);
    if (!input->indexed)
        cpu->loops->finish_rows(ret_y, input->rows, outputs, bias, relu);
    else if (relu)
        cpu->loops->finish_rows(ret_y, 1, count, NULL, true);
    return OK;
}

static void backward_part(void *context, unsigned part)
{
    const struct product *p = context;
    struct sparse_part range = range_of(p, part);
    if (p->input->indexed) {
        p->cpu->loops->multiply_transposed(&p->cpu->sparse, &range, p->y_gradient, p->outputs,
                                           p->ret_out);
        return;
    }
    blas_multiply(&(struct blas_product){
        .a_transpose = BLAS_TRANSPOSED,
        .m = range.end - range.begin,
        .n = p->outputs,
        .k = p->input->rows,
        .a = p->input->values + range.begin,
        .a_stride = p->input->columns,
        .b = p->y_gradient,
        .b_stride = p->outputs,
        .c = p->ret_out + range.begin * p->outputs,
        .c_stride = p->outputs,
    });
}

/* dw[I,O] = x^T[I,B] dy[B,O], db[O] = column sums of dy. Columns of x are indexed here, at most
 * once per batch, rather than with its rows: a batch that is only scored never needs them. */
enum error kernel_cpu_backward(struct kernel *kernel, const struct kernel_input *input,
                               const float *y_gradient, size_t outputs, float *ret_weights_gradient,
                               float *ret_bias_gradient)
{
    struct kernel_cpu *cpu = kernel_cpu_of(kernel);
    struct product p = product_of(kernel, input, outputs, ret_weights_gradient);
    p.y_gradient = y_gradient;
    cpu->loops->sum_columns(y_gradient, input->rows, outputs, ret_bias_gradient);
    if (input->indexed)
        sparse_batch_index_columns(&cpu->sparse);
    run(&p, backward_part);
    return OK;
}

static void backward_input_part(void *context, unsigned part)
{
    const struct product *p = context;
    struct sparse_part range = range_of(p, part);
    size_t columns = p->input->columns;
    blas_multiply(&(struct blas_product){
        .b_transpose = BLAS_TRANSPOSED,
        .m = p->input->rows,
        .n = range.end - range.begin,
        .k = p->outputs,
        .a = p->y_gradient,
        .a_stride = p->outputs,
        .b = p->weights + range.begin * p->outputs,
        .b_stride = p->outputs,
        .c = p->ret_out + range.begin,
        .c_stride = columns,
    });
    for (size_t row = 0; row < p->input->rows; row++) {
        size_t at = row * columns + range.begin;
        p->cpu->loops->mask_positive(p->ret_out + at, p->input->values + at,
                                     range.end - range.begin);
    }
}

/* dx[B,I] = dy[B,O] w^T[O,I], zero where x is not positive: x[B,I] is the output of the ReLU
 * before, and positive exactly where the ReLU let its input pass. */
enum error kernel_cpu_backward_input(struct kernel *kernel, const struct kernel_input *input,
                                     const float *y_gradient, const float *weights, size_t outputs,
                                     float *ret_input_gradient)
{
    struct product p = product_of(kernel, input, outputs, ret_input_gradient);
    p.weights = weights;
    p.y_gradient = y_gradient;
    run(&p, backward_input_part);
    return OK;
}
