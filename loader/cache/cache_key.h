/* SPDX-License-Identifier: MIT */
/*
 * What the rows of a store are read from, and the key of it: 128 bits of all that decides the rows'
 * bytes. Each file's name, size, inode, and times of its last change and of its last change of
 * status; what the URI says of columns; the version of this program. A file of the same key was
 * made of the same bytes.
 *
 * Devices are left out, since the number of a network file system changes with each mount. A change
 * is seen in a file's times if they are not so young that another one could get the same; `settled`
 * says from when on that is so.
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
    char *uri;                /* as given: one URI a line */
    struct buffer parameters; /* of each URI its scheme and what it says, each ended by a NUL */
    struct buffer files;      /* their paths in the order of their rows, each ended by a NUL */
};

enum error cache_source_init(struct cache_source *source, const char *uri) MUST_CHECK;
/* Legal when it was zeroed. */
void cache_source_release(struct cache_source *source);
enum error cache_source_add_parameters(struct cache_source *source, const char *text) MUST_CHECK;
enum error cache_source_add_file(struct cache_source *source, const char *path) MUST_CHECK;

struct cache_key {
    uint8_t bytes[CACHE_KEY_BYTES];
    int64_t settled_ns; /* since 1970 */
};

/* As things are now: one look at each file; one that is not there is part of the key. */
enum error cache_key_make(const struct cache_source *source, struct cache_key *ret_key) MUST_CHECK;
bool cache_key_equal(const struct cache_key *a, const struct cache_key *b);
/* In hex; returns `out`. */
const char *cache_key_text(const struct cache_key *key, char out[CACHE_KEY_TEXT_BYTES]);

#endif
