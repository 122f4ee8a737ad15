/* SPDX-License-Identifier: MIT */
/*
 * Once a second: is what a server stands on still there? On a thread of its own, since a look at a
 * file system hangs for as long as that does not answer.
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
/* ERROR_IO: the state folder is gone or another's (state_check()). ERROR_INPUT: a frame file was
 * written to (frame_watch.h). Does not wait. */
enum error checks_result(const struct checks *checks) MUST_CHECK;
/* Ends the thread. False: it hangs, and goes on using `state` and `frames`. NULL is legal. */
bool checks_free(struct checks *checks) MUST_CHECK;

#endif
