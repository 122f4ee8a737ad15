/* SPDX-License-Identifier: MIT */
/*
 * The folder of `--state DIR`. DIR/lock is locked as long as it is open, so that two servers never
 * share a folder; and it names the holder, since a lock can be lost: a start writes its own name,
 * by which who had the folder before knows that it is another's. DIR/journal
 * (sampler/journal/journal.h) keeps all streams. Nothing is written through a symbolic link, or
 * over a file that no sampler made.
 *
 * DIR/position is what versions before the journal kept: the position of one stream, in two slots
 * of 4 KiB that were written alternately. It is read, taken over into a journal, and removed.
 * RECOVERY.md has both layouts byte by byte.
 */
#ifndef SAMPLER_JOURNAL_STATE_FOLDER_H
#define SAMPLER_JOURNAL_STATE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define STATE_SLOT_BYTES 4096
#define STATE_DESIGN_BYTES 32

/* What a slot of DIR/position says. */
struct state_record {
    uint8_t digest[16];
    int64_t units;                   /* N */
    int64_t epoch_positions;         /* M */
    char design[STATE_DESIGN_BYTES]; /* NUL-terminated */
    bool replacement;
    uint64_t seed;
    int64_t position; /* the next position to be drawn */
    int64_t batches;  /* drawn so far */
};

struct state;

/* Makes the folder if it is missing, locks it and takes it over: state_check() of whoever had it
 * fails from now on, on the disk, too. Reads DIR/position when there is no journal. ERROR_CONFLICT
 * when another server has it; ERROR_INPUT when both slots are damaged or are of another format, or
 * DIR/lock is no sampler's. */
enum error state_open(const char *folder, struct state **ret_state) MUST_CHECK;
/* The start went well: the lock, and a folder that was made for it, stay. */
void state_take(struct state *state);
/* Unlocks; without state_take() the folder and its lock are what they were. NULL is legal. */
void state_close(struct state *state);
/* ERROR_IO: what is at the folder's path is not what was opened, or another server took it over.
 * One look at the file system; from every thread. */
enum error state_check(const struct state *state) MUST_CHECK;
/* The same, and ERROR_IO where that cannot be seen: before what only the holder may do. */
enum error state_confirm(const struct state *state) MUST_CHECK;
/* How often the folder was taken over, with this time. */
uint64_t state_generation(const struct state *state);

/* FOLDER/NAME, to be freed; NULL: no memory. */
char *state_path(const char *folder, const char *name);

/* Borrowed until state_close(). */
const char *state_folder(const struct state *state);
/* What DIR/position says, or NULL. */
const struct state_record *state_position(const struct state *state);
/* It is in the journal: DIR/position goes. */
enum error state_forget_position(struct state *state) MUST_CHECK;

/* One slot; false for anything damaged. */
bool state_slot_decode(const uint8_t bytes[STATE_SLOT_BYTES], struct state_record *ret_record,
                       uint64_t *ret_sequence);

#endif
