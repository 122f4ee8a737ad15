/* SPDX-License-Identifier: MIT */
/* IDX files, made in memory. */
#ifndef TESTS_UNIT_IDX_UNIT_H
#define TESTS_UNIT_IDX_UNIT_H

#include "tests/unit/store_unit.h"

#include "loader/idx/idx_header.h"

struct bytes {
    uint8_t data[1 << 16];
    size_t length;
};

static inline void add_number(struct bytes *bytes, uint64_t value, size_t count)
{
    while (count-- > 0)
        bytes->data[bytes->length++] = (uint8_t)(value >> 8 * count);
}

static inline void begin(struct bytes *bytes, enum idx_type type, size_t dimensions,
                         const uint32_t *sizes)
{
    bytes->length = 0;
    add_number(bytes, 0, 2);
    add_number(bytes, type, 1);
    add_number(bytes, dimensions, 1);
    for (size_t i = 0; i < dimensions; i++)
        add_number(bytes, sizes[i], 4);
}

static inline void add_value(struct bytes *bytes, enum idx_type type, double value)
{
    float single = (float)value;
    uint32_t half;
    uint64_t whole;
    memcpy(&half, &single, sizeof(half));
    memcpy(&whole, &value, sizeof(whole));
    if (type == IDX_F32)
        add_number(bytes, half, 4);
    else if (type == IDX_F64)
        add_number(bytes, whole, 8);
    else
        add_number(bytes, (uint64_t)(int64_t)value, type == IDX_I32 ? 4 : type == IDX_I16 ? 2 : 1);
}

static inline void put(const char *name, const struct bytes *bytes)
{
    assert_ok(file_write_whole(path_of(name), bytes->data, bytes->length));
}

#endif
