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
enum error row_slots_map(struct row_slots *slots, size_t features, enum element element,
                         uint64_t rows)
{
    size_t stride = row_slots_stride(features, element);
    size_t bytes;
    if (__builtin_mul_overflow(rows, stride, &bytes) || bytes > PTRDIFF_MAX)
        return error_set_memory(SIZE_MAX, "rows in memory");
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set_memory(bytes, "rows in memory");
    madvise(memory, bytes, MADV_HUGEPAGE);
    *slots = (struct row_slots){.memory = memory,
                                .stride = stride,
                                .row_bytes = features * element_bytes(element),
                                .capacity = rows};
    return OK;
}

void row_slots_release(struct row_slots *slots)
{
    if (slots->memory)
        munmap(slots->memory, (size_t)slots->capacity * slots->stride);
    free(slots->bad);
    *slots = (struct row_slots){.memory = NULL};
}

void row_slots_trim(struct row_slots *slots, uint64_t rows)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t kept = ((size_t)rows * slots->stride + page - 1) / page * page;
    size_t mapped = ((size_t)slots->capacity * slots->stride + page - 1) / page * page;
    if (kept < mapped && munmap(slots->memory + kept, mapped - kept) == 0)
        slots->capacity = rows;
}

enum error row_slots_reserve_bad(struct row_slots *slots)
{
    size_t bytes = (size_t)(slots->capacity / 8) + 1;
    slots->bad = array_new(bytes, 1, "the bad rows of a store");
    slots->bad_bytes = slots->bad ? bytes : 0;
    return slots->bad ? OK : ERROR_MEMORY;
}

enum error row_slots_mark_bad(struct row_slots *slots, uint64_t row)
{
    size_t had = slots->bad_bytes;
    enum error error = array_grow((void **)&slots->bad, &slots->bad_bytes, (size_t)(row / 8) + 1, 1,
                                  "the bad rows of a store");
    if (error)
        return error;
    memset(slots->bad + had, 0, slots->bad_bytes - had);
    slots->bad[row / 8] |= (uint8_t)(1 << row % 8);
    return OK;
}
