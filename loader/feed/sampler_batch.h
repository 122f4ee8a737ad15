/* SPDX-License-Identifier: MIT */
/*
 * The binary batch, format=binary of GET /batch: little-endian. The one definition of its header;
 * the sampler writes it, the loader parses it.
 *
 *   8 bytes "TMBLBAT1" | i64 epoch | i64 first | u32 n | u32 flags = 0 | i64 ids[n] | u32 labels[n]
 *
 * and, one after the other, those of batches=, each with its lease and a multiple of 8 bytes long:
 *
 *   8 bytes "TMBLBAT1" | i64 epoch | i64 first | u32 n | u32 flags = 1
 *   | i64 seq | i64 attempt | i64 expires_ms | i64 ids[n] | u32 labels[n] | 0 or 4 zeros
 *
 * Parsing copies nothing: the arrays point into the bytes.
 */
#ifndef LOADER_FEED_SAMPLER_BATCH_H
#define LOADER_FEED_SAMPLER_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct sampler_batch_header {
    char magic[8]; /* SAMPLER_BATCH_MAGIC */
    int64_t epoch, first;
    uint32_t rows, flags; /* flags: 0, or SAMPLER_BATCH_LISTED */
};
#define SAMPLER_BATCH_MAGIC "TMBLBAT1"
#define SAMPLER_BATCH_LISTED 1
#define SAMPLER_BATCH_HEADER_BYTES sizeof(struct sampler_batch_header)
_Static_assert(SAMPLER_BATCH_HEADER_BYTES == 32, "the header has no holes");
#define SAMPLER_BATCH_UNIT_BYTES 12
/* A sampler sends no more units at once. */
#define SAMPLER_BATCH_ROWS_LIMIT 1000000

struct sampler_lease {
    int64_t seq;        /* the worker's number for it */
    int64_t attempt;    /* above 1: redelivered; 0: not leased */
    int64_t expires_ms; /* from the response on */
};
_Static_assert(sizeof(struct sampler_lease) == 24, "it stands so in a batch that is listed");

/* Where the ids begin, and the total length. */
static inline size_t sampler_batch_ids_at(bool listed)
{
    return SAMPLER_BATCH_HEADER_BYTES + (listed ? sizeof(struct sampler_lease) : 0);
}
static inline size_t sampler_batch_bytes(size_t rows, bool listed)
{
    size_t bytes = sampler_batch_ids_at(listed) + rows * SAMPLER_BATCH_UNIT_BYTES;
    return listed ? (bytes + 7) / 8 * 8 : bytes;
}

struct sampler_batch {
    int64_t epoch, first;   /* first + rows does not overflow */
    size_t rows;            /* n, 1 to SAMPLER_BATCH_ROWS_LIMIT */
    const int64_t *ids;     /* [rows], borrowed */
    const uint32_t *labels; /* [rows], borrowed: numbers into GET /labels */
    struct sampler_lease lease;
};

/* Parses exactly one batch. `bytes` must be 8-byte aligned. ERROR_INPUT says which field is wrong,
 * its value and what is expected: another magic, unknown flags, a length that is not 32 + 12 n, no
 * units or too many, a negative epoch, first or id, a last position beyond 2^63-1. Allocates
 * nothing. */
enum error sampler_batch_parse(const void *bytes, size_t length,
                               struct sampler_batch *ret_batch) MUST_CHECK;
/* Parses the first of the batches listed in `bytes`; *ret_used is its length: the next one begins
 * there. ERROR_INPUT as above, and for a lease with a negative seq or deadline, or an attempt below
 * 1. */
enum error sampler_batch_parse_listed(const void *bytes, size_t length,
                                      struct sampler_batch *ret_batch, size_t *ret_used) MUST_CHECK;

#endif
