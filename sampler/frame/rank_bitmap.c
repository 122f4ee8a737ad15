#include "sampler/frame/rank_bitmap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/array.h"
#include "sampler/frame/rank_bitmap_kernels.h"

#define POSITIONS_LIMIT (INT64_C(1) << 40) /* 137 GB */
#define SAMPLE_POSITIONS 8192
#define LARGE_PAGE_BYTES ((size_t)2 << 20)

static const char what[] = "the units of a split";

/* Zeroed. In large pages where the system has them: lines are asked for all over the place. */
static struct selection_line *new_lines(size_t count)
{
    size_t bytes = count * sizeof(struct selection_line);
    size_t alignment = bytes < LARGE_PAGE_BYTES ? sizeof(struct selection_line) : LARGE_PAGE_BYTES;
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    struct selection_line *lines = aligned_alloc(alignment, rounded);
    if (!lines) {
        error_set_memory(bytes, what);
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    if (alignment == LARGE_PAGE_BYTES)
        (void)madvise(lines, rounded, MADV_HUGEPAGE); /* slower without it, and nothing else */
#endif
    memset(lines, 0, bytes);
    return lines;
}

enum error selection_new(int64_t positions, struct selection **ret_selection)
{
    if (positions > POSITIONS_LIMIT)
        return error_set_memory((size_t)positions / 8, what);
    struct selection *selection = array_new(1, sizeof(*selection), what);
    if (!selection)
        return ERROR_MEMORY;
    selection->positions = positions;
    selection->kernel = selection_kernel();
    selection->line_count = (size_t)positions / SELECTION_LINE_BITS + 2;
    if (!(selection->lines = new_lines(selection->line_count))) {
        selection_free(selection);
        return ERROR_MEMORY;
    }
    *ret_selection = selection;
    return OK;
}

void selection_free(struct selection *selection)
{
    if (!selection)
        return;
    free(selection->lines);
    free(selection->bases);
    free(selection->samples);
    free(selection);
}

/* ---- counting ----------------------------------------------------------- */
static uint32_t ones_of_line(const struct selection_line *line)
{
    uint32_t ones = 0;
    for (size_t i = 0; i < 15; i++)
        ones += (uint32_t)__builtin_popcount(line->words[i]);
    return ones;
}

/* Where the k-th one of a line is. */
static int64_t place_in_line(const struct selection_line *line, int64_t k)
{
    int64_t at = 0;
    for (; k > 0 || !(line->words[at / 32] >> at % 32 & 1); at++)
        k -= line->words[at / 32] >> at % 32 & 1;
    return at;
}

static void count_lines(struct selection *selection)
{
    int64_t all = 0, base = 0;
    for (size_t i = 0; i < selection->line_count; i++) {
        if (i % ((size_t)1 << SELECTION_BASE_SHIFT) == 0)
            selection->bases[i >> SELECTION_BASE_SHIFT] = base = all;
        uint32_t ones = ones_of_line(&selection->lines[i]);
        selection->lines[i].before = (uint32_t)(all - base);
        all += ones;
    }
    selection->chosen = all;
}

/* As many chosen ones between samples as stand in SAMPLE_POSITIONS positions on average. */
static unsigned choose_sample_shift(const struct selection *selection)
{
    unsigned shift = 0;
    while (selection->chosen >> shift > selection->positions / SAMPLE_POSITIONS)
        shift++;
    return shift;
}

/* Where every sampled one is, in a single pass over the lines. */
static void sample(struct selection *selection, size_t count)
{
    size_t next = 0;
    for (size_t i = 0; i < selection->line_count && next < count; i++) {
        const struct selection_line *line = &selection->lines[i];
        int64_t rank = selection->bases[i >> SELECTION_BASE_SHIFT] + line->before;
        int64_t end = rank + ones_of_line(line);
        for (; next < count && (int64_t)(next << selection->sample_shift) < end; next++) {
            int64_t position =
                (int64_t)(i * SELECTION_LINE_BITS) +
                place_in_line(line, (int64_t)(next << selection->sample_shift) - rank);
            selection->samples[next] = (uint32_t)(position >> selection->place_shift);
        }
    }
    selection->samples[count] = (uint32_t)(selection->positions >> selection->place_shift);
}

static enum error take_samples(struct selection *selection)
{
    selection->sample_shift = choose_sample_shift(selection);
    while (selection->positions >> selection->place_shift > UINT32_MAX)
        selection->place_shift++;
    size_t step = (size_t)1 << selection->sample_shift;
    size_t count = ((size_t)selection->chosen + step - 1) / step;
    selection->samples = array_new(count + 1, sizeof(*selection->samples), what);
    if (!selection->samples)
        return ERROR_MEMORY;
    sample(selection, count);
    return OK;
}

enum error selection_finish(struct selection *selection)
{
    selection->bases = array_new((selection->line_count >> SELECTION_BASE_SHIFT) + 1,
                                 sizeof(*selection->bases), what);
    if (!selection->bases)
        return ERROR_MEMORY;
    count_lines(selection);
    return take_samples(selection);
}

/* ---- questions ---------------------------------------------------------- */
void selection_rank_many(const struct selection *selection, const int64_t *positions, size_t count,
                         int64_t *ret_ranks)
{
    selection->kernel->rank(selection, positions, count, ret_ranks);
}

void selection_select_many(const struct selection *selection, const int64_t *ks, size_t count,
                           int64_t *ret_positions)
{
    selection->kernel->select(selection, ks, count, ret_positions);
}

int64_t selection_rank(const struct selection *selection, int64_t position)
{
    selection->kernel->rank(selection, &position, 1, &position);
    return position;
}

int64_t selection_select(const struct selection *selection, int64_t k)
{
    selection->kernel->select(selection, &k, 1, &k);
    return k;
}

void selection_read(const struct selection *selection, int64_t first, size_t count,
                    int64_t *ret_positions)
{
    if (count == 0)
        return;
    uint64_t start = (uint64_t)selection_select(selection, first);
    size_t line = start / SELECTION_LINE_BITS;
    size_t word = start % SELECTION_LINE_BITS / 32;
    uint32_t bits = selection->lines[line].words[word] & ~UINT32_C(0) << start % 32;
    for (size_t done = 0; done < count;) {
        int64_t base = (int64_t)(line * SELECTION_LINE_BITS + word * 32);
        for (; bits && done < count; bits &= bits - 1)
            ret_positions[done++] = base + __builtin_ctz(bits);
        if (++word == SELECTION_LINE_BITS / 32) {
            word = 0;
            line++;
        }
        if (done < count)
            bits = selection->lines[line].words[word];
    }
}
