/* SPDX-License-Identifier: MIT */
/*
 * The type of one column, out of Arrow's schema: numbers, texts, bytes, or lists of numbers, each
 * perhaps as codes into a dictionary. Other types have no values here, only a name for messages.
 */
#ifndef LOADER_PARQUET_ARROW_TYPE_H
#define LOADER_PARQUET_ARROW_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/parquet/arrow_interface.h"

enum arrow_kind {
    ARROW_OTHER, /* what is neither of these: dates, structs, ... */
    ARROW_BOOLEAN,
    ARROW_INTEGER,
    ARROW_UNSIGNED,
    ARROW_FLOAT,
    ARROW_DECIMAL,
    ARROW_TEXT,
    ARROW_BYTES
};

/* How values lie in an array. */
enum arrow_layout {
    ARROW_FIXED,     /* each of the same size */
    ARROW_OFFSETS,   /* bytes, and 32-bit offsets into them */
    ARROW_OFFSETS64, /* the same with 64 bits */
    ARROW_VIEWS      /* 16 bytes each: a length, and the bytes or where they lie */
};

/* What the column's array is, around the values. */
enum arrow_form {
    ARROW_PLAIN,      /* the values themselves */
    ARROW_CODED,      /* codes into the dictionary, which has the values */
    ARROW_FIXED_LIST, /* lists of `items` values */
    ARROW_LIST,       /* lists of any length, by 32-bit offsets */
    ARROW_LIST64      /* by 64-bit offsets */
};

#define ARROW_SCALE_LIMIT 256

struct arrow_type {
    enum arrow_kind kind;
    enum arrow_layout layout;
    int64_t size; /* bytes of a value, ARROW_FIXED; of a boolean 0: a bit */
    int scale;    /* of a decimal: digits behind the point, or below 0 zeros in front of it */
    enum arrow_form form;
    int64_t items;     /* ARROW_FIXED_LIST */
    int64_t code_size; /* ARROW_CODED: bytes of a code; */
    bool code_unsigned;
    char name[64]; /* for messages: "text", "a list of floats", "a timestamp" */
};

void arrow_type_read(struct arrow_type *type, const struct arrow_schema *schema);

/* Can a feature be one of these, or some of them? */
bool arrow_type_is_number(const struct arrow_type *type);
bool arrow_type_is_list(const struct arrow_type *type);

#endif
