/* SPDX-License-Identifier: MIT */
/*
 * Formats a batch in the three formats of GET /batch:
 *
 *   json    {"stream":"default","epoch":0,"first":0,"size":2,"ids":[7,3],"labels":[1,0]}
 *           and what belongs to a lease, to skipped positions, to weights=1
 *   csv     id,label\n7,1\n3,0\n, with two more columns for weights=1
 *   binary  little-endian (loader/feed/sampler_batch.h)
 *
 * and several batches in one response, for batches=: {"batches":[BATCH,BATCH]}, or binary batches
 * concatenated, each with its lease.
 *
 * Pure functions that write to the caller's buffer; nothing is allocated.
 *
 * Dimensions: B units of the batch, L labels.
 */
#ifndef SAMPLER_BATCH_BATCH_FORMAT_H
#define SAMPLER_BATCH_BATCH_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/feed/sampler_batch.h"
#include "sampler/frame/label_texts.h"

enum batch_format { BATCH_FORMAT_JSON, BATCH_FORMAT_CSV, BATCH_FORMAT_BINARY };
#define BATCH_FORMATS 3

/* "json", "csv", "binary". */
const char *batch_format_name(enum batch_format format);
/* "application/json" and so on. */
const char *batch_format_content_type(enum batch_format format);

struct batch_response {
    const char *stream; /* a valid name: letters, digits, '.', '_', '-' */
    int64_t epoch;
    int64_t first;
    int64_t positions; /* covered by the batch; written if `tells_span` */
    bool tells_span;
    size_t size;                 /* B */
    const int64_t *ids;          /* [B], each >= 0 */
    const uint32_t *labels;      /* [B], label numbers, each < L */
    const double *probabilities; /* [B], each > 0; NULL: without weights */
    const char *worker;          /* a valid name; NULL: no lease */
    int64_t seq;                 /* if there is a worker */
    int64_t expires_ms;          /* the same */
    int64_t attempt;             /* 0: not written */
    bool redelivered;
    bool listed; /* one of several: a binary batch then contains its lease; not for csv */
};

/* Bytes that batch_format_write() may touch; at least 1. */
size_t batch_format_bound_bytes(const struct label_texts *texts,
                                const struct batch_response *response, enum batch_format format);
/* Writes the response at `out`; returns its length. For a binary one, ids and labels may already be
 * in place, in that order after the header. */
size_t batch_format_write(const struct label_texts *texts, const struct batch_response *response,
                          enum batch_format format, char *out);

/* The text before batch number `number` of a list, and after the last; returns the length, at most
 * BATCH_LIST_BYTES. */
#define BATCH_LIST_BYTES 16
size_t batch_list_begin(size_t number, enum batch_format format, char *out);
size_t batch_list_end(enum batch_format format, char *out);

#endif
