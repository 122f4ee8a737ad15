/* SPDX-License-Identifier: MIT */
#include "loader/sqlite/sqlite_vfs.h"

#include <pthread.h>
#include <string.h>

#include "loader/sqlite/sqlite_door.h"

#define NAME_LIMIT_BYTES 4096

static const char vfs_name[] = "tombola";

struct vfs_file {
    sqlite3_file base; /* first */
    struct source_file source;
    struct error_report failure;
    struct sqlite_pages *pages; /* borrowed; NULL: none */
};

static int file_close(sqlite3_file *base)
{
    source_file_close(&((struct vfs_file *)base)->source);
    return SQLITE_OK;
}

static int note_failure(struct vfs_file *file, enum error error, int result)
{
    error_report_take(error, &file->failure);
    return result;
}

/* Bytes after the end read as zeros, and SQLite gets a short read. */
static int file_read(sqlite3_file *base, void *out, int bytes, sqlite3_int64 offset)
{
    struct vfs_file *file = (struct vfs_file *)base;
    sqlite3_int64 size = (sqlite3_int64)file->source.identity.size_bytes;
    sqlite3_int64 there = offset < size ? size - offset : 0;
    if (there > bytes)
        there = bytes;
    if (file->pages && sqlite_pages_copy(file->pages, out, (size_t)bytes, (uint64_t)offset))
        return SQLITE_OK;
    if (there > 0) {
        enum error error = source_file_read(&file->source, out, (size_t)there, (uint64_t)offset);
        if (error)
            return note_failure(file, error, SQLITE_IOERR_READ);
    }
    if (there == bytes)
        return SQLITE_OK;
    memset((char *)out + there, 0, (size_t)(bytes - there));
    return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *base, const void *bytes, int length, sqlite3_int64 offset)
{
    (void)base;
    (void)bytes;
    (void)length;
    (void)offset;
    return SQLITE_READONLY;
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 length)
{
    (void)base;
    (void)length;
    return SQLITE_READONLY;
}

static int file_size(sqlite3_file *base, sqlite3_int64 *ret_size)
{
    *ret_size = (sqlite3_int64)((struct vfs_file *)base)->source.identity.size_bytes;
    return SQLITE_OK;
}

static int file_flags_to_ok(sqlite3_file *base, int flags)
{
    (void)base;
    (void)flags;
    return SQLITE_OK;
}

static int file_is_reserved(sqlite3_file *base, int *ret_reserved)
{
    (void)base;
    *ret_reserved = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *base, int operation, void *argument)
{
    (void)base;
    (void)operation;
    (void)argument;
    return SQLITE_NOTFOUND;
}

static int file_sector_size(sqlite3_file *base)
{
    (void)base;
    return 4096;
}

static int file_characteristics(sqlite3_file *base)
{
    (void)base;
    return SQLITE_IOCAP_IMMUTABLE;
}

/* NULL: SQLite reads the page. */
static int file_fetch(sqlite3_file *base, sqlite3_int64 offset, int bytes, void **ret_page)
{
    struct vfs_file *file = (struct vfs_file *)base;
    *ret_page =
        file->pages ? sqlite_pages_borrow(file->pages, (uint64_t)offset, (size_t)bytes) : NULL;
    return SQLITE_OK;
}

/* NULL: SQLite is about to change the file, or to close it. */
static int file_unfetch(sqlite3_file *base, sqlite3_int64 offset, void *page)
{
    (void)offset;
    if (page)
        sqlite_pages_put(((struct vfs_file *)base)->pages);
    return SQLITE_OK;
}

/* 3: with xFetch. The methods of version 2 are for a log (WAL), which an immutable file lacks. */
static const sqlite3_io_methods file_methods = {
    .iVersion = 3,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_flags_to_ok,
    .xFileSize = file_size,
    .xLock = file_flags_to_ok,
    .xUnlock = file_flags_to_ok,
    .xCheckReservedLock = file_is_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xFetch = file_fetch,
    .xUnfetch = file_unfetch,
};

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *base, int flags,
                    int *ret_flags)
{
    struct vfs_file *file = (struct vfs_file *)base;
    (void)vfs;
    *file = (struct vfs_file){.source = {.descriptor = -1}}; /* no methods: not to be closed */
    if (!path || !(flags & SQLITE_OPEN_MAIN_DB) || !(flags & SQLITE_OPEN_READONLY))
        return SQLITE_CANTOPEN;
    enum error error = source_file_open_by(&file->source, &sqlite_door, path, NULL);
    if (error)
        return error == ERROR_MEMORY ? SQLITE_NOMEM : SQLITE_CANTOPEN;
    file->base.pMethods = &file_methods;
    if (ret_flags)
        *ret_flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync_folder)
{
    (void)vfs;
    (void)path;
    (void)sync_folder;
    return SQLITE_READONLY;
}

/* sqlite_file_check() has checked for journals before. */
static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *ret_there)
{
    (void)vfs;
    (void)path;
    (void)flags;
    *ret_there = 0;
    return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *path, int bytes, char *out)
{
    size_t length = strlen(path);
    (void)vfs;
    if (length >= (size_t)bytes)
        return SQLITE_CANTOPEN;
    memcpy(out, path, length + 1);
    return SQLITE_OK;
}

static sqlite3_vfs own_vfs;
static bool registered;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Time and randomness are the system's. It stays registered: libtombola is never unloaded. */
static void register_vfs(void)
{
    const sqlite3_vfs *system = sqlite3_vfs_find(NULL);
    if (!system)
        return;
    own_vfs = *system;
    own_vfs.pNext = NULL;
    own_vfs.szOsFile = sizeof(struct vfs_file);
    own_vfs.mxPathname = NAME_LIMIT_BYTES;
    own_vfs.zName = vfs_name;
    own_vfs.xOpen = vfs_open;
    own_vfs.xDelete = vfs_delete;
    own_vfs.xAccess = vfs_access;
    own_vfs.xFullPathname = vfs_full_path;
    registered = sqlite3_vfs_register(&own_vfs, 0) == SQLITE_OK;
}

const char *sqlite_vfs_name(void)
{
    pthread_once(&once, register_vfs);
    if (registered)
        return vfs_name;
    error_set(ERROR_MEMORY, "SQLite cannot be started");
    return NULL;
}

static struct vfs_file *file_of(sqlite3 *connection)
{
    sqlite3_file *base = NULL;
    if (!connection ||
        sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &base) != SQLITE_OK ||
        !base || base->pMethods != &file_methods)
        return NULL;
    return (struct vfs_file *)base;
}

struct source_file *sqlite_vfs_file(sqlite3 *connection)
{
    struct vfs_file *file = file_of(connection);
    return file ? &file->source : NULL;
}

void sqlite_vfs_use_pages(sqlite3 *connection, struct sqlite_pages *pages)
{
    struct vfs_file *file = file_of(connection);
    if (file)
        file->pages = pages;
}

const struct error_report *sqlite_vfs_failure(sqlite3 *connection)
{
    const struct vfs_file *file = file_of(connection);
    return file ? &file->failure : NULL;
}
