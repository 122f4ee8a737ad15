/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint token: a stream's progress as a text that a training run saves with its model. It
 * names the order, the position, and the positions below it that are not done (leased, or to be
 * drawn first). base64url (RFC 4648) without '=', of
 *
 *   "TMBLTOK" | the order's version, a digit |
 *   zigzag varints: N, M, seed, replacement, rows begin, rows end, split, position |
 *   digest, design, fields, each a varint length and bytes | varint count, and begin and length of
 *   each interval that is not done, begins as differences to the end before, varints |
 *   u64 XXH3-64 of all before, little-endian
 */
#ifndef SAMPLER_STREAM_CHECKPOINT_TOKEN_H
#define SAMPLER_STREAM_CHECKPOINT_TOKEN_H

#include <stddef.h>

#include "common/error.h"
#include "sampler/ledger/intervals.h"
#include "sampler/stream/stream_definition.h"

struct checkpoint_token {
    struct stream_definition definition; /* name, frame, epochs, tail and lease are not in it */
    struct stream_binding binding;
    int64_t position;
    struct intervals open; /* below the position, not done */
};

/* The caller frees *ret_text. */
enum error checkpoint_token_write(const struct checkpoint_token *token, char **ret_text) MUST_CHECK;
/* The caller calls checkpoint_token_release(). ERROR_INPUT: damaged, or not a token. */
enum error checkpoint_token_read(const char *text, struct checkpoint_token *ret_token) MUST_CHECK;
void checkpoint_token_release(struct checkpoint_token *token);

/* ERROR_CONFLICT names the differences between the token's order and this one. */
enum error checkpoint_token_check(const struct checkpoint_token *token,
                                  const struct stream_definition *definition,
                                  const struct stream_binding *binding) MUST_CHECK;

#endif
