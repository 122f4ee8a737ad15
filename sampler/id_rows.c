#include "sampler/id_rows.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/large.h"
#include "common/stop.h"

#define PARTS 65536   /* what a range is cut into to count where its ids lie */
#define TABLE_WASTE 8 /* a table may have so many entries for each id */
#define SMALL_RANGE ((uint64_t)1 << 20)
#define MEMORY_LEAST ((uint64_t)1 << 20)
#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)

struct id_row {
    uint64_t id; /* minus the range's first */
    uint64_t row;
};

struct id_rows {
    struct spool_cursor cursor;
    uint64_t *ids; /* owned; [SPOOL_CHUNK] */
    uint64_t memory_bytes;
    bool is_wide; /* rows take 8 bytes */
    struct section_writer *writer;
    struct id_twice *twice;
};

/* Ids from `first` on, `last` included (a range may hold all 2^63), which `rows` rows have. */
struct id_range {
    uint64_t first, last, rows;
};

static enum error next_ids(struct id_rows *all, size_t *ret_count, uint64_t *ret_row)
{
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while the ids were sorted");
    *ret_row = all->cursor.row;
    return spool_cursor_next(&all->cursor, all->ids, ret_count);
}

static enum error put_row(struct id_rows *all, uint64_t row)
{
    unsigned width = all->writer->section->width;
    return section_add(all->writer, &row, width);
}

/* ---- by a table -------------------------------------------------------------------------------
 */
static void note_twice(struct id_twice *twice, bool *is_there, uint64_t id, uint64_t first,
                       uint64_t second)
{
    if (*is_there && twice->id <= id)
        return;
    *is_there = true;
    *twice = (struct id_twice){.id = id, .rows = {first, second}};
}

/* One loop for each width of a row; the table keeps row + 1. */
#define DEFINE_TABLE(name, type)                                                               \
    static bool fill_##name(type *table, const struct id_range *range, const uint64_t *ids,    \
                            size_t count, uint64_t row, struct id_twice *twice, bool is_twice) \
    {                                                                                          \
        uint64_t last = range->last - range->first;                                            \
        for (size_t i = 0; i < count; i++) {                                                   \
            uint64_t at = ids[i] - range->first;                                               \
            if (at > last)                                                                     \
                continue;                                                                      \
            if (__builtin_expect(table[at] != 0, 0))                                           \
                note_twice(twice, &is_twice, ids[i], (uint64_t)table[at] - 1, row + i);        \
            else                                                                               \
                table[at] = (type)(row + i + 1);                                               \
        }                                                                                      \
        return is_twice;                                                                       \
    }                                                                                          \
    static size_t pack_##name(const type *table, size_t count, void *room)                     \
    {                                                                                          \
        size_t rows = 0;                                                                       \
        for (size_t i = 0; i < count; i++) {                                                   \
            ((type *)room)[rows] = table[i] - 1;                                               \
            rows += table[i] != 0;                                                             \
        }                                                                                      \
        return rows;                                                                           \
    }

DEFINE_TABLE(narrow, uint32_t)
DEFINE_TABLE(wide, uint64_t)

/* Rows of less than 4 bytes are made narrow one by one: there are few. */
static enum error add_packed_rows(struct id_rows *all, const void *rows, size_t count)
{
    unsigned width = all->writer->section->width;
    if (width >= sizeof(uint32_t))
        return section_add(all->writer, rows, count * width);
    enum error error = OK;
    for (size_t i = 0; i < count && !error; i++)
        error = put_row(all, ((const uint32_t *)rows)[i]);
    return error;
}

static enum error put_table(struct id_rows *all, const void *table, uint64_t slots)
{
    uint64_t room[4096];
    size_t most = all->is_wide ? 4096 : 8192;
    enum error error = OK;
    for (uint64_t at = 0; at < slots && !error; at += most) {
        size_t count = slots - at < most ? (size_t)(slots - at) : most;
        size_t rows = all->is_wide ? pack_wide((const uint64_t *)table + at, count, room)
                                   : pack_narrow((const uint32_t *)table + at, count, room);
        error = add_packed_rows(all, room, rows);
    }
    return error;
}

static size_t slot_bytes(const struct id_rows *all)
{
    return all->is_wide ? sizeof(uint64_t) : sizeof(uint32_t);
}

static enum error write_by_table(struct id_rows *all, const struct id_range *range)
{
    uint64_t slots = range->last - range->first + 1;
    size_t count = 0;
    uint64_t row = 0;
    bool is_twice = false;
    void *table = large_new(slots * slot_bytes(all), "sorting ids");
    if (!table)
        return ERROR_MEMORY;
    spool_cursor_rewind(&all->cursor);
    enum error error = next_ids(all, &count, &row);
    while (!error && count > 0) {
        is_twice = all->is_wide
                       ? fill_wide(table, range, all->ids, count, row, all->twice, is_twice)
                       : fill_narrow(table, range, all->ids, count, row, all->twice, is_twice);
        error = next_ids(all, &count, &row);
    }
    if (!error && is_twice)
        error = ERROR_CONFLICT;
    if (!error)
        error = put_table(all, table, slots);
    large_free(table, slots * slot_bytes(all));
    return error;
}

/* ---- by sorting -------------------------------------------------------------------------------
 */
static enum error collect(struct id_rows *all, const struct id_range *range, struct id_row *pairs)
{
    size_t count = 0, kept = 0;
    uint64_t row = 0, last = range->last - range->first;
    spool_cursor_rewind(&all->cursor);
    enum error error = next_ids(all, &count, &row);
    while (!error && count > 0) {
        for (size_t i = 0; i < count; i++) {
            uint64_t id = all->ids[i] - range->first;
            if (id <= last)
                pairs[kept++] = (struct id_row){.id = id, .row = row + i};
        }
        error = next_ids(all, &count, &row);
    }
    return error;
}

/* By one digit, stable. */
static void sort_digit(const struct id_row *from, struct id_row *to, size_t count, unsigned shift)
{
    size_t next[DIGITS] = {0};
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        next[from[i].id >> shift & (DIGITS - 1)]++;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        size_t own = next[digit];
        next[digit] = sum;
        sum += own;
    }
    for (size_t i = 0; i < count; i++)
        to[next[from[i].id >> shift & (DIGITS - 1)]++] = from[i];
}

static enum error put_pairs(struct id_rows *all, const struct id_range *range,
                            const struct id_row *pairs)
{
    enum error error = OK;
    for (size_t i = 0; i < range->rows && !error; i++) {
        if (i > 0 && pairs[i].id == pairs[i - 1].id) {
            *all->twice = (struct id_twice){.id = range->first + pairs[i].id,
                                            .rows = {pairs[i - 1].row, pairs[i].row}};
            return ERROR_CONFLICT;
        }
        error = put_row(all, pairs[i].row);
    }
    return error;
}

static enum error write_by_sorting(struct id_rows *all, const struct id_range *range)
{
    size_t count = (size_t)range->rows;
    struct id_row *pairs = large_new(count * sizeof(*pairs), "sorting ids");
    struct id_row *other = pairs ? large_new(count * sizeof(*other), "sorting ids") : NULL;
    enum error error = other ? collect(all, range, pairs) : ERROR_MEMORY;
    for (unsigned shift = 0; !error && shift < 64 && (range->last - range->first) >> shift > 0;
         shift += DIGIT_BITS) {
        sort_digit(pairs, other, count, shift);
        struct id_row *swapped = pairs;
        pairs = other;
        other = swapped;
        if (stop_requested())
            error = error_set(ERROR_CANCELLED, "stopped while the ids were sorted");
    }
    if (!error)
        error = put_pairs(all, range, pairs);
    large_free(pairs, count * sizeof(*pairs));
    large_free(other, count * sizeof(*other));
    return error;
}

/* ---- ranges -----------------------------------------------------------------------------------
 */
static enum error write_range(struct id_rows *all, const struct id_range *range);

/* Cuts a range into tables that fit. */
static enum error write_tables(struct id_rows *all, const struct id_range *range)
{
    uint64_t slots = all->memory_bytes / slot_bytes(all);
    enum error error = OK;
    for (struct id_range part = {.first = range->first}; !error; part.first = part.last + 1) {
        bool is_last = range->last - part.first < slots;
        part.last = is_last ? range->last : part.first + slots - 1;
        error = write_by_table(all, &part);
        if (is_last)
            break;
    }
    return error;
}

/* counts[i]: rows with ids of part i of the range. */
static enum error count_parts(struct id_rows *all, const struct id_range *range, uint64_t width,
                              uint64_t counts[PARTS])
{
    size_t count = 0;
    uint64_t row = 0, last = range->last - range->first;
    spool_cursor_rewind(&all->cursor);
    enum error error = next_ids(all, &count, &row);
    while (!error && count > 0) {
        for (size_t i = 0; i < count; i++) {
            uint64_t at = all->ids[i] - range->first;
            if (at <= last)
                counts[at / width]++;
        }
        error = next_ids(all, &count, &row);
    }
    return error;
}

/* Neighbouring parts together, as many as fit at once; a part that does not fit is cut again. */
static enum error write_parts(struct id_rows *all, const struct id_range *range)
{
    uint64_t *counts = array_new(PARTS, sizeof(*counts), "sorting ids");
    uint64_t width = (range->last - range->first) / PARTS + 1;
    uint64_t most = all->memory_bytes / (2 * sizeof(struct id_row));
    enum error error = counts ? count_parts(all, range, width, counts) : ERROR_MEMORY;
    for (size_t part = 0; part < PARTS && !error;) {
        struct id_range group = {.first = range->first + part * width};
        do
            group.rows += counts[part++];
        while (part < PARTS && group.rows + counts[part] <= most);
        group.last = part < PARTS ? range->first + part * width - 1 : range->last;
        if (group.last > range->last)
            group.last = range->last;
        if (group.rows > 0)
            error = write_range(all, &group);
    }
    free(counts);
    return error;
}

static enum error write_range(struct id_rows *all, const struct id_range *range)
{
    uint64_t slots = range->last - range->first; /* one less */
    if (slots / TABLE_WASTE < range->rows || slots < SMALL_RANGE)
        return write_tables(all, range);
    if (range->rows <= all->memory_bytes / (2 * sizeof(struct id_row)))
        return write_by_sorting(all, range);
    return write_parts(all, range);
}

enum error id_rows_write(const struct spool *ids, uint64_t smallest, uint64_t memory_bytes,
                         struct section_writer *writer, struct id_twice *ret_twice)
{
    struct id_rows all = {
        .memory_bytes = memory_bytes > MEMORY_LEAST ? memory_bytes : MEMORY_LEAST,
        .is_wide = ids->rows >= UINT32_MAX,
        .writer = writer,
        .twice = ret_twice,
    };
    struct id_range range = {.first = smallest, .last = ids->largest, .rows = ids->rows};
    all.ids = array_new(SPOOL_CHUNK, sizeof(*all.ids), "sorting ids");
    if (!all.ids)
        return ERROR_MEMORY;
    enum error error = spool_cursor_open(&all.cursor, ids);
    if (!error)
        error = write_range(&all, &range);
    spool_cursor_close(&all.cursor);
    free(all.ids);
    return error;
}
