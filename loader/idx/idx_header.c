/* SPDX-License-Identifier: MIT */
#include "loader/idx/idx_header.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#define FORMAT "an IDX file (MNIST's train-images-idx3-ubyte is one)"

/* 0: no such type. */
static size_t bytes_of(unsigned type)
{
    switch (type) {
    case IDX_U8:
    case IDX_I8:
        return 1;
    case IDX_I16:
        return 2;
    case IDX_I32:
    case IDX_F32:
        return 4;
    case IDX_F64:
        return 8;
    default:
        return 0;
    }
}

static uint64_t big_endian(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static enum error check_magic(const uint8_t *bytes, size_t length, const char *path)
{
    if (length < 4 || bytes[0] != 0 || bytes[1] != 0 || bytes_of(bytes[2]) == 0)
        return error_set(ERROR_INPUT,
                         "%s is not " FORMAT ": its first bytes are no 0, 0, a type of 8, 9, 11, "
                         "12, 13 or 14, and a number of dimensions",
                         path);
    if (bytes[3] == 0 || bytes[3] > IDX_DIMENSIONS_LIMIT)
        return error_set(ERROR_INPUT, "%s has %u dimensions; 1 to %d are possible", path, bytes[3],
                         IDX_DIMENSIONS_LIMIT);
    if (length < 4 + 4 * (size_t)bytes[3])
        return error_set(ERROR_INPUT, "%s ends within its header, at byte %zu", path, length);
    return OK;
}

enum error idx_header_parse(const uint8_t *bytes, size_t length, const char *path,
                            struct idx_header *ret_header)
{
    enum error error = check_magic(bytes, length, path);
    if (error)
        return error;
    struct idx_header header = {.type = (enum idx_type)bytes[2],
                                .value_bytes = bytes_of(bytes[2]),
                                .dimensions = bytes[3],
                                .values = 1,
                                .bytes = 4 + 4 * (size_t)bytes[3]};
    uint64_t total = header.value_bytes;
    bool is_over = false;
    for (size_t i = 0; i < header.dimensions; i++) {
        uint64_t size = big_endian(bytes + 4 + 4 * i, 4);
        if (size == 0)
            return error_set(ERROR_INPUT, "%s has no rows: its dimension %zu is 0", path, i + 1);
        header.shape[i] = (int64_t)size;
        is_over |= __builtin_mul_overflow(total, size, &total);
        if (i == 0)
            header.rows = (int64_t)size;
        else
            is_over |= __builtin_mul_overflow(header.values, size, &header.values);
    }
    is_over |= __builtin_add_overflow(total, header.bytes, &total);
    header.file_bytes = is_over ? UINT64_MAX : total;
    header.row_bytes = header.values * header.value_bytes;
    *ret_header = header;
    return OK;
}

enum error idx_header_check(const struct idx_header *header, uint64_t file_bytes, const char *path)
{
    bool is_over = header->file_bytes == UINT64_MAX;
    if (!is_over && header->file_bytes == file_bytes)
        return OK;
    return error_set(ERROR_INPUT,
                     "%s has %" PRIu64 " bytes; its header says %s%" PRIu64 " (%" PRId64
                     " rows of %zu values)",
                     path, file_bytes, is_over ? "more than " : "", header->file_bytes,
                     header->rows, header->values);
}

double idx_value(enum idx_type type, const uint8_t *at)
{
    uint64_t bits = big_endian(at, bytes_of(type));
    uint32_t half = (uint32_t)bits;
    float single;
    double whole;
    switch (type) {
    case IDX_I8:
        return (int8_t)bits;
    case IDX_I16:
        return (int16_t)bits;
    case IDX_I32:
        return (int32_t)bits;
    case IDX_F32:
        memcpy(&single, &half, sizeof(single));
        return single;
    case IDX_F64:
        memcpy(&whole, &bits, sizeof(whole));
        return whole;
    case IDX_U8:
        break;
    }
    return (double)bits;
}
