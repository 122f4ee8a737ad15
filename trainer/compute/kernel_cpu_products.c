/* SPDX-License-Identifier: MIT */
/*
 * A layer's products on the CPU: dense ones by the BLAS library, those with a batch that is mostly
 * zeros by the sparse loops (sparse_batch.h).
 *
 * Each product of a large layer is computed in parts, one for a range of the layer's inputs, that
 * is of rows of w and dw: with several threads each processor keeps its own rows of the weights,
 * their gradient and the optimizer's slots in its cache from step to step. In a layer of one part,
 * x w and dy w^T are computed in blocks of rows. Parts and blocks depend on sizes alone, not on the
 * number of threads, and so the bits do not either.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trainer/compute/blas.h"
#include "trainer/compute/kernel_cpu_private.h"

/* A part has at least so many inputs, and a block so many rows; both have so many multiplications,
 * a part for each row of the batch. A part begins at a multiple of 16 rows of weights, which is one
 * of a cache line for any number of outputs. */
#define PART_INPUTS 192
#define PART_MULTIPLE 16
#define BLOCK_ROWS 16
#define PART_WORK 32768

/* Sums of y that a thread adds up at once, at least. */
#define FINISH_VALUES 2048

/* One product of x[B,I], w[I,O] and y[B,O] or their gradients. */
struct product {
    struct kernel_cpu *cpu;
    const struct kernel_input *input;
    const float *weights, *bias, *y_gradient;
    size_t outputs;
    unsigned parts, blocks; /* one of them is 1 */
    bool relu;
    unsigned finish_parts;
    float *ret_out;
};

/* Into how many parts `count` elements are divided, a power of two: at most `most`, none with fewer
 * than `least` elements or, if an element takes so many multiplications, than PART_WORK of them. */
static unsigned divide(size_t count, size_t multiplications, unsigned most, size_t least)
{
    unsigned parts = 1;
    while (2 * parts <= most && count / (2 * parts) >= least &&
           count / (2 * parts) * multiplications >= PART_WORK)
        parts *= 2;
    return parts;
}

unsigned kernel_layer_parts(size_t inputs, size_t outputs)
{
    return divide(inputs, outputs, SPARSE_BATCH_PARTS, PART_INPUTS);
}

unsigned kernel_cpu_blocks(size_t rows, size_t multiplications)
{
    return divide(rows, multiplications, FORK_JOIN_PARTS, BLOCK_ROWS);
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
    unsigned parts = kernel_layer_parts(input->columns, outputs);
    bool divided = parts > 1 || input->indexed; /* the index is divided by inputs alone */
    return (struct product){
        .cpu = kernel_cpu_of(kernel),
        .input = input,
        .outputs = outputs,
        .parts = parts,
        .blocks = divided ? 1 : kernel_cpu_blocks(input->rows, input->columns * outputs),
        .ret_out = ret_out};
}

static void run(struct product *p, unsigned parts, void (*part)(void *context, unsigned part))
{
    fork_join_run(p->cpu->pool, parts, part, p);
}

/* Where the part's sum over its inputs goes: the first one's into y itself. */
static float *sum_of_part(const struct product *p, unsigned part)
{
    return part == 0 ? p->ret_out : p->cpu->sums + (part - 1) * p->input->rows * p->outputs;
}

/* The sparse product adds to what is there: B copies of the bias, or zeros. */
static void multiply_sparse(const struct product *p, const struct sparse_part *range, float *y)
{
    size_t rows = p->input->rows;
    if (range->number > 0)
        memset(y, 0, rows * p->outputs * sizeof(*y));
    for (size_t row = 0; range->number == 0 && row < rows; row++)
        memcpy(y + row * p->outputs, p->bias, p->outputs * sizeof(*y));
    p->cpu->loops->multiply(&p->cpu->sparse, range, p->weights, p->outputs, y);
}

static void forward_part(void *context, unsigned part)
{
    const struct product *p = context;
    struct sparse_part range = range_of(p, part);
    if (p->input->indexed)
        multiply_sparse(p, &range, sum_of_part(p, part));
    else
        blas_multiply(&(struct blas_product){
            .m = p->input->rows,
            .n = p->outputs,
            .k = range.end - range.begin,
            .a = p->input->values + range.begin,
            .a_stride = p->input->columns,
            .b = p->weights + range.begin * p->outputs,
            .b_stride = p->outputs,
            .c = sum_of_part(p, part),
            .c_stride = p->outputs,
        });
}

/* Adds the sums of all parts, and what the products leave out, for rows [begin, end): the dense
 * product's bias is added by the pass that applies the ReLU. It can differ from the sparse one by a
 * rounding, so the choice must depend on the batch alone (sparse_batch_worth()). */
static void finish(const struct product *p, size_t begin, size_t end)
{
    const struct cpu_loops *loops = p->cpu->loops;
    size_t at = begin * p->outputs, count = (end - begin) * p->outputs;
    for (unsigned part = 1; part < p->parts; part++)
        loops->add(p->ret_out + at, sum_of_part(p, part) + at, count);
    if (!p->input->indexed)
        loops->finish_rows(p->ret_out + at, end - begin, p->outputs, p->bias, p->relu);
    else if (p->relu)
        loops->finish_rows(p->ret_out + at, 1, count, NULL, true);
}

static void finish_part(void *context, unsigned part)
{
    const struct product *p = context;
    finish(p, fork_join_begin(p->input->rows, p->finish_parts, part, 1),
           fork_join_begin(p->input->rows, p->finish_parts, part + 1, 1));
}

static void forward_block(void *context, unsigned block)
{
    const struct product *p = context;
    size_t begin = fork_join_begin(p->input->rows, p->blocks, block, 1);
    size_t end = fork_join_begin(p->input->rows, p->blocks, block + 1, 1);
    blas_multiply(&(struct blas_product){
        .m = end - begin,
        .n = p->outputs,
        .k = p->input->columns,
        .a = p->input->values + begin * p->input->columns,
        .a_stride = p->input->columns,
        .b = p->weights,
        .b_stride = p->outputs,
        .c = p->ret_out + begin * p->outputs,
        .c_stride = p->outputs,
    });
    finish(p, begin, end);
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

/* x[B,I] w[I,O]: the sums of the parts are added in order. */
enum error kernel_cpu_forward(struct kernel *kernel, const struct kernel_input *input,
                              const float *weights, const float *bias, size_t outputs,
                              enum activation activation, float *ret_y)
{
    struct kernel_cpu *cpu = kernel_cpu_of(kernel);
    struct product p = product_of(kernel, input, outputs, ret_y);
    size_t count = input->rows * outputs;
    p.weights = weights;
    p.bias = bias;
    p.relu = activation == ACTIVATION_RELU;
    p.finish_parts = kernel_cpu_parts(cpu, count, FINISH_VALUES);
    enum error error = reserve_sums(cpu, (p.parts - 1) * count);
    if (error)
        return error;
    if (p.blocks > 1) {
        run(&p, p.blocks, forward_block);
        return OK;
    }
    run(&p, p.parts, forward_part);
    run(&p, p.finish_parts, finish_part);
    return OK;
}

static void backward_part(void *context, unsigned part)
{
    const struct product *p = context;
    struct sparse_part range = range_of(p, part);
    if (p->input->indexed) {
        sparse_batch_index_columns(&p->cpu->sparse, &range);
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

/* dw[I,O] = x^T[I,B] dy[B,O], db[O] = column sums of dy. Columns of x are indexed here rather than
 * with its rows: a batch that is only scored never needs them. */
enum error kernel_cpu_backward(struct kernel *kernel, const struct kernel_input *input,
                               const float *y_gradient, size_t outputs, float *ret_weights_gradient,
                               float *ret_bias_gradient)
{
    struct kernel_cpu *cpu = kernel_cpu_of(kernel);
    struct product p = product_of(kernel, input, outputs, ret_weights_gradient);
    p.y_gradient = y_gradient;
    cpu->loops->sum_columns(y_gradient, input->rows, outputs, ret_bias_gradient);
    run(&p, p.parts, backward_part);
    return OK;
}

/* dx of rows and inputs, each [begin, end). */
static void backward_input(const struct product *p, size_t begin, size_t end, size_t first,
                           size_t last)
{
    size_t columns = p->input->columns;
    blas_multiply(&(struct blas_product){
        .b_transpose = BLAS_TRANSPOSED,
        .m = end - begin,
        .n = last - first,
        .k = p->outputs,
        .a = p->y_gradient + begin * p->outputs,
        .a_stride = p->outputs,
        .b = p->weights + first * p->outputs,
        .b_stride = p->outputs,
        .c = p->ret_out + begin * columns + first,
        .c_stride = columns,
    });
    for (size_t row = begin; row < end; row++) {
        size_t at = row * columns + first;
        p->cpu->loops->mask_positive(p->ret_out + at, p->input->values + at, last - first);
    }
}

static void backward_input_part(void *context, unsigned part)
{
    const struct product *p = context;
    struct sparse_part range = range_of(p, part);
    backward_input(p, 0, p->input->rows, range.begin, range.end);
}

static void backward_input_block(void *context, unsigned block)
{
    const struct product *p = context;
    size_t rows = p->input->rows;
    backward_input(p, fork_join_begin(rows, p->blocks, block, 1),
                   fork_join_begin(rows, p->blocks, block + 1, 1), 0, p->input->columns);
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
    if (p.blocks > 1)
        run(&p, p.blocks, backward_input_block);
    else
        run(&p, p.parts, backward_input_part);
    return OK;
}
