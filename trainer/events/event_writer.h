/* SPDX-License-Identifier: MIT */
/*
 * The events of a training, beside its checkpoints:
 *
 *   events.out.tfevents.SECONDS.HOST.PID  what TensorBoard reads; one file a start
 *   events.jsonl                          the same, a JSON object a line; all starts in one file
 *
 * A thread writes what was added every EVENT_FLUSH_MS. Events are no part of the training's result:
 * what cannot be kept is left out, with a warning, and never delays or fails the training. Both
 * files hold whole events at any time but while they are written; nothing is synced.
 *
 * Threads: events may be added from any; one opens and closes.
 */
#ifndef TRAINER_EVENTS_EVENT_WRITER_H
#define TRAINER_EVENTS_EVENT_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define EVENT_FLUSH_MS 2000
#define EVENT_QUEUE_BYTES (4 << 20) /* of each file; more is left out until the disk has kept up */
#define EVENT_CLOSE_MS 10000        /* a disk that hangs delays the end no longer */

struct event_writer;

enum event_session { EVENT_START, EVENT_STOP, EVENT_CHECKPOINT };

#define EVENT_SCALARS_LIMIT 32 /* of one call */
struct event_scalar {
    const char *tag; /* "loss"; not "step", "wall_time", "histogram" or "session" */
    double value;    /* kept as float; what is not finite is null in JSON */
};

#define EVENT_TAG_BYTES 64
struct event_tensor {
    char tag[EVENT_TAG_BYTES];
    size_t offset, count; /* floats of the values */
};

/* The thread makes `folder`, which has no other writer, and opens both files there; while it
 * cannot, events wait, and a warning says why. What is above is not made: a logdir that is not
 * there may come with its file system. */
enum error event_writer_open(const char *folder, struct event_writer **ret_writer) MUST_CHECK;
/* Writes what was added; a disk that hangs keeps it, and its thread is left behind. NULL is
 * legal. */
void event_writer_close(struct event_writer *writer);

/* Values of one step. Some microseconds a value: not for every step. */
void event_writer_scalars(struct event_writer *writer, int64_t step,
                          const struct event_scalar scalars[], size_t count);
/* How each tensor is distributed, in the buckets of TensorFlow (limits grow by 1.1); values that
 * are not finite are left out. Both arrays are malloc()ed and become the writer's, whose thread
 * counts (some 50 ns a value); two such calls wait at most, the next is left out. */
void event_writer_tensors(struct event_writer *writer, int64_t step, struct event_tensor *tensors,
                          size_t count, float *values);
/* EVENT_START makes TensorBoard forget what earlier files say of this step and later ones, as a
 * training does that goes on from a checkpoint. `path` of EVENT_CHECKPOINT, else NULL. */
void event_writer_session(struct event_writer *writer, int64_t step, enum event_session session,
                          const char *path);

#endif
