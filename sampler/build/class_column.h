/* SPDX-License-Identifier: MIT */
/*
 * A column of texts (labels, groups) while a frame is built: numbers texts in order of appearance,
 * spools the codes and counts units; at the end computes the final numbers, and whether the column
 * is cyclic (partition.h). One thread until it is finished, then immutable.
 *
 * Dimensions: N units, L categories.
 */
#ifndef SAMPLER_BUILD_CLASS_COLUMN_H
#define SAMPLER_BUILD_CLASS_COLUMN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"
#include "sampler/build/spool.h"
#include "sampler/frame/dictionary.h"

struct class_column {
    const char *what; /* of a text, in messages */
    struct text_set found;
    struct spool codes; /* in order of appearance */
    uint64_t *counts;   /* owned; in order of appearance */
    size_t count_capacity;
    uint64_t *block; /* owned; codes of one block of the store */
    size_t block_capacity;
    uint32_t *numbers; /* owned; for a block's texts */
    size_t number_capacity;

    struct dictionary dictionary; /* finished: sorted */
    uint32_t *ranks;              /* owned; number in dictionary, by order of appearance */
    uint64_t *starts;             /* owned; [L + 1]: units of all earlier categories */
    bool is_cyclic;
    uint32_t shift;
};

/* `what` names a text in messages ("label"). */
enum error class_column_init(struct class_column *column, struct spool_store *store,
                             const char *what) MUST_CHECK;
void class_column_release(struct class_column *column);

/* Adds the column's part of a block: `texts` [rows], or the store's codes if it has them. On
 * ERROR_INPUT *ret_row is the row of the block that the message is about. */
enum error class_column_add(struct class_column *column, const struct text *texts,
                            const struct store_codes *codes, size_t rows,
                            size_t *ret_row) MUST_CHECK;

/* After the last block; at least one is required. */
enum error class_column_finish(struct class_column *column) MUST_CHECK;

#endif
