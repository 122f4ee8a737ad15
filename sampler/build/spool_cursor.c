/* SPDX-License-Identifier: MIT */
/*
 * Chunks begin at the row where the rule ends, whichever that is: chunk k holds the rows from
 * rule_rows + k * SPOOL_CHUNK on.
 */
#include "sampler/build/spool_cursor.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/file.h"
#include "sampler/frame/packed.h"

static uint64_t rule_pieces(const struct spool *spool)
{
    return (spool->rule_rows + SPOOL_CHUNK - 1) / SPOOL_CHUNK;
}

uint64_t spool_pieces(const struct spool *spool)
{
    return rule_pieces(spool) + spool->chunk_count;
}

enum error spool_cursor_open(struct spool_cursor *cursor, const struct spool *spool)
{
    *cursor = (struct spool_cursor){.spool = spool};
    cursor->bytes = array_new(SPOOL_CHUNK, sizeof(uint64_t), spool->what);
    cursor->values = array_new(SPOOL_CHUNK, sizeof(uint64_t), spool->what);
    if (cursor->bytes && cursor->values)
        return OK;
    spool_cursor_close(cursor);
    return ERROR_MEMORY;
}

void spool_cursor_close(struct spool_cursor *cursor)
{
    free(cursor->bytes);
    free(cursor->values);
    cursor->bytes = NULL;
    cursor->values = NULL;
}

void spool_cursor_seek(struct spool_cursor *cursor, uint64_t piece)
{
    const struct spool *spool = cursor->spool;
    uint64_t ruled = rule_pieces(spool);
    uint64_t row =
        piece < ruled ? piece * SPOOL_CHUNK : spool->rule_rows + (piece - ruled) * SPOOL_CHUNK;
    cursor->row = row < spool->rows ? row : spool->rows;
}

/* *ret_value is the rule's next value, which then counts up for the returned number of rows, at
 * most `limit`. */
static size_t ruled_run(const struct spool_cursor *cursor, size_t limit, uint64_t *ret_value)
{
    const struct spool *spool = cursor->spool;
    uint64_t left = spool->rule_rows - cursor->row;
    uint64_t value = spool->is_round ? cursor->row : spool->rule_first + cursor->row;
    if (spool->is_round && spool->rule_period > 0) {
        value = cursor->row % spool->rule_period;
        left = left < spool->rule_period - value ? left : spool->rule_period - value;
    }
    *ret_value = value;
    return left < limit ? (size_t)left : limit;
}

/* Loads the cursor's current chunk. */
static enum error load(struct spool_cursor *cursor, struct packed *ret_view)
{
    const struct spool *spool = cursor->spool;
    const struct spool_chunk *chunk =
        &spool->chunks[(cursor->row - spool->rule_rows) / SPOOL_CHUNK];
    struct packed view = {.data = chunk->data, .count = chunk->count, .width = chunk->width};
    if (!view.data) {
        enum error error =
            file_read_at(spool->store->descriptor, "what was put aside", cursor->bytes,
                         (size_t)chunk->count * chunk->width, chunk->offset);
        if (error)
            return error;
        view.data = cursor->bytes;
    }
    *ret_view = view;
    return OK;
}

/* The next rows as numbers of one width: in place if they have it, else copied. Stored values are
 * not wider than that (spool_cursor_next32: as the caller guarantees). */
#define COPY(stored)                                \
    for (size_t i = 0; i < view.count; i++)         \
        values[i] = ((const stored *)view.data)[i]; \
    break

#define DEFINE_NEXT(name, number)                                                              \
    enum error name(struct spool_cursor *cursor, const number **ret_values, size_t *ret_count) \
    {                                                                                          \
        struct packed view = {.count = 0};                                                     \
        number *values = (number *)cursor->values;                                             \
        size_t count = 0;                                                                      \
        while (count < SPOOL_CHUNK && cursor->row < cursor->spool->rule_rows) {                \
            uint64_t value;                                                                    \
            size_t run = ruled_run(cursor, SPOOL_CHUNK - count, &value);                       \
            for (size_t i = 0; i < run; i++)                                                   \
                values[count + i] = (number)(value + i);                                       \
            count += run;                                                                      \
            cursor->row += run;                                                                \
        }                                                                                      \
        *ret_values = values;                                                                  \
        *ret_count = count;                                                                    \
        if (count > 0 || cursor->row == cursor->spool->rows)                                   \
            return OK;                                                                         \
        enum error error = load(cursor, &view);                                                \
        if (error)                                                                             \
            return error;                                                                      \
        switch (view.width) {                                                                  \
        case sizeof(number):                                                                   \
            *ret_values = view.data;                                                           \
            break;                                                                             \
        case 1:                                                                                \
            COPY(uint8_t);                                                                     \
        case 2:                                                                                \
            COPY(uint16_t);                                                                    \
        default:                                                                               \
            COPY(uint32_t);                                                                    \
        }                                                                                      \
        cursor->row += view.count;                                                             \
        *ret_count = view.count;                                                               \
        return OK;                                                                             \
    }

DEFINE_NEXT(spool_cursor_next, uint64_t)
DEFINE_NEXT(spool_cursor_next32, uint32_t)
