/* SPDX-License-Identifier: MIT */
/*
 * The text of a packed file, readable at any offset by any number of threads, as if it were not
 * packed.
 *
 * The text is a list of pieces, each of `piece_bytes` to twice as many if the file allows it, in
 * the order in which they are found: the first reads unpack the file once, in order, on whichever
 * thread asks for the next piece. A piece ends where unpacking can begin again, if there is such a
 * place, so that later reads unpack only the pieces they need. If there is none (a zstd frame
 * larger than a piece), a piece is reached from the nearest earlier one that has one, or from an
 * unpacker's position.
 *
 * Each piece is hashed when found. One that differs when unpacked again is an error, as is a
 * failing checksum of gzip or zstd: all of them are verified before the length is known.
 *
 * Memory: 16 pieces, 8 unpackers (2 if a zstd window is large), and for gzip a window per piece,
 * itself compressed. A wait for another thread's unpacking ends when the program should stop.
 */
#ifndef LOADER_UNPACK_PACKED_TEXT_H
#define LOADER_UNPACK_PACKED_TEXT_H

#include "common/file.h"
#include "loader/unpack/packing.h"

struct packed_text;

#define PACKED_PIECE_BYTES ((size_t)512 << 10) /* except in tests */

/* Borrows `path`. Reads nothing yet. */
enum error packed_text_new(const char *path, const struct file_identity *identity,
                           const struct packing *packing, size_t piece_bytes,
                           struct packed_text **ret_text) MUST_CHECK;
/* No thread may still be reading. NULL is legal. */
void packed_text_free(struct packed_text *text);

/* Reads `bytes` of the text at `offset`; fewer only at its end. Any thread. */
enum error packed_text_read(struct packed_text *text, void *out, size_t bytes, uint64_t offset,
                            size_t *ret_bytes) MUST_CHECK;

#define TEXT_LENGTH_UNKNOWN UINT64_MAX
/* Unknown until a read reached the end. */
uint64_t packed_text_length(struct packed_text *text);
/* The byte of the packed file that holds the text at `offset`, roughly; its last for text not read
 * yet. */
uint64_t packed_text_place(struct packed_text *text, uint64_t offset);

#endif
