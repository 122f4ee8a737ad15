/*
 * A loop over very many elements on all processors: cut into blocks, which a team (team.h) takes
 * one after the other. For work that takes tenths of a second at least; not on an event loop.
 */
#ifndef COMMON_PARALLEL_H
#define COMMON_PARALLEL_H

#include <stdint.h>

#include "common/error.h"

/* Works on the elements [begin, end); from several threads at once, never twice on the same. */
typedef enum error (*parallel_body)(void *context, int64_t begin, int64_t end);

/* All of [0, count), in blocks that begin at multiples of `grain`. Where no thread can be started
 * the caller's does it all. The first error ends it and is returned, with its message;
 * ERROR_CANCELLED after stop_requested(). */
enum error parallel_run(int64_t count, int64_t grain, parallel_body body, void *context) MUST_CHECK;

#endif
