/* SPDX-License-Identifier: MIT */
/*
 * Dense ids use a table of rows by id (id_table.c). Others are sorted as (id, row) pairs, in three
 * passes, each of which reads or writes memory in one direction:
 *
 *   count   the range is cut into P parts of 2^part_bits ids each, so that a part has some 4,096
 *           pairs, 64 KiB, where ids are spread evenly: what fits one core's cache. Every hand
 *           counts the rows of its run by part.
 *   place   pairs go to their part's place, in the runs' order: a counting sort by the ids' high
 *           bits. Where not all pairs fit the memory, parts are made a group at a time, and the
 *           spool is read once more for each group.
 *   sort    each part by its low bits, eight at a time from the lowest, then packed to rows where
 *           its pairs were. Packing is safe in place: a row is narrower than a pair.
 *
 * A part with more pairs than a thread's spare memory holds is crowded: its ids become a range,
 * which is divided again or is dense enough for a table. This terminates, because a part has at
 * most half the ids of its range.
 *
 * Dimensions: P parts, H hands (threads).
 */
#include "sampler/build/id_rows.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/build/counting_sort.h"
#include "sampler/build/id_rows_private.h"

#define TABLE_WASTE 8 /* a table may have this many entries per id */
#define SMALL_RANGE ((uint64_t)1 << 20)
#define PARTS 65536        /* at most */
#define ROWS_PER_PART 4096 /* about */
#define DIGIT_BITS 8
#define DIGITS (1 << DIGIT_BITS)
/* The place of a crowded part: outside any window [first, first + count). */
#define NOWHERE ((uint64_t)1 << 63)

struct id_pair {
    uint64_t id; /* minus the range's first */
    uint64_t row;
};

struct id_pairs {
    struct id_rows *all;
    const struct id_range *range;
    size_t parts;
    unsigned part_bits;           /* log2 of a part's ids */
    struct counting_sort offsets; /* [H][P]: where a part's next pair goes */
    uint64_t *starts; /* owned; [parts + 1]: the parts' first places; NOWHERE: too crowded */
    uint64_t *counts; /* owned; [parts] */
    uint64_t most_pairs, most_in_part;
    uint64_t first, count;  /* places being made now */
    struct id_pair *pairs;  /* [count] */
    uint64_t most_spare;    /* rows of the largest part of these */
    struct id_pair *spares; /* [hands * most_spare], after the pairs */
    size_t *units;          /* owned; parts that begin a piece of the section */
    uint64_t pieces;        /* of the section, before this group */
    pthread_mutex_t lock;   /* guards the duplicate id */
    bool is_twice;
};

/* ---- count and place ---------------------------------------------------- */

static enum error count_ids(void *context, unsigned run, struct spool_cursor *cursor)
{
    struct id_pairs *sort = context;
    uint64_t first = sort->range->first, last = sort->range->last - first;
    uint64_t *counts = sort->offsets.next[run];
    const uint64_t *ids;
    size_t count = 0;
    enum error error = spool_cursor_next(cursor, &ids, &count);
    for (size_t i = 0; i < count; i++) {
        uint64_t at = ids[i] - first;
        if (at <= last)
            counts[at >> sort->part_bits]++;
    }
    return error;
}

static enum error place_ids(void *context, unsigned run, struct spool_cursor *cursor)
{
    struct id_pairs *sort = context;
    uint64_t first = sort->range->first, last = sort->range->last - first;
    uint64_t *next = sort->offsets.next[run];
    uint64_t row = cursor->row;
    const uint64_t *ids;
    size_t count = 0;
    enum error error = spool_cursor_next(cursor, &ids, &count);
    for (size_t i = 0; i < count; i++) {
        uint64_t at = ids[i] - first;
        if (at > last)
            continue;
        uint64_t place = next[at >> sort->part_bits]++ - sort->first;
        if (place < sort->count)
            sort->pairs[place] = (struct id_pair){.id = at, .row = row + i};
    }
    return error;
}

static void place_parts(struct id_pairs *sort)
{
    uint64_t place = 0;
    for (size_t part = 0; part < sort->parts; part++) {
        uint64_t count = counting_sort_count(&sort->offsets, part);
        bool is_crowded = count > sort->most_in_part;
        sort->counts[part] = count;
        sort->starts[part] = is_crowded ? NOWHERE : place;
        place += is_crowded ? 0 : count;
    }
    counting_sort_sum(&sort->offsets, sort->starts, NULL);
}

/* ---- sorting ------------------------------------------------------------ */

/* Sorts by one digit, stably. */
static void sort_digit(const struct id_pair *from, struct id_pair *to, size_t count, unsigned shift)
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

/* Returns where they end up: at `pairs` or at `spare`. */
static struct id_pair *sort_part(const struct id_pairs *sort, struct id_pair *pairs,
                                 struct id_pair *spare, size_t count)
{
    for (unsigned shift = 0; shift < sort->part_bits && count > 1; shift += DIGIT_BITS) {
        sort_digit(pairs, spare, count, shift);
        struct id_pair *sorted = spare;
        spare = pairs;
        pairs = sorted;
    }
    return pairs;
}

/* Rows of sorted pairs, packed at `to`, which may precede them. */
static void *pack_rows(const struct id_pair *pairs, size_t count, uint8_t *to, unsigned width)
{
    for (size_t i = 0; i < count; i++, to += width) {
        uint64_t row = pairs[i].row;
        memcpy(to, &row, width); /* little-endian */
    }
    return to;
}

/* Parts are started in order, so that the smallest duplicate id is found before all have ended. */
static enum error note_twice(struct id_pairs *sort, const struct id_pair *pair)
{
    struct id_twice *twice = sort->all->twice;
    uint64_t id = sort->range->first + pair[0].id;
    pthread_mutex_lock(&sort->lock);
    if (!sort->is_twice || id < twice->id)
        *twice = (struct id_twice){.id = id, .rows = {pair[0].row, pair[1].row}};
    sort->is_twice = true;
    pthread_mutex_unlock(&sort->lock);
    return ERROR_CONFLICT;
}

static enum error check_part(struct id_pairs *sort, const struct id_pair *pairs, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (pairs[i].id == pairs[i - 1].id)
            return note_twice(sort, &pairs[i - 1]);
    }
    return OK;
}

static enum error put_unit(void *context, unsigned hand, uint64_t unit)
{
    struct id_pairs *sort = context;
    struct id_pair *spare = sort->spares + hand * sort->most_spare;
    unsigned width = sort->all->writer->section->width;
    size_t part = sort->units[unit], end = sort->units[unit + 1];
    uint8_t *begin = (uint8_t *)(sort->pairs + (sort->starts[part] - sort->first));
    uint8_t *to = begin;
    enum error error = OK;
    for (; part < end; part++) {
        size_t count = (size_t)sort->counts[part];
        struct id_pair *pairs = sort->pairs + (sort->starts[part] - sort->first);
        pairs = sort_part(sort, pairs, spare, count);
        if (!error)
            error = check_part(sort, pairs, count);
        to = pack_rows(pairs, count, to, width);
    }
    enum error put =
        section_put(sort->all->writer, sort->pieces + unit, begin, (size_t)(to - begin));
    return error ? error : put;
}

/* ---- pairs, range by range ---------------------------------------------- */

static enum error write_range(struct id_rows *all, const struct id_range *range);

/* Divides parts [part, end) into pieces of the section; returns their number. */
static uint64_t cut_units(struct id_pairs *sort, size_t part, size_t end)
{
    uint64_t most = SECTION_PIECE_BYTES / sort->all->writer->section->width;
    uint64_t units = 0, rows = 0;
    sort->units[0] = part;
    sort->most_spare = 0;
    for (; part < end; part++) {
        if (sort->counts[part] > sort->most_spare)
            sort->most_spare = sort->counts[part];
        if (rows > 0 && rows + sort->counts[part] > most) {
            sort->units[++units] = part;
            rows = 0;
        }
        rows += sort->counts[part];
    }
    sort->units[++units] = end;
    return units;
}

static enum error sort_and_put(struct id_pairs *sort, uint64_t units)
{
    struct spool_team *team = &sort->all->team;
    struct team_work put = {.what = team->what, .parts = units, .work = put_unit, .context = sort};
    sort->pieces = sort->all->writer->pieces;
    enum error error = spool_team_read(team, sort->offsets.runs, place_ids, sort);
    return error ? error : team_run(&put, team->hands);
}

/* Writes parts [part, end), none of them crowded, with `rows` rows. */
static enum error write_parts(struct id_pairs *sort, size_t part, size_t end, uint64_t rows)
{
    struct spool_team *team = &sort->all->team;
    if (rows == 0)
        return OK;
    uint64_t units = cut_units(sort, part, end);
    size_t bytes = (rows + team->hands * sort->most_spare) * sizeof(*sort->pairs);
    sort->first = sort->starts[part];
    sort->count = rows;
    void *memory;
    enum error error = sort_arena_take(sort->all->arena, bytes, false, &memory);
    if (error)
        return error;
    sort->pairs = memory;
    sort->spares = sort->pairs + rows;
    error = sort_and_put(sort, units);
    counting_sort_rewind(&sort->offsets, sort->starts, NULL);
    return error;
}

static enum error write_crowded(struct id_pairs *sort, size_t part)
{
    struct id_range range = {.first = sort->range->first + ((uint64_t)part << sort->part_bits),
                             .rows = sort->counts[part]};
    uint64_t left = sort->range->last - range.first, ids = (uint64_t)1 << sort->part_bits;
    range.last = left < ids ? sort->range->last : range.first + ids - 1;
    return write_range(sort->all, &range);
}

/* Adjacent parts together, as many as fit at once. */
static enum error write_all(struct id_pairs *sort)
{
    enum error error = OK;
    for (size_t part = 0; part < sort->parts && !error;) {
        size_t begin = part;
        uint64_t rows = 0;
        if (sort->starts[part] == NOWHERE) {
            error = write_crowded(sort, part++);
            continue;
        }
        while (part < sort->parts && sort->starts[part] != NOWHERE &&
               rows + sort->counts[part] <= sort->most_pairs)
            rows += sort->counts[part++];
        error = write_parts(sort, begin, part, rows);
    }
    return error;
}

static void cut_range(struct id_pairs *sort)
{
    uint64_t ids = sort->range->last - sort->range->first; /* minus one */
    uint64_t rows = sort->most_in_part / 2 < ROWS_PER_PART ? sort->most_in_part / 2 : ROWS_PER_PART;
    uint64_t wanted = sort->range->rows / rows;
    wanted = wanted < 2 ? 2 : wanted < PARTS ? wanted : PARTS;
    while (ids >> sort->part_bits >= wanted && ids >> sort->part_bits > 0)
        sort->part_bits++;
    sort->parts = (size_t)(ids >> sort->part_bits) + 1;
}

static enum error allocate(struct id_pairs *sort)
{
    struct spool_team *team = &sort->all->team;
    sort->starts = array_new(sort->parts, sizeof(*sort->starts), team->what);
    sort->counts = array_new(sort->parts, sizeof(*sort->counts), team->what);
    sort->units = array_new(sort->parts + 1, sizeof(*sort->units), team->what);
    if (!sort->starts || !sort->counts || !sort->units)
        return ERROR_MEMORY;
    return counting_sort_init(&sort->offsets, team->hands, sort->parts);
}

static enum error id_pairs_write(struct id_rows *all, const struct id_range *range)
{
    struct spool_team *team = &all->team;
    struct id_pairs sort = {.all = all, .range = range, .lock = PTHREAD_MUTEX_INITIALIZER};
    /* Four fifths for pairs, one fifth for the spares. */
    sort.most_pairs = all->arena->limit_bytes / 5 * 4 / sizeof(struct id_pair);
    sort.most_in_part = sort.most_pairs / 4 / team->hands;
    cut_range(&sort);
    enum error error = allocate(&sort);
    if (!error)
        error = spool_team_read(team, sort.offsets.runs, count_ids, &sort);
    if (!error) {
        place_parts(&sort);
        error = write_all(&sort);
    }
    counting_sort_release(&sort.offsets);
    free(sort.starts);
    free(sort.counts);
    free(sort.units);
    pthread_mutex_destroy(&sort.lock);
    return error;
}

/* ---- pairs or a table --------------------------------------------------- */

static enum error write_range(struct id_rows *all, const struct id_range *range)
{
    uint64_t slots = range->last - range->first; /* minus one */
    return slots / TABLE_WASTE < range->rows || slots < SMALL_RANGE ? id_table_write(all, range)
                                                                    : id_pairs_write(all, range);
}

enum error id_rows_write(const struct spool *ids, uint64_t smallest, struct sort_arena *arena,
                         struct section_writer *writer, struct id_twice *ret_twice)
{
    struct id_rows all = {.arena = arena, .writer = writer, .twice = ret_twice};
    struct id_range range = {.first = smallest, .last = ids->largest, .rows = ids->rows};
    enum error error = spool_team_open(&all.team, ids, "sorting the ids");
    if (!error)
        error = write_range(&all, &range);
    spool_team_close(&all.team);
    return error;
}
