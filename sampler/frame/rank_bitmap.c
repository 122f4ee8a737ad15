/* SPDX-License-Identifier: MIT */
#include "sampler/frame/rank_bitmap.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/huge_memory.h"
#include "sampler/frame/rank_bitmap_kernels.h"

#define POSITIONS_LIMIT (INT64_C(1) << 40) /* 137 GB */
#define SAMPLE_POSITIONS 8192

static const char what[] = "the units of a split";

/* In huge pages: lines are accessed in random order. */
static size_t line_bytes(const struct rank_bitmap *bitmap)
{
    return bitmap->line_count * sizeof(*bitmap->lines);
}

enum error rank_bitmap_new(int64_t positions, struct rank_bitmap **ret_bitmap)
{
    if (positions > POSITIONS_LIMIT)
        return error_set_memory((size_t)positions / 8, what);
    struct rank_bitmap *bitmap = array_new(1, sizeof(*bitmap), what);
    if (!bitmap)
        return ERROR_MEMORY;
    bitmap->positions = positions;
    bitmap->kernel = rank_bitmap_kernel();
    bitmap->line_count = (size_t)positions / RANK_BITMAP_LINE_BITS + 2;
    bitmap->lines = huge_memory_new(line_bytes(bitmap), what);
    if (!bitmap->lines) {
        rank_bitmap_free(bitmap);
        return ERROR_MEMORY;
    }
    *ret_bitmap = bitmap;
    return OK;
}

void rank_bitmap_free(struct rank_bitmap *bitmap)
{
    if (!bitmap)
        return;
    huge_memory_free(bitmap->lines, line_bytes(bitmap));
    free(bitmap->bases);
    free(bitmap->samples);
    free(bitmap);
}

/* ---- counting ----------------------------------------------------------- */

static uint32_t ones_of_line(const struct rank_bitmap_line *line)
{
    uint32_t ones = 0;
    for (size_t i = 0; i < 15; i++)
        ones += (uint32_t)__builtin_popcount(line->words[i]);
    return ones;
}

/* Position of the k-th one of a line; bit by bit, once per sample. */
static int64_t place_in_line(const struct rank_bitmap_line *line, int64_t k)
{
    int64_t at = 0;
    for (; k > 0 || !(line->words[at / 32] >> at % 32 & 1); at++)
        k -= line->words[at / 32] >> at % 32 & 1;
    return at;
}

static void count_lines(struct rank_bitmap *bitmap)
{
    int64_t all = 0, base = 0;
    for (size_t i = 0; i < bitmap->line_count; i++) {
        if (i % ((size_t)1 << RANK_BITMAP_BASE_SHIFT) == 0)
            bitmap->bases[i >> RANK_BITMAP_BASE_SHIFT] = base = all;
        uint32_t ones = ones_of_line(&bitmap->lines[i]);
        bitmap->lines[i].before = (uint32_t)(all - base);
        all += ones;
    }
    bitmap->ones = all;
}

/* Between samples as many chosen ones as SAMPLE_POSITIONS positions contain on average. */
static unsigned choose_sample_shift(const struct rank_bitmap *bitmap)
{
    unsigned shift = 0;
    while (bitmap->ones >> shift > bitmap->positions / SAMPLE_POSITIONS)
        shift++;
    return shift;
}

/* Samples in a single pass over the lines. */
static void sample(struct rank_bitmap *bitmap, size_t count)
{
    size_t next = 0;
    for (size_t i = 0; i < bitmap->line_count && next < count; i++) {
        const struct rank_bitmap_line *line = &bitmap->lines[i];
        int64_t rank = bitmap->bases[i >> RANK_BITMAP_BASE_SHIFT] + line->before;
        int64_t end = rank + ones_of_line(line);
        for (; next < count && (int64_t)(next << bitmap->sample_shift) < end; next++) {
            int64_t position = (int64_t)(i * RANK_BITMAP_LINE_BITS) +
                               place_in_line(line, (int64_t)(next << bitmap->sample_shift) - rank);
            bitmap->samples[next] = (uint32_t)(position >> bitmap->place_shift);
        }
    }
    bitmap->samples[count] = (uint32_t)(bitmap->positions >> bitmap->place_shift);
}

static enum error take_samples(struct rank_bitmap *bitmap)
{
    bitmap->sample_shift = choose_sample_shift(bitmap);
    while (bitmap->positions >> bitmap->place_shift > UINT32_MAX)
        bitmap->place_shift++;
    size_t step = (size_t)1 << bitmap->sample_shift;
    size_t count = ((size_t)bitmap->ones + step - 1) / step;
    bitmap->samples = array_new(count + 1, sizeof(*bitmap->samples), what);
    if (!bitmap->samples)
        return ERROR_MEMORY;
    sample(bitmap, count);
    return OK;
}

enum error rank_bitmap_finish(struct rank_bitmap *bitmap)
{
    bitmap->bases =
        array_new((bitmap->line_count >> RANK_BITMAP_BASE_SHIFT) + 1, sizeof(*bitmap->bases), what);
    if (!bitmap->bases)
        return ERROR_MEMORY;
    count_lines(bitmap);
    return take_samples(bitmap);
}

/* ---- questions ---------------------------------------------------------- */

void rank_bitmap_rank_many(const struct rank_bitmap *bitmap, const int64_t *positions, size_t count,
                           int64_t *ret_ranks)
{
    bitmap->kernel->rank(bitmap, positions, count, ret_ranks);
}

void rank_bitmap_select_many(const struct rank_bitmap *bitmap, const int64_t *ks, size_t count,
                             int64_t *ret_positions)
{
    bitmap->kernel->select(bitmap, ks, count, ret_positions);
}

int64_t rank_bitmap_rank(const struct rank_bitmap *bitmap, int64_t position)
{
    bitmap->kernel->rank(bitmap, &position, 1, &position);
    return position;
}

int64_t rank_bitmap_select(const struct rank_bitmap *bitmap, int64_t k)
{
    bitmap->kernel->select(bitmap, &k, 1, &k);
    return k;
}

void rank_bitmap_read(const struct rank_bitmap *bitmap, int64_t first, size_t count,
                      int64_t *ret_positions)
{
    if (count == 0)
        return;
    uint64_t start = (uint64_t)rank_bitmap_select(bitmap, first);
    size_t line = start / RANK_BITMAP_LINE_BITS;
    size_t word = start % RANK_BITMAP_LINE_BITS / 32;
    uint32_t bits = bitmap->lines[line].words[word] & ~UINT32_C(0) << start % 32;
    for (size_t done = 0; done < count;) {
        int64_t base = (int64_t)(line * RANK_BITMAP_LINE_BITS + word * 32);
        for (; bits && done < count; bits &= bits - 1)
            ret_positions[done++] = base + __builtin_ctz(bits);
        if (++word == RANK_BITMAP_LINE_BITS / 32) {
            word = 0;
            line++;
        }
        if (done < count)
            bits = bitmap->lines[line].words[word];
    }
}
