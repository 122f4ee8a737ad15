/* SPDX-License-Identifier: MIT */
/*
 * The first bytes choose the columns that were asked for, all others are what a server sends of a
 * binary COPY: head, rows, the mark at the end. No bytes may crash it, and what is decoded twice is
 * the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loader/postgres/postgres_row.h"
#include "tests/fuzz/fuzz_store.h"

enum { COLUMNS = 3, VALUES = 4 + COLUMNS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check_row(const struct postgres_format *format, const struct postgres_value *values,
                      enum element element)
{
    struct postgres_row rows[2];
    uint8_t features[2][256] = {{0}};
    for (int i = 0; i < 2; i++) {
        if (postgres_decode_row(format, values, element, features[i], &rows[i]))
            return;
    }
    const struct store_row *one = &rows[0].row, *other = &rows[1].row;
    fuzz_check(one->id >= 0 && one->id == other->id);
    fuzz_check(one->weight >= 0 && one->status == other->status);
    fuzz_check(!format->label || one->label.length > 0);
    if (one->status == ROW_OK && (element != ELEMENT_U8 || one->is_u8))
        fuzz_check(memcmp(features[0], features[1], sizeof(features[0])) == 0);
}

/* Of two columns of numbers and one of categories. */
static struct cell_plan *plan(void)
{
    static const char json[] =
        "{\"missing\":\"mean\",\"onehot\":\"b\",\"unseen\":\"zeros\",\"columns\":[{\"name\":\"a\","
        "\"fill\":1},{\"name\":\"b\",\"categories\":[\"1\",\"x\"]},{\"name\":\"c\",\"fill\":2}]}";
    static uint32_t columns[COLUMNS] = {0, 1, 2};
    static struct cell_plan made = {.columns = columns, .count = COLUMNS};
    if (!made.recipe && feature_recipe_parse(json, "the recipe", &made.recipe))
        abort();
    return &made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static const char *const names[COLUMNS] = {"a", "b", "c"};
    enum postgres_form forms[COLUMNS];
    struct postgres_value values[VALUES];
    if (length < 2)
        return 0;
    unsigned choice = data[0] | (unsigned)data[1] << 8;
    struct postgres_format format = {
        .id = "id",
        .label = choice & 1 ? "label" : NULL,
        .label_form = choice & 2 ? POSTGRES_REAL : POSTGRES_TEXT,
        .weight = choice & 2 ? "weight" : NULL,
        .weight_form = (enum postgres_form)(choice >> 2 & 3),
        .group = choice & 16 ? "group" : NULL,
        .group_form = choice & 2 ? POSTGRES_TEXT : POSTGRES_REAL,
        .feature_names = names,
        .feature_forms = forms,
        .blob = choice & 32,
        .element = (enum element)((choice >> 6 & 3) % ELEMENTS),
    };
    enum element element = format.element;
    format.feature_columns = format.blob ? 1 : COLUMNS;
    format.features = format.blob ? choice >> 12 : COLUMNS;
    for (int i = 0; i < COLUMNS; i++)
        forms[i] = format.blob ? POSTGRES_BYTES : (enum postgres_form)((choice >> (8 + i)) % 4);
    if (!format.blob && choice >> 15) {
        format.plan = plan();
        format.features = cell_plan_features(format.plan);
        element = ELEMENT_F32;
    }
    /* A copy as long as it is, so that a sanitizer sees each byte behind it. */
    uint8_t *bytes = malloc(length);
    if (!bytes)
        abort();
    memcpy(bytes, data + 2, length - 2);
    size_t at = 0, count = postgres_value_count(&format, false);
    bool is_end = false;
    enum error error = postgres_copy_head(bytes, length - 2, &at);
    while (!error && !is_end && at < length - 2) {
        size_t before = at;
        error = postgres_copy_row(bytes, length - 2, &at, count, values, &is_end);
        fuzz_check(error || (at > before && at <= length - 2));
        if (!error && !is_end)
            check_row(&format, values, element);
    }
    free(bytes);
    return 0;
}
