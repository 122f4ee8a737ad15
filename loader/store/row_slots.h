/* SPDX-License-Identifier: MIT */
/*
 * Memory for all rows of a store: slots of a fixed stride, each label before its row, and a bit for
 * each bad row. Rows that differ in length follow each other without gaps instead, and are written
 * in order. Owned by the holder of the struct; zeroed: none. Slots are zeroed until written.
 * Different rows may be written by different threads; row_slots_mark_bad() is for one thread, or,
 * after row_slots_reserve_bad(), for one of all rows that share a byte of the map.
 */
#ifndef LOADER_STORE_ROW_SLOTS_H
#define LOADER_STORE_ROW_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

#define ROW_SLOTS_A_BYTE 8 /* rows, in the map of bad ones */

struct row_slots {
    uint8_t *memory;  /* owned, mapped; [capacity, stride]: double label, then the features */
    size_t stride;    /* bytes of a slot */
    size_t row_bytes; /* of its features */
    uint64_t capacity;
    uint64_t *ends; /* owned; [capacity]: end of each row, if rows differ in length; else NULL */
    size_t bytes;   /* mapped */
    uint8_t *bad;   /* owned; a bit per row; NULL: no row is bad */
    size_t bad_bytes;
};

size_t row_slots_stride(size_t features, enum element element);

/* Maps memory for `rows` rows; it is only used once written. */
enum error row_slots_map(struct row_slots *slots, size_t features, enum element element,
                         uint64_t rows) MUST_CHECK;
void row_slots_release(struct row_slots *slots);
/* Unmaps the memory after the first `rows` rows; at least 1. */
void row_slots_trim(struct row_slots *slots, uint64_t rows);

/* The same for rows that differ in length, `bytes` in all. */
enum error row_slots_map_varying(struct row_slots *slots, uint64_t bytes, uint64_t rows) MUST_CHECK;
/* Bytes of such a slot in addition to its features. */
#define ROW_SLOTS_VARYING_BYTES (sizeof(double) + sizeof(uint64_t))
/* The slot after that of `row` - 1, for `bytes` of features. NULL: it does not fit. */
uint8_t *row_slots_add(struct row_slots *slots, uint64_t row, size_t bytes);

static inline uint8_t *row_slots_at(const struct row_slots *slots, uint64_t row)
{
    if (slots->ends)
        return slots->memory + (row > 0 ? slots->ends[row - 1] : 0);
    return slots->memory + (size_t)row * slots->stride;
}

/* Bytes of a row's features. */
static inline size_t row_slots_bytes(const struct row_slots *slots, uint64_t row)
{
    if (!slots->ends)
        return slots->row_bytes;
    return (size_t)(slots->memory + slots->ends[row] - row_slots_at(slots, row)) - sizeof(double);
}

/* Allocates the map of bad rows for all rows: rows may then be read while others are marked, unless
 * they share a byte of the map. */
enum error row_slots_reserve_bad(struct row_slots *slots) MUST_CHECK;
enum error row_slots_mark_bad(struct row_slots *slots, uint64_t row) MUST_CHECK;

static inline bool row_slots_is_bad(const struct row_slots *slots, uint64_t row)
{
    return row / ROW_SLOTS_A_BYTE < slots->bad_bytes &&
           (slots->bad[row / ROW_SLOTS_A_BYTE] >> row % ROW_SLOTS_A_BYTE & 1);
}

#endif
