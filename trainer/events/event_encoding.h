/* SPDX-License-Identifier: MIT */
/*
 * Encodes an event as a record of an event file and as a line of events.jsonl: appends both, or
 * neither if one buffer lacks room. False: no room.
 */
#ifndef TRAINER_EVENTS_EVENT_ENCODING_H
#define TRAINER_EVENTS_EVENT_ENCODING_H

#include <stdbool.h>

#include "common/buffer.h"
#include "trainer/events/event_writer.h"
#include "trainer/events/histogram.h"

struct event_buffers {
    struct buffer records, lines;
};

struct event_time {
    double wall_seconds; /* since 1970 */
    int64_t step;
};

/* The first record of a file; no line. */
bool event_encode_version(struct event_buffers *out, struct event_time time);
bool event_encode_scalars(struct event_buffers *out, struct event_time time,
                          const struct event_scalar scalars[], size_t count);
bool event_encode_histogram(struct event_buffers *out, struct event_time time, const char *tag,
                            const struct histogram *histogram);
bool event_encode_session(struct event_buffers *out, struct event_time time,
                          enum event_session session, const char *path);

#endif
