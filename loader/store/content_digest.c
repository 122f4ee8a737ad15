/* SPDX-License-Identifier: MIT */
#include "loader/store/content_digest.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define KEYS_LIMIT_BYTES ((size_t)256 << 20)

void content_digest_init(struct content_digest *digest)
{
    *digest = (struct content_digest){.row = BUFFER_INIT(KEYS_LIMIT_BYTES)};
}

void content_digest_release(struct content_digest *digest)
{
    buffer_release(&digest->row);
}

static void add_text(struct buffer *row, const struct text *text)
{
    uint64_t length = text->length;
    buffer_add(row, &length, sizeof(length));
    buffer_add(row, text->data, text->length);
}

static enum error add_row(struct content_digest *digest, const struct store_block *block, size_t i,
                          const void *features, size_t row_bytes)
{
    static const struct text nothing = {.data = "", .length = 0};
    double weight = (block->weights ? block->weights[i] : 1) + 0.0; /* SQLite keeps -0 as 0 */
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(features, row_bytes));
    buffer_clear(&digest->row);
    buffer_add(&digest->row, &block->ids[i], sizeof(block->ids[i]));
    add_text(&digest->row, &block->labels[i]);
    buffer_add(&digest->row, &weight, sizeof(weight));
    add_text(&digest->row, block->groups ? &block->groups[i] : &nothing);
    enum error error = buffer_add(&digest->row, &hash, sizeof(hash));
    if (error)
        return error;
    XXH128_hash_t sum = XXH3_128bits(digest->row.data, digest->row.length);
    digest->low += sum.low64;
    digest->high += sum.high64;
    return OK;
}

enum error content_digest_add(struct content_digest *digest, const struct store_info *info,
                              const struct store_block *block)
{
    const uint8_t *features = block->features;
    enum error error = OK;
    for (size_t i = 0; i < block->rows && !error; i++) {
        size_t bytes = store_block_row_bytes(block, i, info);
        error = add_row(digest, block, i, features, bytes);
        features += bytes;
    }
    return error;
}

enum error content_digest_check(const struct content_digest *digest, const struct store_info *info)
{
    char text[CONTENT_DIGEST_TEXT_BYTES];
    content_digest_text(digest, text);
    if (!info->digest || strcmp(info->digest, text) == 0)
        return OK;
    return error_set(ERROR_INPUT, "%s %s: its rows have the digest %s, import noted %s", info->uri,
                     info->digest_may_be_old ? "was written to since it was imported"
                                             : "is damaged",
                     text, info->digest);
}

void content_digest_text(const struct content_digest *digest, char out[CONTENT_DIGEST_TEXT_BYTES])
{
    snprintf(out, CONTENT_DIGEST_TEXT_BYTES, "%016llx%016llx", (unsigned long long)digest->high,
             (unsigned long long)digest->low);
}
