/* SPDX-License-Identifier: MIT */
#include "loader/sqlite/sqlite_door.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
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

const struct source_door sqlite_door = {open_handle, close_handle, read_handle};
