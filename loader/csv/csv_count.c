/* SPDX-License-Identifier: MIT */
#include "loader/csv/csv_count.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LANES 32
#define LANE_LIMIT 255 /* a lane's largest count */

typedef uint8_t lanes __attribute__((vector_size(LANES)));

struct counts {
    size_t wanted, marks;
};

/* Counts bytes equal to `wanted`, and the lanes of 255 vectors that contain a `mark`: 0 if there is
 * none. */
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

/* ---- records ------------------------------------------------------------ */

struct record_scan {
    size_t at;    /* bytes scanned so far */
    size_t lines; /* LFs so far */
    bool open;    /* in quotes */
    bool ended;   /* the record ends at `at` */
};

static void scan_bytes(struct record_scan *scan, const char *data, size_t length)
{
    while (scan->at < length && !scan->ended) {
        char byte = data[scan->at++];
        scan->open ^= byte == '"';
        scan->lines += byte == '\n';
        scan->ended = byte == '\n' && !scan->open;
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2,popcnt"))) static void scan_avx2(struct record_scan *scan,
                                                             const char *data, size_t length)
{
    for (; length - scan->at >= LANES; scan->at += LANES) {
        __m256i text = _mm256_loadu_si256((const void *)(data + scan->at));
        unsigned ends =
            (unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(text, _mm256_set1_epi8('\n')));
        unsigned quotes =
            (unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(text, _mm256_set1_epi8('"')));
        for (; ends; ends &= ends - 1) {
            unsigned before = quotes & ((ends & -ends) - 1);
            scan->lines++;
            if ((__builtin_popcount(before) & 1) != scan->open)
                continue;
            scan->at += (size_t)__builtin_ctz(ends) + 1;
            scan->ended = true;
            return;
        }
        scan->open ^= __builtin_popcount(quotes) & 1;
    }
}
#endif

size_t csv_count_record(const char *data, size_t length, size_t *ret_lines)
{
    struct record_scan scan = {.at = 0};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt"))
        scan_avx2(&scan, data, length);
#endif
    scan_bytes(&scan, data, length);
    if (ret_lines)
        *ret_lines = scan.lines;
    return scan.ended ? scan.at : 0;
}
