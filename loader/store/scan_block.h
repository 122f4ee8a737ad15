/* SPDX-License-Identifier: MIT */
/*
 * A block that a scan fills row by row and passes to its sink when full. Texts are copied: a row's
 * need to stay valid only during scan_block_add(). One thread.
 */
#ifndef LOADER_STORE_SCAN_BLOCK_H
#define LOADER_STORE_SCAN_BLOCK_H

#include "loader/store/store.h"
#include "loader/store/store_row.h"

struct scan_block;

/* An empty block; `info` is borrowed. NULL: ERROR_MEMORY. */
struct scan_block *scan_block_new(const struct store_info *info, enum scan_columns columns,
                                  store_sink *sink, void *context);
void scan_block_free(struct scan_block *block);

/* Where to put the next row's features, [F] of info.element, or [info.longest] if rows differ in
 * length; NULL: keys only. */
void *scan_block_slot(const struct scan_block *block);

/* Adds a row whose features are in the slot, and `label` as fetch() returns it; returns the sink's
 * error if that fills the block. A ROW_BAD row: ERROR_INPUT, or zeroed with SCAN_BAD_ROWS. */
enum error scan_block_add(struct scan_block *block, const struct store_row *row,
                          double label) MUST_CHECK;

/* Passes on the remaining rows. */
enum error scan_block_finish(struct scan_block *block) MUST_CHECK;

#endif
