/* SPDX-License-Identifier: MIT */
#include "sampler/build/class_column.h"

#include <stdlib.h>

#include "common/array.h"

static const char column_memory[] = "the units' labels";

enum error class_column_init(struct class_column *column, struct spool_store *store,
                             const char *what)
{
    *column = (struct class_column){.what = what};
    return spool_init(&column->codes, store, true, column_memory);
}

void class_column_release(struct class_column *column)
{
    text_set_release(&column->found);
    spool_release(&column->codes);
    free(column->counts);
    free(column->block);
    free(column->numbers);
    dictionary_release(&column->dictionary);
    free(column->ranks);
    free(column->starts);
    *column = (struct class_column){.what = NULL};
}

/* ---- blocks ------------------------------------------------------------- */

static enum error number_of(struct class_column *column, const struct text *text,
                            uint32_t *ret_number)
{
    size_t known = column->found.count;
    enum error error =
        dictionary_add(&column->found, column->what, text->data, text->length, ret_number);
    if (error || *ret_number < known)
        return error;
    error = array_grow((void **)&column->counts, &column->count_capacity, known + 1,
                       sizeof(*column->counts), column_memory);
    if (!error)
        column->counts[known] = 0;
    return error;
}

static enum error number_texts(struct class_column *column, const struct text *texts, size_t rows,
                               size_t *ret_row)
{
    enum error error = OK;
    for (size_t i = 0; i < rows && !error; i++) {
        uint32_t number = 0;
        error = number_of(column, &texts[i], &number);
        if (error) {
            *ret_row = i;
            return error;
        }
        column->block[i] = number;
        column->counts[number]++;
    }
    return OK;
}

static size_t first_with(const struct store_codes *codes, size_t code, size_t rows)
{
    size_t row = 0;
    while (row < rows && codes->codes[row] != code)
        row++;
    return row;
}

/* The block's list has its texts in the order of their first rows, so that numbers by appearance
 * are the same as row by row. */
static enum error number_codes(struct class_column *column, const struct store_codes *codes,
                               size_t rows, size_t *ret_row)
{
    enum error error = array_grow((void **)&column->numbers, &column->number_capacity, codes->count,
                                  sizeof(*column->numbers), column_memory);
    for (size_t i = 0; i < codes->count && !error; i++) {
        error = number_of(column, &codes->texts[i], &column->numbers[i]);
        if (error)
            *ret_row = first_with(codes, i, rows);
    }
    if (error)
        return error;
    for (size_t i = 0; i < rows; i++) {
        uint32_t number = column->numbers[codes->codes[i]];
        column->block[i] = number;
        column->counts[number]++;
    }
    return OK;
}

enum error class_column_add(struct class_column *column, const struct text *texts,
                            const struct store_codes *codes, size_t rows, size_t *ret_row)
{
    enum error error = array_grow((void **)&column->block, &column->block_capacity, rows,
                                  sizeof(*column->block), column_memory);
    *ret_row = 0;
    if (!error)
        error = codes->codes ? number_codes(column, codes, rows, ret_row)
                             : number_texts(column, texts, rows, ret_row);
    return error ? error : spool_add(&column->codes, column->block, rows);
}

/* ---- the end ------------------------------------------------------------ */

/* Is category(row) = (row + shift) mod L throughout? Only a column whose numbers by appearance are
 * cyclic can be like that, and the first round decides. */
static bool goes_round(const struct class_column *column)
{
    const struct spool *codes = &column->codes;
    uint64_t count = column->dictionary.count;
    uint64_t period = codes->rule_period ? codes->rule_period : codes->rows;
    if (!spool_is_ruled(codes) || period != count)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (column->ranks[i] != (column->ranks[0] + i) % count)
            return false;
    }
    return true;
}

enum error class_column_finish(struct class_column *column)
{
    enum error error = spool_finish(&column->codes);
    if (!error)
        error = dictionary_build(&column->found, &column->dictionary, &column->ranks);
    if (error)
        return error;
    uint32_t count = column->dictionary.count;
    column->starts = array_new((size_t)count + 1, sizeof(*column->starts), column_memory);
    if (!column->starts)
        return ERROR_MEMORY;
    for (uint32_t code = 0; code < count; code++)
        column->starts[column->ranks[code] + 1] = column->counts[code];
    for (uint32_t category = 0; category < count; category++)
        column->starts[category + 1] += column->starts[category];
    column->is_cyclic = goes_round(column);
    column->shift = column->is_cyclic ? column->ranks[0] : 0;
    text_set_release(&column->found);
    return OK;
}
