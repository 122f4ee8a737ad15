/* SPDX-License-Identifier: MIT */
/*
 * A digest of a store's rows (id, label, weight, group and features of each), independent of the
 * kind of store and of the order of rows. XXH3-128 of each row, summed modulo 2^128 in two halves:
 * detects damage and mix-ups, does not resist forgery.
 */
#ifndef LOADER_STORE_CONTENT_DIGEST_H
#define LOADER_STORE_CONTENT_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "loader/store/store.h"

#define CONTENT_DIGEST_TEXT_BYTES 33 /* 32 hex digits and NUL */

struct content_digest {
    uint64_t low, high;
    struct buffer row; /* one row's keys */
};

void content_digest_init(struct content_digest *digest);
void content_digest_release(struct content_digest *digest);

/* Adds a block of a scan with SCAN_FEATURES. */
enum error content_digest_add(struct content_digest *digest, const struct store_info *info,
                              const struct store_block *block) MUST_CHECK;
/* ERROR_INPUT: it differs from the one recorded by import. */
enum error content_digest_check(const struct content_digest *digest,
                                const struct store_info *info) MUST_CHECK;
void content_digest_text(const struct content_digest *digest, char out[CONTENT_DIGEST_TEXT_BYTES]);

#endif
