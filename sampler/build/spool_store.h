/* SPDX-License-Identifier: MIT */
/*
 * Shared by several spools: the memory that they may fill, and the unnamed overflow file. One
 * thread writes.
 */
#ifndef SAMPLER_BUILD_SPOOL_STORE_H
#define SAMPLER_BUILD_SPOOL_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct spool_store {
    const char *beside;    /* borrowed: the file is created in its folder; NULL: memory only */
    uint64_t memory_bytes; /* that are left */
    int descriptor;        /* -1: no file yet */
    uint64_t file_bytes;
    void **arenas; /* owned; hold the chunks in memory */
    size_t arena_count, arena_capacity;
    size_t arena_used; /* bytes of the last one */
};

void spool_store_init(struct spool_store *store, const char *beside, uint64_t memory_bytes);
/* Frees the memory and closes the file, which deletes it. After all spools. */
void spool_store_release(struct spool_store *store);

/* `bytes` of memory until the release; *ret_data NULL: there is none left. */
enum error spool_store_take(struct spool_store *store, size_t bytes, void **ret_data) MUST_CHECK;
/* Appends to the file; ERROR_NO_SPACE and ERROR_IO name `what`. */
enum error spool_store_write(struct spool_store *store, const void *data, size_t bytes,
                             const char *what, uint64_t *ret_offset) MUST_CHECK;

#endif
