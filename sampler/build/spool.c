/* SPDX-License-Identifier: MIT */
#include "sampler/build/spool.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/frame/packed.h"

enum error spool_init(struct spool *spool, struct spool_store *store, bool is_round,
                      const char *what)
{
    *spool = (struct spool){.store = store, .what = what, .is_round = is_round};
    spool->open = array_new(SPOOL_CHUNK, sizeof(*spool->open), what);
    return spool->open ? OK : ERROR_MEMORY;
}

void spool_release(struct spool *spool)
{
    free(spool->chunks);
    free(spool->open);
    free(spool->narrowed);
    *spool = (struct spool){.rows = 0};
}

static void narrow(void *to, unsigned width, const uint64_t *values, size_t count)
{
    switch (width) {
    case 1:
        for (size_t i = 0; i < count; i++)
            ((uint8_t *)to)[i] = (uint8_t)values[i];
        break;
    case 2:
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)to)[i] = (uint16_t)values[i];
        break;
    case 4:
        for (size_t i = 0; i < count; i++)
            ((uint32_t *)to)[i] = (uint32_t)values[i];
        break;
    default:
        memcpy(to, values, count * sizeof(*values));
    }
}

static enum error write_chunk(struct spool *spool, struct spool_chunk *chunk,
                              const uint64_t *values)
{
    size_t bytes = (size_t)chunk->count * chunk->width;
    if (!spool->narrowed)
        spool->narrowed = array_new(SPOOL_CHUNK, sizeof(uint64_t), spool->what);
    if (!spool->narrowed)
        return ERROR_MEMORY;
    narrow(spool->narrowed, chunk->width, values, chunk->count);
    return spool_store_write(spool->store, spool->narrowed, bytes, spool->what, &chunk->offset);
}

static enum error place_chunk(struct spool *spool, struct spool_chunk *chunk,
                              const uint64_t *values)
{
    size_t bytes = (size_t)chunk->count * chunk->width;
    enum error error = spool_store_take(spool->store, bytes, &chunk->data);
    if (error)
        return error;
    if (!chunk->data)
        return write_chunk(spool, chunk, values);
    narrow(chunk->data, chunk->width, values, chunk->count);
    return OK;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Four at a time, so that they do not wait for each other. */
static uint64_t largest_of(const uint64_t *values, size_t count)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;
    size_t i = 0;
    for (; count - i >= 4; i += 4) {
        a = larger(a, values[i]);
        b = larger(b, values[i + 1]);
        c = larger(c, values[i + 2]);
        d = larger(d, values[i + 3]);
    }
    for (; i < count; i++)
        a = larger(a, values[i]);
    return larger(larger(a, b), larger(c, d));
}

static void note_largest(struct spool *spool, uint64_t value)
{
    spool->largest = larger(value, spool->largest);
}

static enum error add_chunk(struct spool *spool, const uint64_t *values, size_t count)
{
    enum error error = array_grow((void **)&spool->chunks, &spool->chunk_capacity,
                                  spool->chunk_count + 1, sizeof(*spool->chunks), spool->what);
    if (error)
        return error;
    uint64_t largest = largest_of(values, count);
    struct spool_chunk chunk = {.count = (uint32_t)count, .width = packed_width(largest)};
    error = place_chunk(spool, &chunk, values);
    if (error)
        return error;
    note_largest(spool, largest);
    spool->chunks[spool->chunk_count++] = chunk;
    return OK;
}

static enum error close_chunk(struct spool *spool)
{
    size_t count = spool->open_count;
    spool->open_count = 0;
    return count > 0 ? add_chunk(spool, spool->open, count) : OK;
}

/* How many of `values` follow the rule of the first rows. */
static size_t follow_count(struct spool *spool, const uint64_t *values, size_t count)
{
    size_t done = 0;
    if (spool->rows == 0)
        spool->rule_first = values[0];
    uint64_t expected = spool->rule_first + spool->rule_rows;
    while (done < count && values[done] == expected + done)
        done++;
    return done;
}

static size_t follow_round(struct spool *spool, const uint64_t *values, size_t count)
{
    size_t done = 0;
    uint64_t rows = spool->rule_rows;
    while (done < count && spool->rule_period == 0) { /* the first round: each value is new */
        if (values[done] == rows + done)
            done++;
        else if (values[done] == 0)
            spool->rule_period = rows + done;
        else
            return done;
    }
    if (done == count)
        return done;
    uint64_t expected = (rows + done) % spool->rule_period;
    while (done < count && values[done] == expected) {
        expected = expected + 1 == spool->rule_period ? 0 : expected + 1;
        done++;
    }
    return done;
}

static size_t follow_rule(struct spool *spool, const uint64_t *values, size_t count)
{
    if (spool->rule_rows < spool->rows)
        return 0;
    size_t done =
        spool->is_round ? follow_round(spool, values, count) : follow_count(spool, values, count);
    spool->rule_rows += done;
    return done;
}

/* Whole chunks are not copied. */
enum error spool_add(struct spool *spool, const uint64_t *values, size_t count)
{
    enum error error = OK;
    if (count == 0)
        return OK;
    size_t done = follow_rule(spool, values, count);
    note_largest(spool, largest_of(values, done));
    while (done < count && !error) {
        size_t room = SPOOL_CHUNK - spool->open_count;
        size_t step = count - done < room ? count - done : room;
        if (step == SPOOL_CHUNK) {
            error = add_chunk(spool, values + done, step);
        } else {
            memcpy(spool->open + spool->open_count, values + done, step * sizeof(*values));
            spool->open_count += step;
            if (step == room)
                error = close_chunk(spool);
        }
        done += step;
    }
    spool->rows += count;
    return error;
}

enum error spool_finish(struct spool *spool)
{
    enum error error = close_chunk(spool);
    free(spool->open);
    free(spool->narrowed);
    spool->open = NULL;
    spool->narrowed = NULL;
    return error;
}
