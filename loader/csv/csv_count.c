/* SPDX-License-Identifier: MIT */
#include "loader/csv/csv_count.h"

#include <stdint.h>
#include <string.h>

#define LANES 32
#define LANE_LIMIT 255 /* what a lane can count to */

typedef uint8_t lanes __attribute__((vector_size(LANES)));

struct counts {
    size_t wanted, marks;
};

/* How many bytes are `wanted`, and how many lanes of 255 vectors saw a `mark`: 0 when there is
 * none.
 */
__attribute__((always_inline)) static inline struct counts
count_body(const char *data, size_t length, uint8_t wanted, uint8_t mark)
{
    struct counts counts = {0};
    size_t at = 0;
    while (length - at >= LANES) {
        lanes hits = {0}, marks = {0};
        for (int i = 0; i < LANE_LIMIT && length - at >= LANES; i++, at += LANES) {
            lanes next;
            memcpy(&next, data + at, sizeof(next));
            hits -= (lanes)(next == wanted);
            marks |= (lanes)(next == mark);
        }
        for (int lane = 0; lane < LANES; lane++) {
            counts.wanted += hits[lane];
            counts.marks += marks[lane];
        }
    }
    for (; at < length; at++) {
        counts.wanted += (uint8_t)data[at] == wanted;
        counts.marks += (uint8_t)data[at] == mark;
    }
    return counts;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static struct counts count_avx2(const char *data, size_t length,
                                                                uint8_t wanted, uint8_t mark)
{
    return count_body(data, length, wanted, mark);
}
#endif

static struct counts count(const char *data, size_t length, uint8_t wanted, uint8_t mark)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return count_avx2(data, length, wanted, mark);
#endif
    return count_body(data, length, wanted, mark);
}

size_t csv_count_bytes(const char *data, size_t length, char byte)
{
    return count(data, length, (uint8_t)byte, (uint8_t)byte).wanted;
}

size_t csv_count_lines(const char *data, size_t length, bool *ret_plain)
{
    struct counts counts = count(data, length, '\n', '"');
    *ret_plain = counts.marks == 0;
    return counts.wanted;
}
