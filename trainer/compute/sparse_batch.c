/* SPDX-License-Identifier: MIT */
#include "trainer/compute/sparse_batch.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trainer/compute/cpu_loops.h"

/* Below this a dense product is faster than building the index. */
#define COLUMNS_MINIMUM 32

static size_t groups_of(size_t rows)
{
    return (rows + SPARSE_BATCH_GROUP - 1) / SPARSE_BATCH_GROUP;
}

static size_t words_of(size_t columns)
{
    return (columns + SPARSE_BATCH_WORD - 1) / SPARSE_BATCH_WORD;
}

static size_t panel_floats(size_t rows)
{
    return (rows > SPARSE_BATCH_WORD ? rows : SPARSE_BATCH_WORD) * SPARSE_BATCH_PANEL_FLOATS;
}

/* Uses, for B rows and F columns: row_bits [B, ceil(F / 64)], column_bits [ceil(B / 32), F], and
 * for each part a list [B] and a panel [max(B, 64), 128]: rows of dy [B, strip] in the backward
 * product, of w [64, strip] in the forward one. Aligned to 64 bytes, so that a vector is in one
 * cache line. */
enum error sparse_batch_reserve(struct sparse_batch *sparse, size_t rows, size_t columns)
{
    if (rows <= sparse->rows_limit && columns <= sparse->columns_limit)
        return OK;
    rows = rows > sparse->rows_limit ? rows : sparse->rows_limit;
    columns = columns > sparse->columns_limit ? columns : sparse->columns_limit;
    sparse_batch_release(sparse);
    size_t panels_bytes = SPARSE_BATCH_PARTS * panel_floats(rows) * sizeof(float);
    sparse->row_bits = array_new(rows * words_of(columns), sizeof(uint64_t), "the batch's index");
    sparse->column_bits =
        array_new(groups_of(rows) * columns, sizeof(uint32_t), "the batch's index");
    sparse->lists = array_new(rows, SPARSE_BATCH_PARTS * sizeof(uint32_t), "the batch's index");
    sparse->floats = array_new(rows * columns, sizeof(float), "a batch of bytes");
    bool made = sparse->row_bits && sparse->column_bits && sparse->lists && sparse->floats;
    sparse->panels = made ? aligned_alloc(64, panels_bytes) : NULL;
    if (made && !sparse->panels)
        error_set_memory(panels_bytes, "the batch's index");
    if (!sparse->panels) {
        sparse_batch_release(sparse);
        return ERROR_MEMORY;
    }
    sparse->rows_limit = rows;
    sparse->columns_limit = columns;
    return OK;
}

void sparse_batch_release(struct sparse_batch *sparse)
{
    free(sparse->row_bits);
    free(sparse->column_bits);
    free(sparse->panels);
    free(sparse->lists);
    free(sparse->floats);
    memset(sparse, 0, sizeof(*sparse));
}

float *sparse_batch_panel(const struct sparse_batch *sparse, unsigned number)
{
    return sparse->panels + number * panel_floats(sparse->rows_limit);
}

uint32_t *sparse_batch_list(const struct sparse_batch *sparse, unsigned number)
{
    return sparse->lists + number * sparse->rows_limit;
}

static void begin(struct sparse_batch *sparse, const float *values, const uint8_t *bytes,
                  size_t rows, size_t columns)
{
    sparse->values = values;
    sparse->bytes = bytes;
    sparse->rows = rows;
    sparse->columns = columns;
    sparse->row_words = words_of(columns);
    sparse->has_columns = false;
}

/* One pass over x[B,F]: also counts, so that a dense batch needs no second pass. */
void sparse_batch_index(struct sparse_batch *sparse, const struct cpu_loops *loops,
                        const float *values, size_t rows, size_t columns)
{
    begin(sparse, values, NULL, rows, columns);
    sparse->count = loops->index_rows(values, rows, columns, sparse->row_bits);
}

void sparse_batch_index_bytes(struct sparse_batch *sparse, const struct cpu_loops *loops,
                              const uint8_t *bytes, float scale, size_t rows, size_t columns)
{
    begin(sparse, NULL, bytes, rows, columns);
    for (size_t byte = 0; sparse->scale != scale && byte < SPARSE_BATCH_BYTES; byte++)
        sparse->table[byte] = (float)byte * scale;
    sparse->scale = scale;
    sparse->count = loops->index_bytes(bytes, rows, columns, sparse->row_bits);
}

/* Not needed for evaluation: only the backward product reads by columns. */
void sparse_batch_index_columns(struct sparse_batch *sparse, const struct cpu_loops *loops)
{
    if (!sparse->has_columns)
        loops->index_columns(sparse->row_bits, sparse->rows, sparse->columns, sparse->column_bits);
    sparse->has_columns = true;
}

/* Two fifths: below it the index is faster on every CPU measured (README.md). Nothing is timed
 * here: a choice that depended on the machine's load would change the bits of a run. */
bool sparse_batch_worth(const struct sparse_batch *sparse)
{
    return sparse->columns >= COLUMNS_MINIMUM &&
           sparse->count * 5 <= sparse->rows * sparse->columns * 2;
}
