/* SPDX-License-Identifier: MIT */
/*
 * The folder of `--state DIR`. DIR/lock is locked while the folder is open, so that two servers
 * never share it. It also names the holder, because a lock can be lost: each start writes its own
 * name, which tells the previous holder that it lost the folder. DIR/journal
 * (sampler/journal/journal.h) keeps all streams. Nothing is written through a symbolic link, or
 * over a file that no sampler made.
 *
 * A folder from a version before the journal has DIR/position and no journal: it is refused.
 * RECOVERY.md has the journal's layout byte by byte.
 */
#ifndef SAMPLER_JOURNAL_STATE_FOLDER_H
#define SAMPLER_JOURNAL_STATE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct state;

/* Creates the folder if it is missing, locks it and takes it over: state_check() of any previous
 * holder fails from now on, also on disk. ERROR_CONFLICT: another server has it; ERROR_INPUT:
 * DIR/lock is not a sampler's, or the folder is from a version before the journal. ERROR_USAGE: it
 * is a URI. */
enum error state_open(const char *folder, struct state **ret_state) MUST_CHECK;
/* The start succeeded: keep the lock and, if it was created, the folder. */
void state_take(struct state *state);
/* Unlocks; without state_take() restores the folder and its lock to what they were. NULL is
 * legal. */
void state_close(struct state *state);
/* ERROR_IO: the folder's path no longer leads to what was opened, or another server took it over.
 * One file system access; any thread. */
enum error state_check(const struct state *state) MUST_CHECK;
/* The same, and ERROR_IO if that cannot be determined: for what only the holder may do. */
enum error state_confirm(const struct state *state) MUST_CHECK;
/* True on a network or user-space file system, or if that cannot be determined: other machines may
 * write there without this machine's cache noticing. */
bool state_is_remote(const struct state *state);
/* A number unique to this start, also stored in DIR/lock. A generation counter would not do: two
 * starts that both lost the lock, or a lock emptied by power loss, count the same. */
uint64_t state_mark(const struct state *state);

/* FOLDER/NAME; the caller frees it. NULL: no memory. */
char *state_path(const char *folder, const char *name);

/* Borrowed until state_close(). */
const char *state_folder(const struct state *state);
#endif
