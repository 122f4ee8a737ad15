/* SPDX-License-Identifier: MIT */
/*
 * A file to which whole events are appended. A partial write is truncated, so that a full disk
 * leaves no fragment. One thread.
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
    off_t length;           /* of the complete part */
    bool has_fragment;      /* behind it, which could not be cut off yet */
    bool is_failing;        /* according to the last log line */
    int64_t failures;       /* failed writes since then */
    int64_t quiet_until_ns; /* no more log lines before then */
};

/* Creates the event file of this start: events.out.tfevents.SECONDS.HOST.PID, with the suffix .1,
 * .2, ... if it exists. SECONDS since 1970 by the clock, or more: greater than in other files. */
enum error event_file_create(struct event_file *file, const char *folder) MUST_CHECK;
/* events.jsonl. Terminates a last line that a kill has cut off. */
enum error event_file_append(struct event_file *file, const char *folder) MUST_CHECK;
/* Open, but no longer in any folder: it was removed. */
bool event_file_is_removed(const struct event_file *file);
void event_file_close(struct event_file *file);

/* Were the bytes written? Logs a warning for a failure, and a line when writes work again: at most
 * one per minute, with the number of failures. */
bool event_file_write(struct event_file *file, const struct buffer *bytes);

#endif
