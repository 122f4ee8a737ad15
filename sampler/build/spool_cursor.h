/* SPDX-License-Identifier: MIT */
/*
 * Reads a spool, from the front or from any piece, any number of times: values are borrowed in
 * place if they have the requested width. A cursor belongs to one thread.
 */
#ifndef SAMPLER_BUILD_SPOOL_CURSOR_H
#define SAMPLER_BUILD_SPOOL_CURSOR_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/build/spool.h"

/* A cursor returns one piece at a time: at most SPOOL_CHUNK rows, as determined by the row numbers
 * alone. */
uint64_t spool_pieces(const struct spool *spool);

struct spool_cursor {
    const struct spool *spool;
    uint64_t row;     /* of the next value */
    uint8_t *bytes;   /* owned; a chunk as stored in the file */
    uint64_t *values; /* owned; a piece that is widened, or generated from the rule */
};

enum error spool_cursor_open(struct spool_cursor *cursor, const struct spool *spool) MUST_CHECK;
/* Legal for a zeroed one. */
void spool_cursor_close(struct spool_cursor *cursor);

/* The next values, borrowed until the next call; *ret_count 0 at the end. */
enum error spool_cursor_next(struct spool_cursor *cursor, const uint64_t **ret_values,
                             size_t *ret_count) MUST_CHECK;
/* The same in 32 bits, for columns that fit (spool.largest). */
enum error spool_cursor_next32(struct spool_cursor *cursor, const uint32_t **ret_values,
                               size_t *ret_count) MUST_CHECK;
/* Moves to the beginning of a piece: 0 is the front, spool_pieces() the end. */
void spool_cursor_seek(struct spool_cursor *cursor, uint64_t piece);

#endif
