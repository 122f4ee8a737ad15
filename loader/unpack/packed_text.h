/* SPDX-License-Identifier: MIT */
/*
 * The text of a packed file, read at any offset by any number of threads, as if it were not packed.
 *
 * The text is a list of pieces, each of `piece_bytes` to twice as many where the file lets it, in
 * the order in which they are found: the first reads unpack the file once, in order, whoever asks
 * for what comes next. A piece ends where unpacking may begin again, wherever there is such a
 * place, so that later reads unpack the pieces that they ask for and no more. Where there is none
 * (a zstd frame that is larger than a piece), a piece is reached from the nearest one in front that
 * has one, or from where an unpacker stands.
 *
 * Each piece is hashed when it is found. One that is unpacked again and differs is an error, as is
 * a check of gzip or zstd that does not hold: all of them are made before the length is known.
 *
 * Memory: 16 pieces, 8 unpackers (2 where a zstd window is large), and for gzip a window a piece,
 * packed itself. A wait for another thread's unpacking ends when the program is to stop.
 */
#ifndef LOADER_UNPACK_PACKED_TEXT_H
#define LOADER_UNPACK_PACKED_TEXT_H

#include "common/file.h"
#include "loader/unpack/packing.h"

struct packed_text;

#define PACKED_PIECE_BYTES ((size_t)512 << 10) /* but for tests */

/* Borrows `path`. Reads nothing yet. */
enum error packed_text_new(const char *path, const struct file_identity *identity,
                           const struct packing *packing, size_t piece_bytes,
                           struct packed_text **ret_text) MUST_CHECK;
/* No thread reads any more. NULL is legal. */
void packed_text_free(struct packed_text *text);

/* `bytes` of the text at `offset`; fewer only at its end. Any thread. */
enum error packed_text_read(struct packed_text *text, void *out, size_t bytes, uint64_t offset,
                            size_t *ret_bytes) MUST_CHECK;

#define TEXT_LENGTH_UNKNOWN UINT64_MAX
/* Unknown until a read met the end. */
uint64_t packed_text_length(struct packed_text *text);
/* The byte of the packed file from which the text at `offset` comes, roughly; its last for text
 * that nobody has read yet. */
uint64_t packed_text_place(struct packed_text *text, uint64_t offset);

#endif
