/* SPDX-License-Identifier: MIT */
#include "loader/parquet/arrow_type.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types of values ---------------------------------------------------- */

struct known {
    const char *format;
    enum arrow_kind kind;
    enum arrow_layout layout;
    int size;
    const char *name;
};

static const struct known exact[] = {
    {"b", ARROW_BOOLEAN, ARROW_FIXED, 0, "booleans"},
    {"c", ARROW_INTEGER, ARROW_FIXED, 1, "8-bit integers"},
    {"C", ARROW_UNSIGNED, ARROW_FIXED, 1, "8-bit integers"},
    {"s", ARROW_INTEGER, ARROW_FIXED, 2, "16-bit integers"},
    {"S", ARROW_UNSIGNED, ARROW_FIXED, 2, "16-bit integers"},
    {"i", ARROW_INTEGER, ARROW_FIXED, 4, "32-bit integers"},
    {"I", ARROW_UNSIGNED, ARROW_FIXED, 4, "32-bit integers"},
    {"l", ARROW_INTEGER, ARROW_FIXED, 8, "64-bit integers"},
    {"L", ARROW_UNSIGNED, ARROW_FIXED, 8, "64-bit integers"},
    {"e", ARROW_FLOAT, ARROW_FIXED, 2, "16-bit floats"},
    {"f", ARROW_FLOAT, ARROW_FIXED, 4, "32-bit floats"},
    {"g", ARROW_FLOAT, ARROW_FIXED, 8, "64-bit floats"},
    {"u", ARROW_TEXT, ARROW_OFFSETS, 0, "texts"},
    {"U", ARROW_TEXT, ARROW_OFFSETS64, 0, "texts"},
    {"vu", ARROW_TEXT, ARROW_VIEWS, 0, "texts"},
    {"z", ARROW_BYTES, ARROW_OFFSETS, 0, "bytes"},
    {"Z", ARROW_BYTES, ARROW_OFFSETS64, 0, "bytes"},
    {"vz", ARROW_BYTES, ARROW_VIEWS, 0, "bytes"},
    {"n", ARROW_OTHER, ARROW_FIXED, 0, "nothing but nulls"},
};

/* For formats with a suffix. */
static const struct known begun[] = {
    {"td", ARROW_OTHER, ARROW_FIXED, 0, "dates"},
    {"tt", ARROW_OTHER, ARROW_FIXED, 0, "times of day"},
    {"ts", ARROW_OTHER, ARROW_FIXED, 0, "timestamps"},
    {"tD", ARROW_OTHER, ARROW_FIXED, 0, "durations"},
    {"ti", ARROW_OTHER, ARROW_FIXED, 0, "intervals"},
    {"+s", ARROW_OTHER, ARROW_FIXED, 0, "structs"},
    {"+m", ARROW_OTHER, ARROW_FIXED, 0, "maps"},
    {"+w", ARROW_OTHER, ARROW_FIXED, 0, "lists"},
    {"+l", ARROW_OTHER, ARROW_FIXED, 0, "lists"},
    {"+L", ARROW_OTHER, ARROW_FIXED, 0, "lists"},
    {"w:", ARROW_BYTES, ARROW_FIXED, 0, "bytes"},
    {"d:", ARROW_DECIMAL, ARROW_FIXED, 16, "decimals"},
};

static const struct known *find(const char *format)
{
    for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
        if (strcmp(exact[i].format, format) == 0)
            return &exact[i];
    }
    for (size_t i = 0; i < sizeof(begun) / sizeof(begun[0]); i++) {
        if (strncmp(begun[i].format, format, 2) == 0)
            return &begun[i];
    }
    return NULL;
}

/* "d:PRECISION,SCALE", possibly with ",BITS" appended. */
static void read_decimal(struct arrow_type *type, const char *format)
{
    char *end;
    strtol(format + 2, &end, 10);
    long scale = *end == ',' ? strtol(end + 1, &end, 10) : INT_MAX;
    long bits = *end == ',' ? strtol(end + 1, &end, 10) : 128;
    bool known = bits == 32 || bits == 64 || bits == 128 || bits == 256;
    if (*end || !known || scale < -ARROW_SCALE_LIMIT || scale > ARROW_SCALE_LIMIT) {
        type->kind = ARROW_OTHER;
        return;
    }
    type->scale = (int)scale;
    type->size = bits / 8;
}

/* The type of the values, without the form around them. */
static void read_values(struct arrow_type *type, const char *format)
{
    const struct known *known = find(format);
    snprintf(type->name, sizeof(type->name), "%s", known ? known->name : "values of another type");
    if (!known)
        return;
    type->kind = known->kind;
    type->layout = known->layout;
    type->size = known->size;
    if (known->kind == ARROW_DECIMAL)
        read_decimal(type, format);
    if (known->kind == ARROW_BYTES && known->layout == ARROW_FIXED)
        type->size = strtoll(format + 2, NULL, 10);
    if (type->size < 0)
        type->kind = ARROW_OTHER;
}

/* ---- what is around them ------------------------------------------------ */

static void read_coded(struct arrow_type *type, const struct arrow_schema *schema)
{
    struct arrow_type codes = {.kind = ARROW_OTHER};
    read_values(&codes, schema->format);
    read_values(type, schema->dictionary->format);
    type->form = ARROW_CODED;
    type->code_size = codes.size;
    type->code_unsigned = codes.kind == ARROW_UNSIGNED;
    if ((codes.kind != ARROW_INTEGER && codes.kind != ARROW_UNSIGNED) ||
        schema->dictionary->dictionary || schema->dictionary->child_count > 0)
        type->kind = ARROW_OTHER;
}

static void read_list(struct arrow_type *type, const struct arrow_schema *schema)
{
    const struct arrow_schema *items = schema->child_count == 1 ? schema->children[0] : NULL;
    char name[sizeof(type->name)];
    if (!items || items->dictionary || items->child_count > 0) {
        read_values(type, schema->format);
        return;
    }
    read_values(type, items->format);
    type->form = schema->format[1] == 'w'   ? ARROW_FIXED_LIST
                 : schema->format[1] == 'L' ? ARROW_LIST64
                                            : ARROW_LIST;
    if (type->form == ARROW_FIXED_LIST)
        type->items = strtoll(schema->format + 3, NULL, 10);
    if (!arrow_type_is_number(type) || type->items < 0)
        type->kind = ARROW_OTHER;
    snprintf(name, sizeof(name), "lists of %.40s", type->name);
    memcpy(type->name, name, sizeof(name));
}

void arrow_type_read(struct arrow_type *type, const struct arrow_schema *schema)
{
    const char *format = schema->format;
    bool list =
        strncmp(format, "+w:", 3) == 0 || strcmp(format, "+l") == 0 || strcmp(format, "+L") == 0;
    *type = (struct arrow_type){.kind = ARROW_OTHER};
    if (schema->dictionary)
        read_coded(type, schema);
    else if (list)
        read_list(type, schema);
    else
        read_values(type, format);
}

bool arrow_type_is_number(const struct arrow_type *type)
{
    return type->kind >= ARROW_BOOLEAN && type->kind <= ARROW_DECIMAL;
}

bool arrow_type_is_list(const struct arrow_type *type)
{
    return type->form >= ARROW_FIXED_LIST;
}
