/*
 * The thread that makes draws durable: writes the stream's record, fdatasync()s, tells everybody
 * who waited, and again. All draws that come during one write share the next one.
 *
 * While the disk refuses, it tries again four times a second; the stream refuses draws meanwhile.
 */
#ifndef SAMPLER_COMMITTER_H
#define SAMPLER_COMMITTER_H

#include "common/error.h"
#include "sampler/stream.h"

struct committer;

/* Starts the thread. `stream` (borrowed) must outlive it. */
enum error committer_new(struct stream *stream, struct committer **ret_committer) MUST_CHECK;
/* Writes what waits, or fails it, and joins the thread: afterwards nobody waits. NULL is legal. */
void committer_free(struct committer *committer);

#endif
