/* SPDX-License-Identifier: MIT */
/*
 * The folder of `--state DIR`. DIR/lock is locked as long as it is open, so that two servers never
 * share a folder; and it names the holder, since a lock can be lost: a start writes its own name,
 * by which who had the folder before knows that it is another's. DIR/journal
 * (sampler/journal/journal.h) keeps all streams. Nothing is written through a symbolic link, or
 * over a file that no sampler made.
 *
 * A folder of a version before the journal has DIR/position and none: it is refused. RECOVERY.md
 * has the journal's layout byte by byte.
 */
#ifndef SAMPLER_JOURNAL_STATE_FOLDER_H
#define SAMPLER_JOURNAL_STATE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct state;

/* Makes the folder if it is missing, locks it and takes it over: state_check() of whoever had it
 * fails from now on, on the disk, too. ERROR_CONFLICT when another server has it; ERROR_INPUT when
 * DIR/lock is no sampler's, or the folder is of a version before the journal. */
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
/* On a network file system, one in user space, or where that cannot be seen: other machines may
 * write there, and this one's cache may not know. */
bool state_is_remote(const struct state *state);
/* A number that no other start draws, which DIR/lock names, too. A generation is none: two starts
 * that both lost the lock, or a lock that power loss left empty, count the same. */
uint64_t state_mark(const struct state *state);

/* FOLDER/NAME, to be freed; NULL: no memory. */
char *state_path(const char *folder, const char *name);

/* Borrowed until state_close(). */
const char *state_folder(const struct state *state);
#endif
