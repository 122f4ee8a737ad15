/* SPDX-License-Identifier: MIT */
/*
 * The block that a scan fills row by row and hands to its sink when it is full. Texts are copied:
 * a row's need to stay only for scan_block_add(). One thread.
 */
#ifndef LOADER_STORE_SCAN_BLOCK_H
#define LOADER_STORE_SCAN_BLOCK_H

#include "loader/store/store.h"
#include "loader/store/store_row.h"

struct scan_block;

/* Empty; `info` is borrowed. NULL: ERROR_MEMORY. */
struct scan_block *scan_block_new(const struct store_info *info, enum scan_columns columns,
                                  store_sink *sink, void *context);
void scan_block_free(struct scan_block *block);

/* Where the features of the next row go, [F] of info.element, or [info.longest] where rows differ
 * in length; NULL: keys only. */
void *scan_block_slot(const struct scan_block *block);

/* Adds a row whose features are in the slot, and `label` as fetch() gives it; the sink's error when
 * that fills the block. A row that is ROW_BAD: ERROR_INPUT, or zeroed with SCAN_BAD_ROWS. */
enum error scan_block_add(struct scan_block *block, const struct store_row *row,
                          double label) MUST_CHECK;

/* Hands out the remaining rows. */
enum error scan_block_finish(struct scan_block *block) MUST_CHECK;

#endif
