/* SPDX-License-Identifier: MIT */
/* The two ways to the keys of a block of CSV, held against each other. For fuzz_keys and
 * test_csv_keys. */
#ifndef TESTS_FUZZ_KEYS_H
#define TESTS_FUZZ_KEYS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/csv/csv_keys.h"

struct keys_result {
    enum error error;
    int64_t line;
    char message[ERROR_MESSAGE_BYTES];
    struct csv_keys keys;
    struct csv_block block; /* where the texts lie */
};

/* `text` as a block, in memory that ends where it may be read to. */
static inline void keys_decode(struct keys_result *result, const struct csv_columns *columns,
                               char delimiter, const void *text, size_t length, bool quick)
{
    bool lacks_end = length == 0 || ((const char *)text)[length - 1] != '\n';
    struct csv_block *block = &result->block;
    memset(result, 0, sizeof(*result));
    *block = (struct csv_block){.length = length + lacks_end, .first_line = 1};
    block->data = calloc(1, block->length + CSV_PADDING_BYTES);
    if (!block->data)
        abort();
    memcpy(block->data, text, length);
    if (lacks_end)
        block->data[length] = '\n';
    block->lines = (int64_t)csv_count_bytes(block->data, block->length, '\n');
    block->plain = memchr(block->data, '"', block->length) == NULL;
    result->error = csv_keys_decode(&result->keys, columns, delimiter, block, quick, &result->line);
    if (result->error)
        snprintf(result->message, sizeof(result->message), "%s", error_message());
}

static inline void keys_release(struct keys_result *result)
{
    csv_keys_release(&result->keys);
    free(result->block.data);
}

static inline bool keys_same_class(const uint32_t *codes, const struct csv_texts *texts,
                                   const uint32_t *other_codes, const struct csv_texts *other,
                                   size_t row)
{
    if (!codes)
        return !other_codes;
    const struct text *a = &texts->set.texts[codes[row]];
    const struct text *b = &other->set.texts[other_codes[row]];
    /* Numbers by appearance are the same as well. */
    return codes[row] == other_codes[row] && a->length == b->length &&
           memcmp(a->data, b->data, a->length) == 0;
}

/* Same error, line and words; else the same rows. */
static inline bool keys_same(const struct keys_result *a, const struct keys_result *b)
{
    if (a->error != b->error || a->keys.rows != b->keys.rows)
        return false;
    if (a->error)
        return a->line == b->line && strcmp(a->message, b->message) == 0;
    for (size_t i = 0; i < a->keys.rows; i++) {
        if (a->keys.ids[i] != b->keys.ids[i] ||
            (a->keys.weights && memcmp(&a->keys.weights[i], &b->keys.weights[i], 8) != 0) ||
            !keys_same_class(a->keys.label_codes, &a->keys.labels, b->keys.label_codes,
                             &b->keys.labels, i) ||
            !keys_same_class(a->keys.group_codes, &a->keys.groups, b->keys.group_codes,
                             &b->keys.groups, i))
            return false;
    }
    return true;
}

static inline bool keys_agree(const struct csv_columns *columns, char delimiter, const void *text,
                              size_t length)
{
    struct keys_result quick, slow;
    keys_decode(&quick, columns, delimiter, text, length, true);
    keys_decode(&slow, columns, delimiter, text, length, false);
    bool same = keys_same(&quick, &slow);
    keys_release(&quick);
    keys_release(&slow);
    return same;
}

/* Columns from a header and a choice by the words id, label, weight and group in it. */
static inline bool keys_columns(const char *header, char delimiter, struct csv_columns *ret_columns)
{
    char record[512];
    struct csv_splitter first;
    struct column_choice choice = {.names = {NULL}};
    snprintf(record, sizeof(record), "%s\n", header);
    choice.names[COLUMN_ID] = strstr(header, "id") ? "id" : "";
    choice.names[COLUMN_LABEL] = strstr(header, "label") ? "label" : "";
    choice.names[COLUMN_WEIGHT] = strstr(header, "weight") ? "weight" : NULL;
    choice.names[COLUMN_GROUP] = strstr(header, "group") ? "group" : NULL;
    if (csv_splitter_init(&first, delimiter, 64))
        return false;
    bool made = !csv_split(&first, record, strlen(record)) &&
                !csv_columns_init(ret_columns, &first, CSV_HEADER_YES, &choice);
    csv_splitter_release(&first);
    return made;
}

#endif
