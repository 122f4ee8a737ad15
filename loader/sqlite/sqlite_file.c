/* SPDX-License-Identifier: MIT */
#include "loader/sqlite/sqlite_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "loader/sqlite/sqlite_door.h"
#include "loader/sqlite/sqlite_fork.h"
#include "loader/sqlite/sqlite_vfs.h"

#define HEADER_BYTES 100 /* https://www.sqlite.org/fileformat.html, 1.3 */

static uint32_t big_endian(const uint8_t *at, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static enum error check_header(const struct source_file *file, const uint8_t *header)
{
    uint64_t page_bytes = big_endian(header + 16, 2);
    uint64_t pages = big_endian(header + 28, 4);
    uint64_t needed = 0;
    bool counted = big_endian(header + 24, 4) == big_endian(header + 92, 4);
    page_bytes = page_bytes == 1 ? 65536 : page_bytes;
    if (memcmp(header, "SQLite format 3", 16) != 0)
        return error_set(ERROR_INPUT, "%s is not an SQLite 3 file", file->path);
    if (page_bytes < 512 || (page_bytes & (page_bytes - 1)) != 0)
        return error_set(ERROR_INPUT, "%s is damaged: its header names pages of %llu bytes",
                         file->path, (unsigned long long)page_bytes);
    needed = pages * page_bytes;
    if (counted && file->identity.size_bytes < needed)
        return error_set(ERROR_INPUT, "%s is cut off: it has %llu bytes of %llu", file->path,
                         (unsigned long long)file->identity.size_bytes, (unsigned long long)needed);
    if (header[18] > 2 || header[19] > 2)
        return error_set(ERROR_INPUT, "%s is of a later version of SQLite's format (%d, %d)",
                         file->path, header[18], header[19]);
    return OK; /* 2: WAL mode, which makes no difference once the log is empty */
}

/* Does the file PATH-SUFFIX begin with anything but zeros? */
static enum error has_content(const char *path, const char *suffix, bool *ret_content)
{
    char *name = NULL;
    char bytes[8] = {0};
    *ret_content = false;
    if (asprintf(&name, "%s%s", path, suffix) < 0)
        return error_set_memory(strlen(path), "a file's name");
    int descriptor = -1;
    enum error error = file_open_read(name, &descriptor);
    if (!error) {
        if (read(descriptor, bytes, sizeof(bytes)) < 0)
            error = error_set_errno(ERROR_IO, errno, "cannot read %s", name);
        close(descriptor);
    }
    for (size_t i = 0; i < sizeof(bytes); i++)
        *ret_content |= bytes[i] != 0;
    free(name);
    return error == ERROR_NOT_FOUND ? OK : error;
}

static enum error add_name(const char *path, const char *suffix, store_file_sink *add,
                           void *context)
{
    char *name = NULL;
    if (asprintf(&name, "%s%s", path, suffix) < 0)
        return error_set_memory(strlen(path), "a file's name");
    enum error error = add(context, name);
    free(name);
    return error;
}

enum error sqlite_journals(const char *path, store_file_sink *add, void *context)
{
    char *real = file_real_path(path);
    if (!real)
        return ERROR_MEMORY;
    enum error error = add_name(real, "-journal", add, context);
    if (!error)
        error = add_name(real, "-wal", add, context);
    free(real);
    return error;
}

enum error sqlite_check_journals(const char *path)
{
    bool journal = false;
    bool log = false;
    char *real = file_real_path(path);
    if (!real)
        return ERROR_MEMORY;
    enum error error = has_content(real, "-journal", &journal);
    if (!error)
        error = has_content(real, "-wal", &log);
    if (!error && (journal || log))
        error = error_set(ERROR_INPUT,
                          "%s%s exists: a program is writing to the file, or died while it did; "
                          "opening it once with sqlite3 puts it in order",
                          real, journal ? "-journal" : "-wal");
    free(real);
    return error;
}

enum error sqlite_file_check(struct source_file *file, uint32_t *ret_changes)
{
    uint8_t header[HEADER_BYTES];
    enum error error = OK;
    if (file->identity.size_bytes == 0)
        return error_set(ERROR_INPUT, "%s is empty; an SQLite file was expected", file->path);
    if (file->identity.size_bytes < HEADER_BYTES)
        return error_set(ERROR_INPUT, "%s is not an SQLite 3 file: it has only %llu bytes",
                         file->path, (unsigned long long)file->identity.size_bytes);
    error = source_file_read(file, header, sizeof(header), 0);
    if (!error)
        error = check_header(file, header);
    if (!error)
        error = sqlite_check_journals(file->path);
    if (!error)
        *ret_changes = big_endian(header + 24, 4);
    return error;
}

enum error sqlite_file_check_mode(struct source_file *file)
{
    uint8_t header[HEADER_BYTES];
    enum error error = source_file_read(file, header, sizeof(header), 0);
    if (error || (header[18] == 1 && header[19] == 1))
        return error;
    return error_set(ERROR_INPUT,
                     "%s is in WAL mode, which does not work on network file systems; \"PRAGMA "
                     "journal_mode=DELETE\" on it, once, makes it an ordinary file",
                     file->path);
}

static enum error code_of(sqlite3 *connection, int result)
{
    int reason = connection ? sqlite3_system_errno(connection) : 0;
    switch (result & 0xff) {
    case SQLITE_FULL:
        return ERROR_NO_SPACE;
    case SQLITE_IOERR:
        return reason == ENOSPC || reason == EDQUOT ? ERROR_NO_SPACE : ERROR_IO;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return ERROR_IO;
    case SQLITE_INTERRUPT:
        return ERROR_CANCELLED;
    case SQLITE_NOMEM:
        return ERROR_MEMORY;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERROR_CONFLICT;
    default:
        return ERROR_INPUT;
    }
}

/* The file's own reason for a failure: a failed read, or a write by someone else. */
static enum error ask_file(sqlite3 *connection)
{
    const struct error_report *failure = sqlite_vfs_failure(connection);
    const struct source_file *file = sqlite_vfs_file(connection);
    if (failure && failure->code)
        return error_restore(failure);
    return file ? source_file_check(file) : OK;
}

enum error sqlite_refuse(sqlite3 *connection, int result, const char *path, const char *doing)
{
    enum error code = code_of(connection, result);
    const char *words = connection ? sqlite3_errmsg(connection) : sqlite3_errstr(result);
    enum error of_file = ask_file(connection);
    if (of_file)
        return of_file;
    if (code == ERROR_CANCELLED)
        return error_set(code, "stopped before %s was complete", path);
    if (code == ERROR_NO_SPACE)
        return error_set(code, "%s: cannot %s: no space left on the device", path, doing);
    if (result == SQLITE_IOERR_WRITE)
        words = "a write failed, by an error of the disk or over a limit of file size";
    if (result == SQLITE_IOERR_READ)
        words = "a read failed, by an error of the disk";
    return error_set(code, "%s: cannot %s: %s", path, doing, words);
}

enum error sqlite_check_values(sqlite3_stmt *statement)
{
    if (sqlite3_errcode(sqlite3_db_handle(statement)) != SQLITE_NOMEM)
        return OK;
    return error_set(ERROR_MEMORY, "out of memory for a value of an SQLite file");
}

/* SQLite would not treat ":memory:" and "file:x" as files. */
static enum error open_connection(const char *path, sqlite3 **ret_connection)
{
    char *name = NULL;
    sqlite_fork_prepare();
    const char *vfs = sqlite_vfs_name();
    if (!vfs)
        return ERROR_MEMORY;
    if (asprintf(&name, "%s%s", path[0] == '/' ? "" : "./", path) < 0)
        return error_set_memory(strlen(path), "a file's name");
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    int result = sqlite3_open_v2(name, ret_connection, flags, vfs);
    free(name);
    return result == SQLITE_OK ? OK : sqlite_refuse(*ret_connection, result, path, "open it");
}

enum error sqlite_connect(const char *path, const struct file_identity *expected,
                          sqlite3 **ret_connection)
{
    struct source_file file;
    sqlite3 *connection = NULL;
    enum error error =
        source_file_open_by(&file, &sqlite_door, path, expected); /* has better words than SQLite */
    if (error)
        return error;
    source_file_close(&file);
    error = open_connection(path, &connection);
    if (!error && expected)
        error = source_file_expect(sqlite_vfs_file(connection), expected);
    if (!error) {
        sqlite3_extended_result_codes(connection, 1);
        error = sqlite_run(connection, path,
                           "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;"
                           "PRAGMA temp_store=MEMORY");
    }
    if (error) {
        sqlite3_close(connection);
        return error;
    }
    *ret_connection = connection;
    return OK;
}

enum error sqlite_prepare(sqlite3 *connection, const char *path, const char *sql,
                          sqlite3_stmt **ret_statement)
{
    int result =
        sqlite3_prepare_v3(connection, sql, -1, SQLITE_PREPARE_PERSISTENT, ret_statement, NULL);
    return result == SQLITE_OK ? OK : sqlite_refuse(connection, result, path, "read it");
}

enum error sqlite_run(sqlite3 *connection, const char *path, const char *sql)
{
    int result = sqlite3_exec(connection, sql, NULL, NULL, NULL);
    return result == SQLITE_OK ? OK : sqlite_refuse(connection, result, path, "work with it");
}
