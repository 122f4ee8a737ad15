/* SPDX-License-Identifier: MIT */
/*
 * The bytes of an IDX file, packed by gzip or zstd or as they stand: offsets are those of the
 * unpacked file. A packed file is unpacked once, to its end, when it is opened, so that all its
 * checks were made; its bytes stay in memory where they take no more than half of what is free
 * there. Where they do not, each read unpacks the pieces that it needs (loader/unpack).
 *
 * Threads: immutable once open.
 */
#ifndef LOADER_IDX_IDX_TEXT_H
#define LOADER_IDX_IDX_TEXT_H

#include "loader/idx/idx_header.h"
#include "loader/store/strided_rows.h"
#include "loader/unpack/text_source.h"

struct idx_text {
    struct strided_text records; /* first; what reads rows of a packed file */
    struct text_source source;
    struct idx_header header;
    uint8_t *held; /* owned; [header.file_bytes]; NULL: not in memory */
};

/* Opens the file, reads its header, and checks its length. `path` is borrowed. `hold`: many rows
 * will be read, in any order. ERROR_INPUT naming the file and what is wrong, for damage of a packed
 * file the byte. On failure there is nothing to release. */
enum error idx_text_open(struct idx_text *text, const char *path, bool hold) MUST_CHECK;
/* Legal for one that is zeroed. */
void idx_text_release(struct idx_text *text);

/* Through what the rows are read; borrowed. NULL: they stand in the file itself. */
const struct strided_text *idx_text_records(const struct idx_text *text);
/* All rows in their order; `file` is the same file, open. */
enum error idx_text_rows(const struct idx_text *text, struct source_file *file,
                         struct strided_rows *ret_rows) MUST_CHECK;

#endif
