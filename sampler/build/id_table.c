/* SPDX-License-Identifier: MIT */
/* One pass for each table that fits in memory. */
#include <stdatomic.h>
#include <string.h>

#include "common/stop.h"
#include "sampler/build/id_rows_private.h"
#include "sampler/frame/packed.h"

#define RUNS_PER_HAND 8 /* so that they end at the same time */

struct id_table {
    struct id_rows *all;
    uint64_t first, last;   /* ids */
    bool is_last;           /* of its range */
    unsigned width;         /* bytes per entry: 4, 8 */
    uint8_t *entries;       /* row + 1 by id; 0: unused. Plus one entry for ids out of range */
    uint64_t slots_a_piece; /* of the section */
    uint64_t pieces;        /* of the section, before this range */
    _Atomic uint64_t rows;  /* with an id in the table, and not yet found in it */
};

/* ---- filling ------------------------------------------------------------ */

/* Ids out of range go to the last entry, which is faster than a test. A duplicate id keeps one of
 * its rows. Returns how many are in range. */
#define DEFINE_FILL(name, id_type, row_type)                                                    \
    static uint64_t fill_##name(const struct id_table *table, const id_type *ids, size_t count, \
                                uint64_t row)                                                   \
    {                                                                                           \
        row_type *entries = (row_type *)table->entries;                                         \
        uint64_t first = table->first, end = table->last - table->first + 1;                    \
        uint64_t kept = 0;                                                                      \
        for (size_t i = 0; i < count; i++) {                                                    \
            uint64_t at = ids[i] - first;                                                       \
            bool is_in = at < end;                                                              \
            kept += is_in;                                                                      \
            __atomic_store_n(&entries[is_in ? at : end], (row_type)(row + i + 1),               \
                             __ATOMIC_RELAXED);                                                 \
        }                                                                                       \
        return kept;                                                                            \
    }

DEFINE_FILL(32_32, uint32_t, uint32_t)
DEFINE_FILL(64_32, uint64_t, uint32_t)
DEFINE_FILL(64_64, uint64_t, uint64_t)

static enum error fill_narrow(struct id_table *table, struct spool_cursor *cursor)
{
    const uint32_t *ids;
    uint64_t row = cursor->row;
    size_t count;
    enum error error = spool_cursor_next32(cursor, &ids, &count);
    if (!error)
        atomic_fetch_add(&table->rows, fill_32_32(table, ids, count, row));
    return error;
}

static enum error fill_wide(struct id_table *table, struct spool_cursor *cursor)
{
    const uint64_t *ids;
    uint64_t row = cursor->row;
    size_t count;
    enum error error = spool_cursor_next(cursor, &ids, &count);
    if (!error)
        atomic_fetch_add(&table->rows, table->width == 4 ? fill_64_32(table, ids, count, row)
                                                         : fill_64_64(table, ids, count, row));
    return error;
}

static enum error fill(void *context, unsigned run, struct spool_cursor *cursor)
{
    struct id_table *table = context;
    (void)run;
    return cursor->spool->largest <= UINT32_MAX && table->width == 4 ? fill_narrow(table, cursor)
                                                                     : fill_wide(table, cursor);
}

/* ---- putting it down ---------------------------------------------------- */

/* Moves the rows of used entries to the front. */
#define DEFINE_PACK(name, type)                            \
    static size_t pack_##name(type *entries, size_t slots) \
    {                                                      \
        size_t rows = 0;                                   \
        for (size_t i = 0; i < slots; i++) {               \
            type entry = entries[i];                       \
            entries[rows] = entry - 1;                     \
            rows += entry != 0;                            \
        }                                                  \
        return rows;                                       \
    }

DEFINE_PACK(32, uint32_t)
DEFINE_PACK(64, uint64_t)

/* Narrows `count` rows of `stride` bytes to the section's width, in place. */
static void narrow(void *rows, size_t count, unsigned stride, unsigned width)
{
    uint8_t *to = rows;
    const uint8_t *from = rows;
    for (size_t i = 0; i < count && width < stride; i++)
        memmove(to + i * width, from + i * stride, width); /* little-endian */
}

static enum error put_piece(void *context, unsigned hand, uint64_t part)
{
    struct id_table *table = context;
    struct section_writer *writer = table->all->writer;
    uint64_t begin = part * table->slots_a_piece;
    uint64_t left = table->last - table->first + 1 - begin;
    size_t slots = left < table->slots_a_piece ? (size_t)left : table->slots_a_piece;
    void *entries = table->entries + begin * table->width;
    size_t rows = table->width == 4 ? pack_32(entries, slots) : pack_64(entries, slots);
    (void)hand;
    narrow(entries, rows, table->width, writer->section->width);
    atomic_fetch_sub(&table->rows, rows);
    enum error error =
        section_put(writer, table->pieces + part, entries, rows * writer->section->width);
    if (!table->is_last)
        memset(entries, 0, slots * table->width);
    return error;
}

/* ---- ids that come twice ------------------------------------------------ */

/* Finds the smallest duplicate: fills the table a second time, one id after another. */
static enum error find_twice(struct id_table *table)
{
    struct spool_cursor *cursor = &table->all->team.cursors[0];
    struct id_twice *twice = table->all->twice;
    uint64_t slots = table->last - table->first + 1;
    struct packed entries = {.data = table->entries, .count = slots, .width = table->width};
    const uint64_t *ids;
    size_t count;
    enum error error = OK;
    for (uint64_t at = 0; at < slots; at++)
        packed_set(&entries, at, 0);
    twice->id = UINT64_MAX;
    spool_cursor_seek(cursor, 0);
    do {
        uint64_t row = cursor->row;
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped while %s", table->all->team.what);
        error = spool_cursor_next(cursor, &ids, &count);
        for (size_t i = 0; i < count && !error; i++) {
            uint64_t at = ids[i] - table->first;
            if (at >= slots)
                continue;
            uint64_t entry = packed_get(&entries, at);
            if (entry == 0)
                packed_set(&entries, at, row + i + 1);
            else if (ids[i] < twice->id)
                *twice = (struct id_twice){.id = ids[i], .rows = {entry - 1, row + i}};
        }
    } while (count > 0 && !error);
    return error ? error : ERROR_CONFLICT;
}

/* ---- both --------------------------------------------------------------- */

/* One piece of the section per piece of the table, if ids are evenly distributed. */
static uint64_t slots_a_piece(const struct id_table *table, uint64_t rows)
{
    uint64_t slots = table->last - table->first + 1;
    uint64_t pieces = rows * table->all->writer->section->width / SECTION_PIECE_BYTES + 1;
    return (slots + pieces - 1) / pieces;
}

static enum error make(struct id_table *table, uint64_t rows)
{
    struct spool_team *team = &table->all->team;
    uint64_t slots = table->last - table->first + 1;
    table->slots_a_piece = slots_a_piece(table, rows);
    table->pieces = table->all->writer->pieces;
    struct team_work put = {.what = team->what,
                            .parts = (slots + table->slots_a_piece - 1) / table->slots_a_piece,
                            .work = put_piece,
                            .context = table};
    enum error error = spool_team_read(team, team->hands * RUNS_PER_HAND, fill, table);
    if (!error)
        error = team_run(&put, team->hands);
    return !error && table->rows > 0 ? find_twice(table) : error;
}

/* One table after another, each as large as the arena allows. */
enum error id_table_write(struct id_rows *all, const struct id_range *range)
{
    struct id_table table = {.all = all, .first = range->first};
    table.width = all->team.spool->rows < UINT32_MAX ? 4 : 8;
    uint64_t last = range->last - range->first, most = all->arena->limit_bytes / table.width - 1;
    size_t slots = last < most ? (size_t)last + 1 : (size_t)most;
    void *entries;
    enum error error = sort_arena_take(all->arena, (slots + 1) * table.width, true, &entries);
    table.entries = entries;
    for (; !error; table.first += slots) {
        table.is_last = range->last - table.first < slots;
        table.last = table.is_last ? range->last : table.first + slots - 1;
        error = make(&table, range->rows / (last / slots + 1));
        if (table.is_last)
            break;
    }
    return error;
}
