/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint token: what of a stream is done, as a text that a training run saves beside its
 * model. It names the order it belongs to, the position, and which positions below it are not done
 * (leased, or to be drawn first). base64url (RFC 4648) without '=', of
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
/* checkpoint_token_release() it. ERROR_INPUT: damaged, or no token. */
enum error checkpoint_token_read(const char *text, struct checkpoint_token *ret_token) MUST_CHECK;
void checkpoint_token_release(struct checkpoint_token *token);

/* ERROR_CONFLICT names what makes the token's order another one than this. */
enum error checkpoint_token_check(const struct checkpoint_token *token,
                                  const struct stream_definition *definition,
                                  const struct stream_binding *binding) MUST_CHECK;

#endif
