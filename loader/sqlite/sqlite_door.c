/* SPDX-License-Identifier: MIT */
#include "loader/sqlite/sqlite_door.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"

/* Followed by a file of the system's VFS. */
struct handle {
    sqlite3_filename name; /* with the bytes around it that the VFS expects */
    sqlite3_file *file;    /* directly after this struct */
};

static enum error refuse(const char *path)
{
    if (access(path, R_OK))
        return error_set_errno(ERROR_IO, errno, "cannot open %s", path);
    return error_set(ERROR_IO, "SQLite cannot open %s", path);
}

static void close_handle(void *context)
{
    struct handle *handle = context;
    if (handle->file->pMethods)
        handle->file->pMethods->xClose(handle->file);
    sqlite3_free_filename(handle->name);
    free(handle);
}

/* The VFS follows no link. */
static sqlite3_filename new_filename(const char *path)
{
    char *real = file_real_path(path);
    sqlite3_filename name = real ? sqlite3_create_filename(real, "", "", 0, NULL) : NULL;
    free(real);
    return name;
}

static enum error open_handle(const char *path, void **ret_handle)
{
    sqlite3_vfs *vfs = sqlite3_initialize() ? NULL : sqlite3_vfs_find(NULL);
    struct handle *handle =
        vfs ? array_new(1, sizeof(*handle) + (size_t)vfs->szOsFile, "an SQLite file") : NULL;
    if (!vfs)
        return error_set(ERROR_MEMORY, "SQLite cannot be started");
    if (!handle)
        return ERROR_MEMORY;
    handle->file = (sqlite3_file *)(void *)(handle + 1);
    handle->name = new_filename(path);
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
    int result =
        handle->name ? vfs->xOpen(vfs, handle->name, handle->file, flags, &flags) : SQLITE_NOMEM;
    if (result != SQLITE_OK) {
        close_handle(handle);
        return result == SQLITE_NOMEM ? error_set_memory(sizeof(*handle), "an SQLite file")
                                      : refuse(path);
    }
    *ret_handle = handle;
    return OK;
}

/* The system's own message for a failed read. */
static ssize_t fail(struct handle *handle)
{
    int reason = 0;
    handle->file->pMethods->xFileControl(handle->file, SQLITE_FCNTL_LAST_ERRNO, &reason);
    errno = reason ? reason : EIO;
    return -1;
}

static ssize_t read_handle(void *context, void *out, size_t bytes, uint64_t offset)
{
    struct handle *handle = context;
    sqlite3_int64 size = 0;
    int wanted = bytes < INT_MAX ? (int)bytes : INT_MAX;
    int result = handle->file->pMethods->xRead(handle->file, out, wanted, (sqlite3_int64)offset);
    if (result == SQLITE_OK)
        return wanted;
    if (result != SQLITE_IOERR_SHORT_READ ||
        handle->file->pMethods->xFileSize(handle->file, &size) != SQLITE_OK)
        return fail(handle);
    return size > (sqlite3_int64)offset ? (ssize_t)(size - (sqlite3_int64)offset) : 0;
}

#define MAPPED_BYTES 65536 /* by SQLite, for a moment */

/* SQLite maps the start of the file by its own descriptor. mremap(2) of an old size of 0 copies a
 * mapping, also to a larger one. Without a mapping of its own SQLite reads by pread(2) again. */
void *sqlite_door_map(void *context, size_t bytes)
{
    sqlite3_file *file = ((struct handle *)context)->file;
    const sqlite3_io_methods *methods = file->pMethods;
    sqlite3_int64 limit = MAPPED_BYTES, none = 0;
    void *begin = NULL, *copy = MAP_FAILED;
    if (methods->iVersion < 3 ||
        methods->xFileControl(file, SQLITE_FCNTL_MMAP_SIZE, &limit) != SQLITE_OK)
        return NULL;
    if (methods->xFetch(file, 0, 1, &begin) == SQLITE_OK && begin) {
        copy = mremap(begin, 0, bytes, MREMAP_MAYMOVE);
        methods->xUnfetch(file, 0, begin);
    }
    methods->xFileControl(file, SQLITE_FCNTL_MMAP_SIZE, &none);
    return copy == MAP_FAILED ? NULL : copy;
}

const struct source_door sqlite_door = {open_handle, close_handle, read_handle};
