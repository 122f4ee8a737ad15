/* SPDX-License-Identifier: MIT */
/*
 * The format of MNIST and similar sets (source: yann.lecun.com/exdb/mnist, "the IDX file format"):
 * two zero bytes, the type of a value, the number of dimensions D, D sizes as 32-bit integers, then
 * all values, the last dimension fastest. Everything is big-endian. The first dimension counts
 * rows.
 */
#ifndef LOADER_IDX_IDX_HEADER_H
#define LOADER_IDX_IDX_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum idx_type {
    IDX_U8 = 0x08,
    IDX_I8 = 0x09,
    IDX_I16 = 0x0b,
    IDX_I32 = 0x0c,
    IDX_F32 = 0x0d,
    IDX_F64 = 0x0e
};

#define IDX_DIMENSIONS_LIMIT 16
#define IDX_HEADER_BYTES_LIMIT (4 + 4 * IDX_DIMENSIONS_LIMIT)

struct idx_header {
    enum idx_type type;
    size_t value_bytes;                  /* 1, 2, 4 or 8 */
    size_t dimensions;                   /* D, 1 to IDX_DIMENSIONS_LIMIT */
    int64_t shape[IDX_DIMENSIONS_LIMIT]; /* [dimensions] */
    int64_t rows;                        /* the first dimension, at least 1 */
    size_t values; /* per row, at least 1: the product of the other dimensions */
    size_t row_bytes;
    size_t bytes;        /* of the header */
    uint64_t file_bytes; /* of header and rows; UINT64_MAX: more than a file can have */
};

/* `bytes`: the start of the file, IDX_HEADER_BYTES_LIMIT or all of it. ERROR_INPUT names `path`,
 * the value found and what is expected: another magic number, no dimension or too many, an empty
 * one. */
enum error idx_header_parse(const uint8_t *bytes, size_t length, const char *path,
                            struct idx_header *ret_header) MUST_CHECK;
/* ERROR_INPUT if the file's length does not match its dimensions. */
enum error idx_header_check(const struct idx_header *header, uint64_t file_bytes,
                            const char *path) MUST_CHECK;

/* The value at `at`, exactly. */
double idx_value(enum idx_type type, const uint8_t *at);

#endif
