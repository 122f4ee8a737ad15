/* SPDX-License-Identifier: MIT */
/*
 * A sparse batch: bitmaps that let the first layer's products skip the zeros of x[B,F].
 *
 * Images of digits are four fifths zeros, so the two products with the batch cost a fifth of a
 * dense product. Two bitmaps mark the nonzeros: by rows for x w, by columns for x^T dy. Values are
 * read from x itself, which must stay unchanged until the next batch is indexed. NaN and infinities
 * count as nonzero; a zero times an infinite weight, NaN in a dense product, is skipped.
 *
 * Threads: one at a time, but for products (struct sparse_part). Dimensions: B rows, F columns.
 */
#ifndef TRAINER_COMPUTE_SPARSE_BATCH_H
#define TRAINER_COMPUTE_SPARSE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct cpu_loops;

#define SPARSE_BATCH_WORD 64          /* columns or rows in one word of bits */
#define SPARSE_BATCH_PANEL_FLOATS 128 /* widest strip of outputs per pass */
#define SPARSE_BATCH_BYTES 256        /* values of a byte */
#define SPARSE_BATCH_PARTS 8          /* of products, at most */

struct sparse_batch {
    const float *values;  /* [B,F], borrowed from the batch; NULL: */
    const uint8_t *bytes; /* [B,F], borrowed; byte b stands for table[b] */
    float table[SPARSE_BATCH_BYTES];
    float scale; /* from which `table` was computed */
    size_t rows, columns;
    size_t count;          /* of nonzeros */
    size_t row_words;      /* of bits a row: ceil(F / 64) */
    uint64_t *row_bits;    /* [row_words, B] bit c of word w: column 64 w + c */
    uint64_t *column_bits; /* [words of rows, F] bit r of word w: row 64 w + r */
    float *floats;         /* [B,F] scratch, for the kernel: a dense batch of bytes */
    float *panels;         /* [parts, 64, strip] scratch of products, 64-byte aligned */
    size_t rows_limit, columns_limit;
};

/* A part of a product: columns [begin, end) of x, at most all. Parts with different numbers may be
 * computed by different threads at once. */
struct sparse_part {
    size_t begin, end;
    unsigned number; /* below SPARSE_BATCH_PARTS: whose scratch it uses */
};

/* Starts empty: a zeroed struct. Makes room for batches of up to rows x columns; never shrinks. */
enum error sparse_batch_reserve(struct sparse_batch *sparse, size_t rows,
                                size_t columns) MUST_CHECK;
void sparse_batch_release(struct sparse_batch *sparse);

/* Begins a batch (within the reserved size). `values` is borrowed until the next one. */
void sparse_batch_set(struct sparse_batch *sparse, const float *values, size_t rows,
                      size_t columns);
/* The same for bytes that stand for themselves times `scale`, rounded once. `scale` must make no
 * product but that of 0 zero. */
void sparse_batch_set_bytes(struct sparse_batch *sparse, const uint8_t *bytes, float scale,
                            size_t rows, size_t columns);
/* Indexes columns [64 first, 64 end), all rows of them; returns how many values are not zero, which
 * `count` shall be the sum of. All columns must be indexed before products over the index. */
size_t sparse_batch_index(struct sparse_batch *sparse, const struct cpu_loops *loops, size_t first,
                          size_t end);
/* Indexes the part's columns by rows, too, once all are indexed. */
void sparse_batch_index_columns(struct sparse_batch *sparse, const struct sparse_part *part);

/* The scratch of a part. */
float *sparse_batch_panel(const struct sparse_batch *sparse, unsigned number);

/* Are products over the index cheaper than dense ones? Depends only on count, size and loops. */
bool sparse_batch_worth(const struct sparse_batch *sparse, const struct cpu_loops *loops);

#endif
