/* SPDX-License-Identifier: MIT */
/*
 * The bytes of an IDX file, plain or packed by gzip or zstd: offsets are those of the unpacked
 * file. Opening unpacks a packed file once, to its end, which makes all its checks; its bytes stay
 * in memory if they need no more than half of what is free. Otherwise each read unpacks the pieces
 * it needs (loader/unpack).
 *
 * Threads: immutable once open.
 */
#ifndef LOADER_IDX_IDX_TEXT_H
#define LOADER_IDX_IDX_TEXT_H

#include "loader/idx/idx_header.h"
#include "loader/store/strided_rows.h"
#include "loader/unpack/text_source.h"

struct idx_text {
    struct strided_text records; /* first; reads rows of a packed file */
    struct text_source source;
    struct idx_header header;
    uint8_t *held; /* owned; [header.file_bytes]; NULL: not in memory */
};

/* Opens the file, reads its header, and checks its length. `path` is borrowed. `hold`: many rows
 * will be read, in any order. ERROR_INPUT names the file and what is wrong, for a damaged packed
 * file also the byte. On failure there is nothing to release. */
enum error idx_text_open(struct idx_text *text, const char *path, bool hold) MUST_CHECK;
/* Legal on a zeroed struct. */
void idx_text_release(struct idx_text *text);

/* What rows are read through; borrowed. NULL: they are in the file itself. */
const struct strided_text *idx_text_records(const struct idx_text *text);
/* All rows in order; `file` is the same file, open. */
enum error idx_text_rows(const struct idx_text *text, struct source_file *file,
                         struct strided_rows *ret_rows) MUST_CHECK;

#endif
