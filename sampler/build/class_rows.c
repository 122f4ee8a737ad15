/* SPDX-License-Identifier: MIT */
#include "sampler/build/class_rows.h"

#include "sampler/build/counting_sort.h"
#include "sampler/build/spool_team.h"

#define OFFSETS_BYTES ((uint64_t)16 << 20) /* for the offsets of more than one run */

struct class_rows {
    struct spool_team team;
    struct counting_sort offsets; /* kinds are codes */
    struct section_writer *writer;
    unsigned width;
    uint64_t first, count; /* the part of the result being made */
    uint8_t *rows;         /* [count] of `width` bytes */
    uint64_t pieces;       /* of the section, before this part */
};

static enum error count_codes(void *context, unsigned run, struct spool_cursor *cursor)
{
    struct class_rows *all = context;
    uint64_t *counts = all->offsets.next[run];
    const uint32_t *codes;
    size_t count = 0;
    enum error error = spool_cursor_next32(cursor, &codes, &count);
    for (size_t i = 0; i < count; i++)
        counts[codes[i]]++;
    return error;
}

/* A block of codes [count] of consecutive rows; rows go to [all->first, + count) of the result,
 * those of another part nowhere. One loop for each width. */
#define DEFINE_PLACE(name, type)                                                                  \
    static void place_##name(const struct class_rows *all, uint64_t *next, const uint32_t *codes, \
                             size_t count, uint64_t row)                                          \
    {                                                                                             \
        type *rows = (type *)all->rows;                                                           \
        for (size_t i = 0; i < count; i++) {                                                      \
            uint64_t place = next[codes[i]]++ - all->first;                                       \
            if (place < all->count)                                                               \
                rows[place] = (type)(row + i);                                                    \
        }                                                                                         \
    }

DEFINE_PLACE(8, uint8_t)
DEFINE_PLACE(16, uint16_t)
DEFINE_PLACE(32, uint32_t)
DEFINE_PLACE(64, uint64_t)

static enum error place_codes(void *context, unsigned run, struct spool_cursor *cursor)
{
    struct class_rows *all = context;
    uint64_t *next = all->offsets.next[run];
    const uint32_t *codes;
    uint64_t row = cursor->row;
    size_t count = 0;
    enum error error = spool_cursor_next32(cursor, &codes, &count);
    switch (all->width) {
    case 1:
        place_8(all, next, codes, count, row);
        break;
    case 2:
        place_16(all, next, codes, count, row);
        break;
    case 4:
        place_32(all, next, codes, count, row);
        break;
    default:
        place_64(all, next, codes, count, row);
    }
    return error;
}

static enum error put_piece(void *context, unsigned hand, uint64_t part)
{
    struct class_rows *all = context;
    uint64_t done = part * SECTION_PIECE_BYTES;
    uint64_t left = all->count * all->width - done;
    (void)hand;
    return section_put(all->writer, all->pieces + part, all->rows + done,
                       left < SECTION_PIECE_BYTES ? (size_t)left : SECTION_PIECE_BYTES);
}

static enum error make_part(struct class_rows *all)
{
    uint64_t bytes = all->count * all->width;
    struct team_work put = {.what = all->team.what,
                            .parts = (bytes + SECTION_PIECE_BYTES - 1) / SECTION_PIECE_BYTES,
                            .work = put_piece,
                            .context = all};
    all->pieces = all->writer->pieces;
    enum error error = spool_team_read(&all->team, all->offsets.runs, place_codes, all);
    return error ? error : team_run(&put, all->team.hands);
}

static enum error make_parts(struct class_rows *all, const uint32_t *ranks, const uint64_t *starts)
{
    uint64_t units = all->team.spool->rows;
    uint64_t most = all->count;
    enum error error = spool_team_read(&all->team, all->offsets.runs, count_codes, all);
    if (error)
        return error;
    counting_sort_sum(&all->offsets, starts, ranks);
    for (all->first = 0; all->first < units && !error; all->first += most) {
        all->count = units - all->first < most ? units - all->first : most;
        if (all->first > 0)
            counting_sort_rewind(&all->offsets, starts, ranks);
        error = make_part(all);
    }
    return error;
}

/* One per thread, except for very many categories. */
static unsigned count_runs(const struct spool_team *team, uint32_t categories)
{
    uint64_t most = OFFSETS_BYTES / (categories * sizeof(uint64_t));
    return most < 1 ? 1 : most < team->hands ? (unsigned)most : team->hands;
}

enum error class_rows_write(const struct spool *codes, const uint32_t *ranks,
                            const uint64_t *starts, uint32_t count, struct sort_arena *arena,
                            struct section_writer *writer)
{
    struct class_rows all = {.writer = writer, .width = writer->section->width};
    uint64_t most = arena->limit_bytes / all.width;
    void *rows;
    all.count = codes->rows < most ? codes->rows : most;
    enum error error = spool_team_open(&all.team, codes, "sorting the labels");
    if (!error)
        error = counting_sort_init(&all.offsets, count_runs(&all.team, count), count);
    if (!error)
        error = sort_arena_take(arena, all.count * all.width, false, &rows);
    if (!error) {
        all.rows = rows;
        error = make_parts(&all, ranks, starts);
    }
    counting_sort_release(&all.offsets);
    spool_team_close(&all.team);
    return error;
}
