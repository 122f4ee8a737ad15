/* SPDX-License-Identifier: MIT */
/*
 * The events of a training, beside its checkpoints:
 *
 *   events.out.tfevents.SECONDS.HOST.PID  what TensorBoard reads; one file a start
 *   events.jsonl                          the same, a JSON object a line; all starts in one file
 *
 * A thread writes added events every EVENT_FLUSH_MS. Events are not part of the training's result:
 * what cannot be written is dropped, with a warning, and never delays or fails the training. Both
 * files hold whole events except during a write; nothing is synced.
 *
 * Threads: events may be added from any; one thread opens and closes.
 */
#ifndef TRAINER_EVENTS_EVENT_WRITER_H
#define TRAINER_EVENTS_EVENT_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define EVENT_FLUSH_MS 2000
#define EVENT_QUEUE_BYTES (4 << 20) /* per file; further events are dropped */
#define EVENT_CLOSE_MS 10000        /* the longest that a hanging disk delays the end */

struct event_writer;

enum event_session { EVENT_START, EVENT_STOP, EVENT_CHECKPOINT };

#define EVENT_SCALARS_LIMIT 32 /* per call */
struct event_scalar {
    const char *tag; /* "loss"; not "step", "wall_time", "histogram" or "session" */
    double value;    /* stored as float; null in JSON if not finite */
};

#define EVENT_TAG_BYTES 64
struct event_tensor {
    char tag[EVENT_TAG_BYTES];
    size_t offset, count; /* in floats */
};

/* The thread creates `folder`, which has no other writer, and opens both files there; until it can,
 * events wait, and a warning says why. Parent folders are not created: a missing logdir may appear
 * with its file system. Files that are removed are opened anew, with a warning; their folder is
 * only created again if it is `below` the logdir, which checkpoints do not create again either. */
enum error event_writer_open(const char *folder, bool below,
                             struct event_writer **ret_writer) MUST_CHECK;
/* Writes pending events; if the disk hangs they are lost, and the thread is abandoned. NULL is
 * legal. */
void event_writer_close(struct event_writer *writer);

/* Values of one step. Takes microseconds per value: not for every step. */
void event_writer_scalars(struct event_writer *writer, int64_t step,
                          const struct event_scalar scalars[], size_t count);
/* The distribution of each tensor, in TensorFlow's buckets (limits grow by 1.1); values that are
 * not finite are left out. Both arrays are malloc()ed and taken; the writer's thread counts (about
 * 50 ns per value). At most two such calls are pending, further ones are dropped. */
void event_writer_tensors(struct event_writer *writer, int64_t step, struct event_tensor *tensors,
                          size_t count, float *values);
/* EVENT_START makes TensorBoard discard earlier files' data for this step and later ones, for a
 * training that resumes from a checkpoint. `path`: for EVENT_CHECKPOINT, else NULL. */
void event_writer_session(struct event_writer *writer, int64_t step, enum event_session session,
                          const char *path);

#endif
