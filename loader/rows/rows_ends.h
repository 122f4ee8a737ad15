/* SPDX-License-Identifier: MIT */
/*
 * Where each row ends in a row file whose rows differ in length (ROWS_VARY): R ascending offsets
 * from the start of row 0, followed by a CRC-32C of all of them and four zeros.
 */
#ifndef LOADER_ROWS_ROWS_ENDS_H
#define LOADER_ROWS_ROWS_ENDS_H

#include "loader/rows/rows_header.h"
#include "loader/store/source_file.h"

/* After the offsets. */
struct rows_ends_tail {
    uint32_t checksum, zero;
};

/* All of them, [R]; the caller free()s them; *ret_longest: features of the longest row. ERROR_INPUT
 * naming file, row and byte: they are damaged, or a row cannot have that length. */
enum error rows_ends_read(const struct rows_header *header, struct source_file *file,
                          uint64_t **ret_ends, size_t *ret_longest) MUST_CHECK;

#endif
