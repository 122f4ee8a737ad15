/* SPDX-License-Identifier: MIT */
/*
 * The text of a file, packed (packed_text.h) or plain. Offsets and lengths are of the text;
 * `identity` is the file's, whose size differs from the text's if it is packed.
 *
 *   struct text_source  the file: any thread
 *   struct text_file    one thread's handle on it
 */
#ifndef LOADER_UNPACK_TEXT_SOURCE_H
#define LOADER_UNPACK_TEXT_SOURCE_H

#include "loader/store/source_file.h"
#include "loader/unpack/packed_text.h"

struct text_source {
    const char *path; /* borrowed */
    struct file_identity identity;
    struct packed_text *packed; /* owned; NULL: the file is the text */
};

/* Opens the file and reads its first bytes; `path` must outlive the source. */
enum error text_source_init(struct text_source *source, const char *path) MUST_CHECK;
/* Legal on a zeroed source. */
void text_source_release(struct text_source *source);

/* TEXT_LENGTH_UNKNOWN until a packed file has been read to its end. */
uint64_t text_source_length(const struct text_source *source);
/* The same, or an estimate. */
uint64_t text_source_guess(const struct text_source *source);
/* For progress: how many of the file's identity.size_bytes bytes hold the text before `offset`. */
uint64_t text_source_done(const struct text_source *source, uint64_t offset);

struct text_file {
    const struct text_source *source; /* borrowed */
    struct source_file file;
};

enum error text_file_open(struct text_file *file, const struct text_source *source) MUST_CHECK;
void text_file_close(struct text_file *file);
/* Like source_file_check(). */
enum error text_file_check(const struct text_file *file) MUST_CHECK;
/* `bytes` at `offset`; fewer only at the end of the text. Errors as source_file_read()'s; also
 * ERROR_INPUT for a damaged packed file. */
enum error text_file_read(struct text_file *file, void *out, size_t bytes, uint64_t offset,
                          size_t *ret_bytes) MUST_CHECK;
/* Exactly `bytes`, which were read before. */
enum error text_file_read_again(struct text_file *file, void *out, size_t bytes,
                                uint64_t offset) MUST_CHECK;

#endif
