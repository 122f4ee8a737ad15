/* SPDX-License-Identifier: MIT */
/*
 * Reads the pages that hold a batch's rows with one system call (row_gather.h), before SQLite asks
 * for each of them.
 *
 * Which pages these are is found as SQLite finds them: interior pages of the table's B-tree lead
 * from its root to a leaf (https://www.sqlite.org/fileformat.html, 1.6). This is only a guess.
 * SQLite requests pages by number, and reads a page that is not here itself, with all checks and
 * retries. So a damaged or truncated file costs time here, and is reported there.
 *
 * One thread: the connection's.
 */
#ifndef LOADER_SQLITE_SQLITE_PAGES_H
#define LOADER_SQLITE_SQLITE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/store/fetch_call.h"
#include "loader/store/source_file.h"

struct sqlite_pages;

/* For rows found by row number in the table whose root page is `root`. The file is borrowed, opened
 * through sqlite_door. NULL: there is no benefit, as on a network file system, or no memory. */
struct sqlite_pages *sqlite_pages_new(const struct source_file *file, uint32_t root);
void sqlite_pages_free(struct sqlite_pages *pages);

/* Reads the pages of the first of `count` rows, sorted by row number, as many as there is room for;
 * returns how many rows, at least one. Earlier pages end; while one is borrowed, none is read. May
 * wait for the disk. */
size_t sqlite_pages_gather(struct sqlite_pages *pages, const struct fetch_place *rows,
                           size_t count);

/* A leaf, valid until it is put back, which SQLite does not change. NULL: it is not here. */
void *sqlite_pages_borrow(struct sqlite_pages *pages, uint64_t offset, size_t bytes);
void sqlite_pages_put(struct sqlite_pages *pages);
/* Copies a page. False: it is not here. */
bool sqlite_pages_copy(const struct sqlite_pages *pages, void *out, size_t bytes, uint64_t offset);

#endif
