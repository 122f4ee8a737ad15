/* SPDX-License-Identifier: MIT */
/*
 * The sides of a split: train, validation, test, by the shares of --splits.
 *
 * A unit's side is a pure function of the shares and of its group's text if the frame has groups,
 * else of its id: not of seed, row or number of units. So a unit keeps its side when the frame
 * grows or comes from another store, and groups are never divided. Each label gets its shares up to
 * the randomness of hashing.
 *
 *   point   a hash in [0, 2^63): of an id, random_at(key, id) / 2 with the key that random_key_at()
 *           makes of {0, 0} and the bytes "tmblsplt" as a number; of a group, XXH3-64 of its text
 *           with that key's first half as seed, / 2
 *   train   point < train * 2^63;  validation  point < (train + validation) * 2^63;  test  the rest
 *
 * This is a published contract: it never changes.
 */
#ifndef SAMPLER_FRAME_SPLIT_H
#define SAMPLER_FRAME_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/shuffle/random.h"

enum split { SPLIT_NONE, SPLIT_TRAIN, SPLIT_VALIDATION, SPLIT_TEST };

/* Each from 0 to 1, with a sum of 1 within 1e-9. */
struct split_shares {
    double train, validation, test;
};

/* Parses "0.8,0.1,0.1". ERROR_USAGE says what is right. */
enum error split_shares_parse(const char *text, struct split_shares *ret_shares) MUST_CHECK;

/* "train", "validation", "test"; "" for SPLIT_NONE. */
const char *split_name(enum split split);
/* ERROR_USAGE for any other word. */
enum error split_of_name(const char *name, enum split *ret_split) MUST_CHECK;
double split_share(const struct split_shares *shares, enum split split);

/* The points of one side: [begin, end). */
struct split_span {
    uint64_t begin, end;
    struct random_key key;
};

void split_span_init(struct split_span *span, const struct split_shares *shares, enum split split);

static inline bool split_span_has_id(const struct split_span *span, int64_t id)
{
    uint64_t point = random_at(span->key, (uint64_t)id) >> 1;
    return point - span->begin < span->end - span->begin;
}

bool split_span_has_text(const struct split_span *span, const char *text);

#endif
