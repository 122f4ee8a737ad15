/* SPDX-License-Identifier: MIT */
/*
 * Identifies the source of a store's rows, and derives a 128-bit key from everything that decides
 * the rows' bytes: each file's name, size, inode, mtime and ctime; what the URI says of columns;
 * this program's version. A cache with the same key was made from the same bytes.
 *
 * Devices are left out, since a network file system's device number changes with each mount. File
 * times reveal a change unless they are so recent that another change could get the same ones;
 * `settled` says from when on they are not.
 */
#ifndef LOADER_CACHE_CACHE_KEY_H
#define LOADER_CACHE_CACHE_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"

#define CACHE_KEY_BYTES 16
#define CACHE_KEY_TEXT_BYTES (2 * CACHE_KEY_BYTES + 1)

/* Owned by the holder of the struct. */
struct cache_source {
    char *uri;                /* as given: one URI per line */
    struct buffer parameters; /* scheme and parameters of each URI, each NUL-terminated */
    struct buffer files;      /* their paths in the order of their rows, each NUL-terminated */
};

enum error cache_source_init(struct cache_source *source, const char *uri) MUST_CHECK;
/* Legal on a zeroed struct. */
void cache_source_release(struct cache_source *source);
enum error cache_source_add_parameters(struct cache_source *source, const char *text) MUST_CHECK;
enum error cache_source_add_file(struct cache_source *source, const char *path) MUST_CHECK;

struct cache_key {
    uint8_t bytes[CACHE_KEY_BYTES];
    int64_t settled_ns; /* since 1970 */
};

/* The key of the present state: one look at each file; a missing one is part of the key. */
enum error cache_key_make(const struct cache_source *source, struct cache_key *ret_key) MUST_CHECK;
bool cache_key_equal(const struct cache_key *a, const struct cache_key *b);
/* In hex; returns `out`. */
const char *cache_key_text(const struct cache_key *key, char out[CACHE_KEY_TEXT_BYTES]);

#endif
