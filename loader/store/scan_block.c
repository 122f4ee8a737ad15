/* SPDX-License-Identifier: MIT */
#include "loader/store/scan_block.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/store/progress.h"

#define BLOCK_ROWS 1024
#define FEATURE_BYTES ((size_t)1 << 20)     /* of a block's features, without the last row's */
#define TEXTS_LIMIT_BYTES ((size_t)1 << 30) /* a block of longer texts is handed out early */

struct scan_block {
    const struct store_info *info;
    enum scan_columns columns;
    store_sink *sink;
    void *context;
    struct progress progress;
    size_t rows, row_bytes;
    size_t feature_bytes; /* of the rows so far */
    bool varies;          /* rows differ in length */
    int64_t first_row;
    int64_t ids[BLOCK_ROWS];
    struct text labels[BLOCK_ROWS], groups[BLOCK_ROWS]; /* data: set when handing out the block, */
    size_t label_at[BLOCK_ROWS], group_at[BLOCK_ROWS];  /* from these offsets: `texts` moves */
    double weights[BLOCK_ROWS], label_values[BLOCK_ROWS];
    int64_t lengths[BLOCK_ROWS];
    enum row_status status[BLOCK_ROWS];
    uint8_t *features; /* owned; FEATURE_BYTES and one row; NULL: keys only */
    char *texts;       /* owned */
    size_t text_bytes, text_capacity;
};

struct scan_block *scan_block_new(const struct store_info *info, enum scan_columns columns,
                                  store_sink *sink, void *context)
{
    static const char what[] = "a block of rows";
    struct scan_block *block = array_new(1, sizeof(*block), what);
    if (!block)
        return NULL;
    block->info = info;
    block->columns = columns;
    block->sink = sink;
    block->context = context;
    block->progress = progress_of_rows("reading", info->uri);
    block->row_bytes = info->features * element_bytes(info->element);
    block->varies = info->lengths != LENGTHS_ALIKE;
    if (block->varies)
        block->row_bytes = info->longest * element_bytes(info->element);
    if (columns & SCAN_FEATURES) {
        block->features = array_new(1, FEATURE_BYTES + block->row_bytes, what);
        if (!block->features) {
            free(block);
            return NULL;
        }
    }
    return block;
}

void scan_block_free(struct scan_block *block)
{
    if (!block)
        return;
    free(block->features);
    free(block->texts);
    free(block);
}

void *scan_block_slot(const struct scan_block *block)
{
    return block->features ? block->features + block->feature_bytes : NULL;
}

static enum error add_text(struct scan_block *block, const struct text *text, size_t *ret_at,
                           struct text *ret_text)
{
    enum error error = array_grow((void **)&block->texts, &block->text_capacity,
                                  block->text_bytes + text->length + 1, 1, "the labels of a block");
    if (error)
        return error;
    memcpy(block->texts + block->text_bytes, text->data, text->length);
    *ret_at = block->text_bytes;
    ret_text->length = text->length;
    block->text_bytes += text->length;
    return OK;
}

enum error scan_block_finish(struct scan_block *block)
{
    const struct store_info *info = block->info;
    if (block->rows == 0)
        return OK;
    for (size_t i = 0; i < block->rows; i++) {
        block->labels[i].data = block->texts + block->label_at[i];
        block->groups[i].data = block->texts + block->group_at[i];
    }
    struct store_block rows = {
        .rows = block->rows,
        .first_row = block->first_row,
        .ids = block->ids,
        .labels = block->labels,
        .weights = info->weight_column ? block->weights : NULL,
        .groups = info->group_column ? block->groups : NULL,
        .label_values = block->features ? block->label_values : NULL,
        .features = block->features,
        .lengths = block->features && block->varies ? block->lengths : NULL,
        .status = block->columns & SCAN_BAD_ROWS ? block->status : NULL,
    };
    block->first_row += (int64_t)block->rows;
    if (!(block->columns & SCAN_CODES))
        progress_show(&block->progress, (uint64_t)block->first_row, (uint64_t)info->rows);
    block->rows = 0;
    block->text_bytes = 0;
    block->feature_bytes = 0;
    return block->sink(block->context, &rows);
}

/* The row's features are in the slot. */
static void take_features(struct scan_block *block, const struct store_row *row)
{
    bool is_bad = row->status == ROW_BAD;
    size_t bytes = block->row_bytes;
    if (block->varies) {
        size_t length = is_bad ? 0 : row->length;
        block->lengths[block->rows] = (int64_t)length;
        bytes = length * element_bytes(block->info->element);
    } else if (is_bad) {
        memset(scan_block_slot(block), 0, bytes);
    }
    block->feature_bytes += bytes;
}

enum error scan_block_add(struct scan_block *block, const struct store_row *row, double label)
{
    size_t i = block->rows;
    if (row->status == ROW_BAD && block->features && !(block->columns & SCAN_BAD_ROWS))
        return ERROR_INPUT;
    if (block->features)
        take_features(block, row);
    block->ids[i] = row->id;
    block->weights[i] = row->weight;
    block->status[i] = row->status;
    block->label_values[i] = label;
    enum error error = add_text(block, &row->label, &block->label_at[i], &block->labels[i]);
    if (!error)
        error = add_text(block, &row->group, &block->group_at[i], &block->groups[i]);
    if (error)
        return error;
    block->rows++;
    bool is_full = block->rows == BLOCK_ROWS || block->text_bytes > TEXTS_LIMIT_BYTES ||
                   block->feature_bytes > FEATURE_BYTES;
    return is_full ? scan_block_finish(block) : OK;
}
