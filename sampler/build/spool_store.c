/* SPDX-License-Identifier: MIT */
#include "sampler/build/spool_store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"
#include "common/huge_memory.h"

#define ARENA_BYTES ((size_t)4 << 20)

void spool_store_init(struct spool_store *store, const char *beside, uint64_t memory_bytes)
{
    *store = (struct spool_store){.beside = beside, .memory_bytes = memory_bytes, .descriptor = -1};
}

void spool_store_release(struct spool_store *store)
{
    if (store->descriptor >= 0)
        close(store->descriptor);
    store->descriptor = -1;
    for (size_t i = 0; i < store->arena_count; i++)
        huge_memory_free(store->arenas[i], ARENA_BYTES);
    free(store->arenas);
    store->arenas = NULL;
    store->arena_count = store->arena_capacity = 0;
}

/* ---- memory ------------------------------------------------------------- */

static bool has_memory(const struct spool_store *store, size_t bytes)
{
    return !store->beside || store->memory_bytes >= ARENA_BYTES ||
           (store->arena_count > 0 && ARENA_BYTES - store->arena_used >= bytes);
}

static enum error add_arena(struct spool_store *store)
{
    enum error error =
        array_grow((void **)&store->arenas, &store->arena_capacity, store->arena_count + 1,
                   sizeof(*store->arenas), "columns of units");
    if (error)
        return error;
    void *arena = huge_memory_new(ARENA_BYTES, "columns of units");
    if (!arena)
        return ERROR_MEMORY;
    store->arenas[store->arena_count++] = arena;
    store->arena_used = 0;
    store->memory_bytes -= store->memory_bytes < ARENA_BYTES ? store->memory_bytes : ARENA_BYTES;
    return OK;
}

enum error spool_store_take(struct spool_store *store, size_t bytes, void **ret_data)
{
    enum error error = OK;
    bytes = (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
    *ret_data = NULL;
    if (!has_memory(store, bytes))
        return OK;
    if (store->arena_count == 0 || ARENA_BYTES - store->arena_used < bytes)
        error = add_arena(store);
    if (error)
        return error;
    *ret_data = (uint8_t *)store->arenas[store->arena_count - 1] + store->arena_used;
    store->arena_used += bytes;
    return OK;
}

/* ---- the file ----------------------------------------------------------- */

static enum error open_file(struct spool_store *store)
{
    if (store->descriptor >= 0)
        return OK;
    char *folder = strdup(store->beside);
    if (!folder)
        return error_set_memory(strlen(store->beside), "a folder's name");
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    const char *place = slash ? folder : ".";
    store->descriptor = file_open_unnamed(place);
    enum error error = OK;
    if (store->descriptor < 0)
        error = error_set_errno(ERROR_IO, errno, "cannot make a temporary file in %s", place);
    free(folder);
    return error;
}

enum error spool_store_write(struct spool_store *store, const void *data, size_t bytes,
                             const char *what, uint64_t *ret_offset)
{
    enum error error = open_file(store);
    for (size_t done = 0; done < bytes && !error;) {
        ssize_t put = pwrite(store->descriptor, (const uint8_t *)data + done, bytes - done,
                             (off_t)(store->file_bytes + done));
        if (put < 0 && errno != EINTR)
            error = error_set_errno(ERROR_IO, errno,
                                    "cannot put %s aside: byte %llu of a temporary file next to %s",
                                    what, (unsigned long long)store->file_bytes, store->beside);
        done += put > 0 ? (size_t)put : 0;
    }
    *ret_offset = store->file_bytes;
    store->file_bytes += bytes;
    return error;
}
