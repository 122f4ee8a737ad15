/* SPDX-License-Identifier: MIT */
/*
 * Makes the SQLite file that `import` publishes: everything goes into a temporary file beside the
 * final name; commit checks it, fsyncs and renames. Until then, also when anything fails or
 * the process dies, an existing file stays unchanged. What else is in the file is copied first: all
 * tables but the imported one stay.
 */
#ifndef LOADER_SQLITE_SQLITE_WRITER_H
#define LOADER_SQLITE_SQLITE_WRITER_H

#include "common/error.h"
#include "loader/store/store.h"

struct sqlite_writer;

/* `info` describes what will come; borrowed until close. */
enum error sqlite_writer_open(const char *path, const char *table, const struct store_info *info,
                              struct sqlite_writer **ret_writer) MUST_CHECK;
/* Discards uncommitted rows. NULL is legal. */
void sqlite_writer_close(struct sqlite_writer *writer);

/* A block of a scan with SCAN_FEATURES. ERROR_INPUT when an id is there already. */
enum error sqlite_writer_add(struct sqlite_writer *writer,
                             const struct store_block *block) MUST_CHECK;
/* Afterwards only close is legal. */
enum error sqlite_writer_commit(struct sqlite_writer *writer) MUST_CHECK;

/* Valid once committed: bytes of the file, digest of its rows. */
uint64_t sqlite_writer_bytes(const struct sqlite_writer *writer);
const char *sqlite_writer_digest(const struct sqlite_writer *writer);

/* May the table be written to `path`? True when nothing is there, or an empty file, or one that
 * import made in which there is no such table yet, or one that import made and nobody wrote to
 * since. */
enum error sqlite_writer_may_write(const char *path, const char *table, bool *ret_may) MUST_CHECK;

#endif
