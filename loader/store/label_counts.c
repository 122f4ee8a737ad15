/* SPDX-License-Identifier: MIT */
#include "loader/store/label_counts.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/column/label_dictionary.h"

static enum error add_one(struct label_counts *counts, const struct text *label)
{
    uint32_t number = 0;
    size_t known = counts->texts.count;
    enum error error = text_set_add(&counts->texts, label->data, label->length, &number);
    if (!error && number == known) {
        error = array_grow((void **)&counts->counts, &counts->capacity, known + 1,
                           sizeof(*counts->counts), "counts of labels");
        if (error)
            return error;
        counts->counts[number] = (struct label_count){.text = counts->texts.texts[number].data};
    }
    if (!error)
        counts->counts[number].rows++;
    return error;
}

enum error label_counts_add(struct label_counts *counts, const struct store_block *block)
{
    enum error error = OK;
    for (size_t i = 0; i < block->rows && !error; i++)
        error = add_one(counts, &block->labels[i]);
    return error;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const struct label_count *)a)->text, ((const struct label_count *)b)->text);
}

static int by_value(const void *a, const void *b)
{
    long long left = strtoll(((const struct label_count *)a)->text, NULL, 10);
    long long right = strtoll(((const struct label_count *)b)->text, NULL, 10);
    return (left > right) - (left < right);
}

void label_counts_finish(struct label_counts *counts)
{
    bool integers = true;
    for (size_t i = 0; i < counts->texts.count && integers; i++)
        integers = labels_are_integers(&counts->counts[i].text, 1);
    if (counts->texts.count > 0)
        qsort(counts->counts, counts->texts.count, sizeof(*counts->counts),
              integers ? by_value : by_bytes);
}

void label_counts_release(struct label_counts *counts)
{
    text_set_release(&counts->texts);
    free(counts->counts);
    counts->counts = NULL;
}
