/* SPDX-License-Identifier: MIT */
#include "loader/store/row_slots.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/array.h"

size_t row_slots_stride(size_t features, enum element element)
{
    return sizeof(double) + (features * element_bytes(element) + 7) / 8 * 8;
}

/* Huge pages: random rows would otherwise miss the TLB each time. */
static enum error map_bytes(size_t bytes, uint8_t **ret_memory)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set_memory(bytes, "rows in memory");
    madvise(memory, bytes, MADV_HUGEPAGE);
    *ret_memory = memory;
    return OK;
}

enum error row_slots_map(struct row_slots *slots, size_t features, enum element element,
                         uint64_t rows)
{
    size_t stride = row_slots_stride(features, element);
    size_t bytes;
    uint8_t *memory = NULL;
    if (__builtin_mul_overflow(rows, stride, &bytes) || bytes > PTRDIFF_MAX)
        return error_set_memory(SIZE_MAX, "rows in memory");
    enum error error = map_bytes(bytes, &memory);
    if (!error)
        *slots = (struct row_slots){.memory = memory,
                                    .stride = stride,
                                    .row_bytes = features * element_bytes(element),
                                    .capacity = rows,
                                    .bytes = bytes};
    return error;
}

enum error row_slots_map_varying(struct row_slots *slots, uint64_t bytes, uint64_t rows)
{
    uint8_t *memory = NULL;
    if (bytes > PTRDIFF_MAX)
        return error_set_memory(SIZE_MAX, "rows in memory");
    uint64_t *ends = array_new((size_t)rows, sizeof(*ends), "where rows in memory end");
    enum error error = ends ? map_bytes((size_t)bytes, &memory) : ERROR_MEMORY;
    if (error) {
        free(ends);
        return error;
    }
    *slots = (struct row_slots){
        .memory = memory, .capacity = rows, .ends = ends, .bytes = (size_t)bytes};
    return OK;
}

uint8_t *row_slots_add(struct row_slots *slots, uint64_t row, size_t bytes)
{
    size_t begin = row > 0 ? (size_t)slots->ends[row - 1] : 0;
    if (bytes > slots->bytes || slots->bytes - bytes < sizeof(double) ||
        begin > slots->bytes - bytes - sizeof(double))
        return NULL;
    slots->ends[row] = begin + sizeof(double) + bytes;
    return slots->memory + begin;
}

void row_slots_release(struct row_slots *slots)
{
    if (slots->memory)
        munmap(slots->memory, slots->bytes);
    free(slots->ends);
    free(slots->bad);
    *slots = (struct row_slots){.memory = NULL};
}

void row_slots_trim(struct row_slots *slots, uint64_t rows)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t kept = ((size_t)rows * slots->stride + page - 1) / page * page;
    size_t mapped = (slots->bytes + page - 1) / page * page;
    if (kept < mapped && munmap(slots->memory + kept, mapped - kept) == 0) {
        slots->capacity = rows;
        slots->bytes = kept;
    }
}

enum error row_slots_reserve_bad(struct row_slots *slots)
{
    size_t bytes = (size_t)(slots->capacity / ROW_SLOTS_A_BYTE) + 1;
    slots->bad = array_new(bytes, 1, "the bad rows of a store");
    slots->bad_bytes = slots->bad ? bytes : 0;
    return slots->bad ? OK : ERROR_MEMORY;
}

enum error row_slots_mark_bad(struct row_slots *slots, uint64_t row)
{
    size_t had = slots->bad_bytes;
    enum error error =
        array_grow((void **)&slots->bad, &slots->bad_bytes, (size_t)(row / ROW_SLOTS_A_BYTE) + 1, 1,
                   "the bad rows of a store");
    if (error)
        return error;
    memset(slots->bad + had, 0, slots->bad_bytes - had);
    slots->bad[row / ROW_SLOTS_A_BYTE] |= (uint8_t)(1 << row % ROW_SLOTS_A_BYTE);
    return OK;
}
