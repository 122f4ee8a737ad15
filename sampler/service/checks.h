/* SPDX-License-Identifier: MIT */
/*
 * Checks once a second that the files under a server are unchanged. On a separate thread, since a
 * file system access hangs as long as the file system does not respond.
 */
#ifndef SAMPLER_SERVICE_CHECKS_H
#define SAMPLER_SERVICE_CHECKS_H

#include <stdbool.h>

#include "common/error.h"
#include "sampler/build/frame_set.h"
#include "sampler/journal/state_folder.h"

struct checks;

/* Starts the thread. `state` (or NULL) and `frames` are borrowed until checks_free(). */
enum error checks_new(const struct state *state, const struct frame_set *frames,
                      struct checks **ret_checks) MUST_CHECK;
/* ERROR_IO: the state folder is gone or taken over (state_check()). ERROR_INPUT: a frame file was
 * modified (frame_watch.h). Does not wait. */
enum error checks_result(const struct checks *checks) MUST_CHECK;
/* Stops the thread. False: it hangs, and keeps using `state` and `frames`. NULL is legal. */
bool checks_free(struct checks *checks) MUST_CHECK;

#endif
