/* SPDX-License-Identifier: MIT */
/*
 * A file that whole events are appended to. What cannot be written whole is cut off again, so that
 * a full disk leaves no half of one. One thread.
 */
#ifndef TRAINER_EVENTS_EVENT_FILE_H
#define TRAINER_EVENTS_EVENT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buffer.h"

struct event_file {
    int descriptor; /* -1: not open */
    char path[4096];
    off_t length;           /* of what is whole */
    bool is_failing;        /* as the log said last */
    int64_t failures;       /* writes that failed since then */
    int64_t quiet_until_ns; /* until then it says no more */
};

/* The event file of this start, a new one: events.out.tfevents.SECONDS.HOST.PID, with .1, .2, ...
 * behind it where that is taken. */
enum error event_file_create(struct event_file *file, const char *folder) MUST_CHECK;
/* events.jsonl. A last line that a kill has cut off is ended. */
enum error event_file_append(struct event_file *file, const char *folder) MUST_CHECK;
void event_file_close(struct event_file *file);

/* Whether the bytes were written. A failure is a warning, and that it works again a line: one of
 * them a minute, with the number of failures. */
bool event_file_write(struct event_file *file, const struct buffer *bytes);

#endif
