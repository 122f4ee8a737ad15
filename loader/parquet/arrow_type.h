/* SPDX-License-Identifier: MIT */
/*
 * The type of one column, from Arrow's schema: numbers, texts, bytes, or lists of numbers, each
 * possibly dictionary-encoded. Other types have no values here, only a name for messages.
 */
#ifndef LOADER_PARQUET_ARROW_TYPE_H
#define LOADER_PARQUET_ARROW_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/parquet/arrow_interface.h"

enum arrow_kind {
    ARROW_OTHER, /* anything else: dates, structs, ... */
    ARROW_BOOLEAN,
    ARROW_INTEGER,
    ARROW_UNSIGNED,
    ARROW_FLOAT,
    ARROW_DECIMAL,
    ARROW_TEXT,
    ARROW_BYTES
};

/* Layout of values in an array. */
enum arrow_layout {
    ARROW_FIXED,     /* all of the same size */
    ARROW_OFFSETS,   /* bytes, and 32-bit offsets into them */
    ARROW_OFFSETS64, /* the same with 64 bits */
    ARROW_VIEWS      /* 16 bytes each: a length, and the bytes or their location */
};

/* What the column's array contains. */
enum arrow_form {
    ARROW_PLAIN,      /* the values themselves */
    ARROW_CODED,      /* codes into a dictionary of the values */
    ARROW_FIXED_LIST, /* lists of `items` values */
    ARROW_LIST,       /* lists of any length, by 32-bit offsets */
    ARROW_LIST64      /* by 64-bit offsets */
};

#define ARROW_SCALE_LIMIT 256

struct arrow_type {
    enum arrow_kind kind;
    enum arrow_layout layout;
    int64_t size; /* bytes per value, ARROW_FIXED; 0 for a boolean: a bit */
    int scale;    /* of a decimal: digits after the point, or if below 0, zeros before it */
    enum arrow_form form;
    int64_t items;     /* ARROW_FIXED_LIST */
    int64_t code_size; /* ARROW_CODED: bytes per code; */
    bool code_unsigned;
    char name[64]; /* for messages: "text", "a list of floats", "a timestamp" */
};

void arrow_type_read(struct arrow_type *type, const struct arrow_schema *schema);

/* Can a feature be one of these, or several of them? */
bool arrow_type_is_number(const struct arrow_type *type);
bool arrow_type_is_list(const struct arrow_type *type);

#endif
