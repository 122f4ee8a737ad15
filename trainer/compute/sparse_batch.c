#include "trainer/compute/sparse_batch.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trainer/compute/cpu_loops.h"

/* Below this a dense product is over before the index is made. */
#define COLUMNS_MINIMUM 32

static size_t groups_of(size_t rows)
{
    return (rows + NONZEROS_GROUP - 1) / NONZEROS_GROUP;
}

static size_t words_of(size_t columns)
{
    return (columns + NONZEROS_WORD - 1) / NONZEROS_WORD;
}

enum error nonzeros_reserve(struct nonzeros *nonzeros, size_t rows, size_t columns)
{
    if (rows <= nonzeros->rows_limit && columns <= nonzeros->columns_limit)
        return OK;
    rows = rows > nonzeros->rows_limit ? rows : nonzeros->rows_limit;
    columns = columns > nonzeros->columns_limit ? columns : nonzeros->columns_limit;
    nonzeros_release(nonzeros);
    size_t panel_rows = rows > NONZEROS_WORD ? rows : NONZEROS_WORD;
    size_t panel_bytes = panel_rows * NONZEROS_PANEL_FLOATS * sizeof(float);
    nonzeros->row_bits = array_new(rows * words_of(columns), sizeof(uint64_t), "the batch's index");
    nonzeros->column_bits =
        array_new(groups_of(rows) * columns, sizeof(uint32_t), "the batch's index");
    nonzeros->list = array_new(rows, sizeof(uint32_t), "the batch's index");
    if (!nonzeros->row_bits || !nonzeros->column_bits || !nonzeros->list)
        goto failed;
    nonzeros->panel = aligned_alloc(64, panel_bytes);
    if (!nonzeros->panel) {
        error_set_memory(panel_bytes, "the batch's index");
        goto failed;
    }
    nonzeros->rows_limit = rows;
    nonzeros->columns_limit = columns;
    return OK;
failed:
    nonzeros_release(nonzeros);
    return ERROR_MEMORY;
}

void nonzeros_release(struct nonzeros *nonzeros)
{
    free(nonzeros->row_bits);
    free(nonzeros->column_bits);
    free(nonzeros->panel);
    free(nonzeros->list);
    memset(nonzeros, 0, sizeof(*nonzeros));
}

void nonzeros_index(struct nonzeros *nonzeros, const struct cpu_loops *loops, const float *values,
                    size_t rows, size_t columns)
{
    nonzeros->values = values;
    nonzeros->rows = rows;
    nonzeros->columns = columns;
    nonzeros->row_words = words_of(columns);
    nonzeros->has_columns = false;
    nonzeros->count = loops->index_rows(values, rows, columns, nonzeros->row_bits);
}

void nonzeros_index_columns(struct nonzeros *nonzeros, const struct cpu_loops *loops)
{
    if (nonzeros->has_columns)
        return;
    memset(nonzeros->column_bits, 0,
           groups_of(nonzeros->rows) * nonzeros->columns * sizeof(*nonzeros->column_bits));
    loops->index_columns(nonzeros->values, nonzeros->rows, nonzeros->columns,
                         nonzeros->column_bits);
    nonzeros->has_columns = true;
}

/* Two fifths: below it the index wins on every CPU measured (COMPUTING.md). */
bool nonzeros_worth(const struct nonzeros *nonzeros)
{
    return nonzeros->columns >= COLUMNS_MINIMUM &&
           nonzeros->count * 5 <= nonzeros->rows * nonzeros->columns * 2;
}
