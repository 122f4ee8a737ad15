/* SPDX-License-Identifier: MIT */
/*
 * Makes the row file that `import` publishes: everything goes into a temporary file beside the
 * final name; commit checks it, fsyncs and renames. Until then, also when anything fails or the
 * process dies, an existing file stays unchanged. One thread; blocks.
 */
#ifndef LOADER_ROWS_ROWS_WRITER_H
#define LOADER_ROWS_ROWS_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

struct rows_writer;

/* `info` describes what will come; borrowed until close. A symbolic link leads to the file that is
 * written. */
enum error rows_writer_open(const char *path, const struct store_info *info,
                            struct rows_writer **ret_writer) MUST_CHECK;
/* Discards uncommitted rows. NULL is legal. */
void rows_writer_close(struct rows_writer *writer);

/* A block of a scan with SCAN_FEATURES. */
enum error rows_writer_add(struct rows_writer *writer, const struct store_block *block) MUST_CHECK;
/* ERROR_INPUT when an id was there twice, or rows are missing. Afterwards only close is legal. */
enum error rows_writer_commit(struct rows_writer *writer) MUST_CHECK;

/* Valid once committed: bytes of the file, digest of its rows. */
uint64_t rows_writer_bytes(const struct rows_writer *writer);
const char *rows_writer_digest(const struct rows_writer *writer);

/* May `path` be written? True when nothing is there, or an empty file, or a sound row file. */
enum error rows_writer_may_write(const char *path, bool *ret_may) MUST_CHECK;

#endif
