/* SPDX-License-Identifier: MIT */
#include "loader/cache/cache_key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "config.h"

#include "common/file.h"

#define FORMAT "tombola row cache 1, " PACKAGE_VERSION
#define NAMES_LIMIT_BYTES ((size_t)256 << 20)
/* Two changes of a file may get the same time within a kernel tick, 10 ms at most, or within two
 * seconds on file systems that store seconds. */
#define FINE_NS 100000000LL
#define COARSE_NS 3000000000LL

/* ---- sources of rows ---------------------------------------------------- */

enum error cache_source_init(struct cache_source *source, const char *uri)
{
    *source = (struct cache_source){.uri = strdup(uri),
                                    .parameters = BUFFER_INIT(NAMES_LIMIT_BYTES),
                                    .files = BUFFER_INIT(NAMES_LIMIT_BYTES)};
    return source->uri ? OK : error_set_memory(strlen(uri), "a store's URI");
}

void cache_source_release(struct cache_source *source)
{
    free(source->uri);
    buffer_release(&source->parameters);
    buffer_release(&source->files);
    *source = (struct cache_source){.uri = NULL};
}

enum error cache_source_add_parameters(struct cache_source *source, const char *text)
{
    return buffer_add(&source->parameters, text, strlen(text) + 1);
}

enum error cache_source_add_file(struct cache_source *source, const char *path)
{
    return buffer_add(&source->files, path, strlen(path) + 1);
}

/* ---- keys --------------------------------------------------------------- */

/* The facts of a file that enter the key. */
struct facts {
    uint64_t is_there, size_bytes, inode;
    int64_t modified_ns, changed_ns;
};

static int64_t in_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

static void settle(const struct facts *facts, struct cache_key *key)
{
    int64_t newest =
        facts->modified_ns > facts->changed_ns ? facts->modified_ns : facts->changed_ns;
    newest += facts->changed_ns % 1000000000 == 0 ? COARSE_NS : FINE_NS;
    if (newest > key->settled_ns)
        key->settled_ns = newest;
}

static enum error add_file(const char *path, struct buffer *all, struct cache_key *key)
{
    struct stat status;
    struct facts facts = {.is_there = 0};
    char *real = file_real_path(path);
    if (!real)
        return ERROR_MEMORY;
    if (stat(path, &status) == 0) {
        facts = (struct facts){.is_there = 1,
                               .size_bytes = (uint64_t)status.st_size,
                               .inode = status.st_ino,
                               .modified_ns = in_ns(&status.st_mtim),
                               .changed_ns = in_ns(&status.st_ctim)};
        settle(&facts, key);
    } else if (errno != ENOENT) {
        free(real);
        return error_set_errno(ERROR_IO, errno, "cannot look at %s", path);
    }
    buffer_add(all, real, strlen(real) + 1);
    free(real);
    return buffer_add(all, &facts, sizeof(facts));
}

enum error cache_key_make(const struct cache_source *source, struct cache_key *ret_key)
{
    struct buffer all = BUFFER_INIT(2 * NAMES_LIMIT_BYTES);
    struct cache_key key = {.settled_ns = 0};
    const char *end = source->files.data + source->files.length;
    buffer_add(&all, FORMAT, sizeof(FORMAT));
    enum error error = buffer_add(&all, source->parameters.data, source->parameters.length);
    for (const char *path = source->files.data; path < end && !error; path += strlen(path) + 1)
        error = add_file(path, &all, &key);
    if (!error) {
        XXH128_canonical_t hash;
        XXH128_canonicalFromHash(&hash, XXH3_128bits(all.data, all.length));
        memcpy(key.bytes, hash.digest, sizeof(key.bytes));
        *ret_key = key;
    }
    buffer_release(&all);
    return error;
}

bool cache_key_equal(const struct cache_key *a, const struct cache_key *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

const char *cache_key_text(const struct cache_key *key, char out[CACHE_KEY_TEXT_BYTES])
{
    for (size_t i = 0; i < CACHE_KEY_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", key->bytes[i]);
    return out;
}
