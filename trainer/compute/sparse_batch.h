/*
 * The nonzeros of a batch: bitmaps that let the first layer's products skip the zeros.
 *
 * Images of digits are four fifths zeros, so the two products with the batch cost a fifth of what a
 * dense product costs. Two bitmaps over x[B,F] say where the others are: by rows for x w, by
 * columns for x^T dy. Values are read from x itself. NaN and infinities count as nonzero; a zero
 * times an infinite weight, NaN in a dense product, is skipped.
 *
 * Threads: one at a time. Dimensions: B rows, F columns.
 */
#ifndef TRAINER_COMPUTE_SPARSE_BATCH_H
#define TRAINER_COMPUTE_SPARSE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct cpu_loops;

#define NONZEROS_WORD 64          /* columns in one word of row_bits */
#define NONZEROS_GROUP 32         /* rows in one word of column_bits */
#define NONZEROS_PANEL_FLOATS 128 /* the widest strip of outputs that one pass works on */

struct nonzeros {
    const float *values; /* [B,F], borrowed from the batch */
    size_t rows, columns;
    size_t count;          /* how many are not zero */
    size_t row_words;      /* words of row_bits a row */
    uint64_t *row_bits;    /* [B, row_words] bit c of word w: column 64 w + c */
    uint32_t *column_bits; /* [groups of 32 rows, F] bit r of group g: row 32 g + r */
    bool has_columns;      /* column_bits are those of this batch */
    float *panel;          /* work space, 64-byte aligned */
    uint32_t *list;        /* work space, [B] */
    size_t rows_limit, columns_limit;
};

/* Starts empty: a zeroed struct. Makes room for batches of up to rows x columns; keeps what is
 * larger already. */
enum error nonzeros_reserve(struct nonzeros *nonzeros, size_t rows, size_t columns) MUST_CHECK;
void nonzeros_release(struct nonzeros *nonzeros);

/* Indexes a batch (within what was reserved) by rows. `values` is borrowed until the next call. */
void nonzeros_index(struct nonzeros *nonzeros, const struct cpu_loops *loops, const float *values,
                    size_t rows, size_t columns);
/* By columns too, if that has not been done for this batch. */
void nonzeros_index_columns(struct nonzeros *nonzeros, const struct cpu_loops *loops);

/* Are products over the index cheaper than dense ones? Depends on count and size alone. */
bool nonzeros_worth(const struct nonzeros *nonzeros);

#endif
