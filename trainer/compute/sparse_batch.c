/* SPDX-License-Identifier: MIT */
#include "trainer/compute/sparse_batch.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trainer/compute/cpu_loops.h"

/* Below this a dense product is faster than building the index. */
#define COLUMNS_MINIMUM 32

#define PANEL_FLOATS ((size_t)SPARSE_BATCH_WORD * SPARSE_BATCH_PANEL_FLOATS)

static size_t words_of(size_t count)
{
    return (count + SPARSE_BATCH_WORD - 1) / SPARSE_BATCH_WORD;
}

/* Uses, for B rows and F columns: row_bits [ceil(F / 64), B], column_bits [ceil(B / 64), F], and
 * for each part a panel [64, 128]: rows of dy in the backward product, of w in the forward one.
 * Aligned to 64 bytes, so that a vector is in one cache line. */
enum error sparse_batch_reserve(struct sparse_batch *sparse, size_t rows, size_t columns)
{
    if (rows <= sparse->rows_limit && columns <= sparse->columns_limit)
        return OK;
    rows = rows > sparse->rows_limit ? rows : sparse->rows_limit;
    columns = columns > sparse->columns_limit ? columns : sparse->columns_limit;
    sparse_batch_release(sparse);
    size_t panels_bytes = SPARSE_BATCH_PARTS * PANEL_FLOATS * sizeof(float);
    sparse->row_bits = array_new(rows * words_of(columns), sizeof(uint64_t), "the batch's index");
    sparse->column_bits =
        array_new(words_of(rows) * columns, sizeof(uint64_t), "the batch's index");
    sparse->floats = array_new(rows * columns, sizeof(float), "a batch of bytes");
    bool made = sparse->row_bits && sparse->column_bits && sparse->floats;
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
    free(sparse->floats);
    memset(sparse, 0, sizeof(*sparse));
}

float *sparse_batch_panel(const struct sparse_batch *sparse, unsigned number)
{
    return sparse->panels + number * PANEL_FLOATS;
}

static void begin(struct sparse_batch *sparse, const float *values, const uint8_t *bytes,
                  size_t rows, size_t columns)
{
    sparse->values = values;
    sparse->bytes = bytes;
    sparse->rows = rows;
    sparse->columns = columns;
    sparse->row_words = words_of(columns);
}

void sparse_batch_set(struct sparse_batch *sparse, const float *values, size_t rows, size_t columns)
{
    begin(sparse, values, NULL, rows, columns);
}

void sparse_batch_set_bytes(struct sparse_batch *sparse, const uint8_t *bytes, float scale,
                            size_t rows, size_t columns)
{
    begin(sparse, NULL, bytes, rows, columns);
    for (size_t byte = 0; sparse->scale != scale && byte < SPARSE_BATCH_BYTES; byte++)
        sparse->table[byte] = (float)byte * scale;
    sparse->scale = scale;
}

/* One pass over the values: also counts, so that a dense batch needs no second pass. */
size_t sparse_batch_index(struct sparse_batch *sparse, const struct cpu_loops *loops, size_t first,
                          size_t end)
{
    size_t column = first * SPARSE_BATCH_WORD, stride = sparse->columns;
    size_t columns = (end < sparse->row_words ? end * SPARSE_BATCH_WORD : stride) - column;
    uint64_t *bits = sparse->row_bits + first * sparse->rows;
    if (sparse->bytes)
        return loops->index_bytes(sparse->bytes + column, sparse->rows, columns, stride, bits);
    return loops->index_floats(sparse->values + column, sparse->rows, columns, stride, bits);
}

/* Bit i of word j becomes bit j of word i: squares of 32, 16, ... 1 bits change places with those
 * across the diagonal. H. S. Warren, "Hacker's Delight", 7-3. */
static void transpose(uint64_t words[SPARSE_BATCH_WORD])
{
    uint64_t mask = UINT64_MAX >> 32;
    for (unsigned size = 32; size > 0; size /= 2, mask ^= mask << size) {
        for (unsigned i = 0; i < SPARSE_BATCH_WORD; i = (i + size + 1) & ~size) {
            uint64_t changes = (words[i] >> size ^ words[i + size]) & mask;
            words[i] ^= changes << size;
            words[i + size] ^= changes;
        }
    }
}

/* Not needed for evaluation: only the backward product reads by columns. The words at a part's ends
 * are transposed by both of its neighbours, each of which stores its own columns. */
void sparse_batch_index_columns(struct sparse_batch *sparse, const struct sparse_part *part)
{
    for (size_t row = 0; row < sparse->rows; row += SPARSE_BATCH_WORD) {
        size_t rows =
            sparse->rows - row < SPARSE_BATCH_WORD ? sparse->rows - row : SPARSE_BATCH_WORD;
        uint64_t *column_bits = sparse->column_bits + row / SPARSE_BATCH_WORD * sparse->columns;
        for (size_t column = part->begin, end; column < part->end; column = end) {
            size_t word = column / SPARSE_BATCH_WORD;
            uint64_t words[SPARSE_BATCH_WORD] = {0};
            memcpy(words, sparse->row_bits + word * sparse->rows + row, rows * sizeof(*words));
            transpose(words);
            end = (word + 1) * SPARSE_BATCH_WORD;
            end = end < part->end ? end : part->end;
            memcpy(column_bits + column, words + column % SPARSE_BATCH_WORD,
                   (end - column) * sizeof(*words));
        }
    }
}

/* Nothing is timed here: a choice that depended on the machine's load would change the bits of a
 * run. */
bool sparse_batch_worth(const struct sparse_batch *sparse, const struct cpu_loops *loops)
{
    return sparse->columns >= COLUMNS_MINIMUM &&
           sparse->count * 5 <= sparse->rows * sparse->columns * loops->worth_fifths;
}
