/* SPDX-License-Identifier: MIT */
/*
 * The sampling frame: the list of (id, label[, weight][, group]) that is sampled, N units in frame
 * order ("rows" 0..N-1), and its strata. Immutable; shared by all threads.
 *
 * Built from a store (sampler/build/), or mapped from a frame file. A frame of consecutive ids
 * stores no ids, and `range:N?labels=K` stores only N and K, so that 1e9 units open in
 * microseconds.
 *
 * Dimensions: N units, L labels (strata).
 */
#ifndef SAMPLER_FRAME_FRAME_H
#define SAMPLER_FRAME_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/id_column.h"
#include "sampler/frame/partition.h"

struct frame;
struct mapped_file; /* frame_file.h */

#define FRAME_UNITS_LIMIT (INT64_C(1) << 61) /* N is at most this */

/* 128-bit digest of the list in frame order; independent of the kind of store. */
struct frame_digest {
    uint8_t bytes[16];
};
#define FRAME_DIGEST_TEXT_BYTES 33

/* Ids 0 to N - 1, 1 <= N <= FRAME_UNITS_LIMIT, the label of a row being row mod `labels`; 0: no
 * labels. Uses no memory per unit. */
enum error frame_of_range(int64_t units, uint32_t labels, struct frame **ret_frame) MUST_CHECK;
/* Maps a frame file (frame_file.h). Checks magic, version, size, the header's checksum, section
 * bounds and everything with one entry per label, in O(labels); files up to
 * FRAME_FILE_CHECKED_BYTES completely. frame_verify() checks every section's checksum for any size.
 * Corrupt bytes that were not checked give wrong units, never a crash. */
enum error frame_open(const char *path, struct frame **ret_frame) MUST_CHECK;
/* The same for a file that is already mapped (frame_file.h); takes it, also on failure. */
enum error frame_of_file(struct mapped_file *file, struct frame **ret_frame) MUST_CHECK;
/* Checks every byte against its checksum; a frame in memory is sound. */
enum error frame_verify(const struct frame *frame) MUST_CHECK;
/* For a server whose frame is mapped from a file, which must not change meanwhile (frame_watch.h):
 * the first, called once, takes a lease and installs a handler; the second, called once a second,
 * checks that the file is unchanged (ERROR_INPUT). Both do nothing for other frames. */
enum error frame_watch_file(struct frame *frame) MUST_CHECK;
enum error frame_check_file(const struct frame *frame) MUST_CHECK;
/* Size of the mapped file; 0 for a frame in memory. */
uint64_t frame_file_bytes(const struct frame *frame);
/* Writes the file: aside, fsynced, renamed. Not for a view (frame_view.h). */
enum error frame_write(const struct frame *frame, const char *path) MUST_CHECK;
/* Rows and sides of a split as separate frames: frame_view.h. */
void frame_free(struct frame *frame);

int64_t frame_units(const struct frame *frame);   /* N */
uint32_t frame_labels(const struct frame *frame); /* L; 1 if the store has no labels */
const struct frame_digest *frame_digest(const struct frame *frame);
void frame_digest_text(const struct frame_digest *digest, char out[FRAME_DIGEST_TEXT_BYTES]);

/* Labels are numbered 0..L-1: integers ascending, else texts ascending by bytes. */
bool frame_labels_are_integers(const struct frame *frame);
bool frame_has_labels(const struct frame *frame); /* false: the store had no label column */
const char *frame_label_text(const struct frame *frame,
                             uint32_t label); /* NUL-terminated; both kinds */
int64_t frame_label_units(const struct frame *frame, uint32_t label); /* N_h */

/* Row -> (id, label). O(1). */
int64_t frame_id(const struct frame *frame, int64_t row);
uint32_t frame_label(const struct frame *frame, int64_t row);
/* The same for many rows at once. */
void frame_gather_ids(const struct frame *frame, const int64_t *rows, size_t count,
                      int64_t *ret_ids);
void frame_gather_labels(const struct frame *frame, const int64_t *rows, size_t count,
                         uint32_t *ret_labels);
/* The j-th row of a label's stratum, in frame order, 0 <= j < N_h. O(1). */
int64_t frame_stratum_row(const struct frame *frame, uint32_t label, int64_t j);
/* The inverse: the row's rank j in its stratum. O(log N). */
int64_t frame_stratum_rank(const struct frame *frame, int64_t row);
/* The row of an id, or -1. O(log N). */
int64_t frame_find(const struct frame *frame, int64_t id);
/* The number of the label with this text, or -1. O(log L). */
int64_t frame_find_label(const struct frame *frame, const char *text);

/* The columns, borrowed until frame_free(). Weights [N] and groups: NULL if the store's URI named
 * none. Ids, strata and groups of a view are views: use their functions, not their arrays. */
const struct id_column *frame_id_column(const struct frame *frame);
const struct partition *frame_strata(const struct frame *frame);
const double *frame_weights(const struct frame *frame);
const struct partition *frame_groups(const struct frame *frame);

#endif
