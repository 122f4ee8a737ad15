/* SPDX-License-Identifier: MIT */
/*
 * Everything that POST /streams, or the options of `serve` for `default`, says about a stream. A
 * value; only `fields` is allocated.
 */
#ifndef SAMPLER_STREAM_STREAM_DEFINITION_H
#define SAMPLER_STREAM_STREAM_DEFINITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "sampler/frame/split.h"
#include "sampler/order/batching.h"

#define STREAM_NAME_BYTES 65 /* with its NUL */
#define DESIGN_NAME_BYTES 32
#define STREAM_LEASE_LEAST_MS 1
#define STREAM_LEASE_MOST_MS INT64_C(31536000000) /* a year */

struct stream_definition {
    char name[STREAM_NAME_BYTES];
    char frame[STREAM_NAME_BYTES];
    char design[DESIGN_NAME_BYTES];
    bool replacement;
    uint64_t seed;  /* 0 to 2^63-1 */
    int64_t epochs; /* 0: without end */
    enum tail tail;
    int64_t lease_ms;             /* 0: adaptive */
    int64_t rows_begin, rows_end; /* 0 and 0: all */
    enum split split;
    char *fields; /* owned: the design's fields as canonical JSON, {"p":2,"k":8}; "" for none */
};

/* Is it 1 to 64 characters of [A-Za-z0-9._-]? */
bool stream_name_is_valid(const char *name);

/* A random seed. ERROR_IO. */
enum error stream_seed_draw(uint64_t *ret_seed) MUST_CHECK;

void stream_definition_release(struct stream_definition *definition);
/* The caller releases *ret_copy. */
enum error stream_definition_copy(const struct stream_definition *definition,
                                  struct stream_definition *ret_copy) MUST_CHECK;

/* What an order depends on: its positions are meaningless for any other binding. */
struct stream_binding {
    char digest[33];         /* of the frame after rows and split, in hex */
    int64_t units;           /* N, for messages */
    int64_t epoch_positions; /* M */
    int64_t order_version;   /* ORDER_VERSION of the program that computed it */
};

/* A definition and its binding as one JSON text, and back: the form in which the journal stores
 * them. ERROR_INPUT: `text` is something else. */
enum error stream_definition_write(const struct stream_definition *definition,
                                   const struct stream_binding *binding,
                                   struct buffer *buffer) MUST_CHECK;
enum error stream_definition_read(const char *text, size_t length,
                                  struct stream_definition *ret_definition,
                                  struct stream_binding *ret_binding) MUST_CHECK;

/* Appends the differences between the two orders, "; seed 1 there, 2 here" for each; nothing if
 * they are the same. Names `rows` and `split` only if the digests differ. */
enum error stream_definition_compare(const struct stream_definition *there,
                                     const struct stream_binding *there_binding,
                                     const struct stream_definition *here,
                                     const struct stream_binding *here_binding,
                                     struct buffer *differences) MUST_CHECK;

#endif
