/* SPDX-License-Identifier: MIT */
/*
 * Memory for all rows of a store: slots of a fixed stride, the label in front of its row, and a bit
 * for each row that is bad. Rows that differ in length follow each other without a gap instead, and
 * are written in their order. Owned by the holder of the struct; zeroed: there is none. Slots are
 * zeroed until written. Different rows may be written by different threads; row_slots_mark_bad() is
 * for one thread.
 */
#ifndef LOADER_STORE_ROW_SLOTS_H
#define LOADER_STORE_ROW_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

struct row_slots {
    uint8_t *memory;  /* owned, mapped; [capacity, stride]: double label, then the features */
    size_t stride;    /* bytes of a slot */
    size_t row_bytes; /* of its features */
    uint64_t capacity;
    uint64_t *ends; /* owned; [capacity]: of rows that differ in length, where each ends; NULL: they
                     * do not */
    size_t bytes;   /* that are mapped */
    uint8_t *bad;   /* owned; a bit a row; NULL: no row is bad */
    size_t bad_bytes;
};

size_t row_slots_stride(size_t features, enum element element);

/* Room for `rows` rows; memory is only taken where it is written. */
enum error row_slots_map(struct row_slots *slots, size_t features, enum element element,
                         uint64_t rows) MUST_CHECK;
void row_slots_release(struct row_slots *slots);
/* Gives back the memory behind the first `rows` rows, of which there is one at least. */
void row_slots_trim(struct row_slots *slots, uint64_t rows);

/* The same for rows that differ in length, all of them in `bytes`. */
enum error row_slots_map_varying(struct row_slots *slots, uint64_t bytes, uint64_t rows) MUST_CHECK;
/* Bytes of a slot of a row that differs in length, besides its features. */
#define ROW_SLOTS_VARYING_BYTES (sizeof(double) + sizeof(uint64_t))
/* The slot behind that of `row` - 1, for one that takes `bytes` of features. NULL: there is no room
 * for it. */
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

/* The map of bad rows for all rows at once: rows may be read while others are marked, if no byte of
 * the map, which stands for eight, has both. */
enum error row_slots_reserve_bad(struct row_slots *slots) MUST_CHECK;
enum error row_slots_mark_bad(struct row_slots *slots, uint64_t row) MUST_CHECK;

static inline bool row_slots_is_bad(const struct row_slots *slots, uint64_t row)
{
    return row / 8 < slots->bad_bytes && (slots->bad[row / 8] >> row % 8 & 1);
}

#endif
