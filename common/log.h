/* SPDX-License-Identifier: MIT */
/*
 * The log: one line per message on standard error, as text or as a JSON object:
 *
 *   2026-11-21T10:30:00.123Z info    listening on ...
 *   {"ts":"2026-11-21T10:30:00.123Z","level":"info","pid":7,"msg":"listening on ..."}
 *
 * log_event() adds fields, for programs and people to search by:
 *
 *   2026-11-21T10:30:00.123Z info    stream deleted stream=eval generation=2
 *   {"ts":...,"level":"info","pid":7,"msg":"stream deleted","stream":"eval","generation":2}
 *
 * Standard output belongs to a program's results. Each line is one write(2), so lines of several
 * threads and processes never mix. If standard error is a pipe that nobody reads, a message waits a
 * second for room; it and later ones are then dropped until there is some, and counted in a line.
 * Any thread.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

/* Drops messages below `level`; default LOG_INFO. */
void log_set_level(enum log_level level);
/* "debug", "info", "warning" or "error", as in the option and the log. */
const char *log_level_name(enum log_level level);
/* Default LOG_TEXT. */
void log_set_format(enum log_format format);
/* Sends messages to `take` instead of standard error, one at a time, followed by their fields;
 * NULL: back to standard error. Returns once no call of the previous sink is running. `level`: enum
 * log_level. */
void log_set_sink(void (*take)(int level, const char *message, void *context), void *context);

void log_message(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

/* One field of a line: a text or a number under a key of [a-z_]. */
struct log_field {
    const char *key;  /* NULL ends a list */
    const char *text; /* cut after LOG_VALUE_BYTES */
    int64_t number;   /* if not is_text */
    bool is_text;     /* a NULL text omits the field: the value is unknown */
};
#define LOG_VALUE_BYTES 160
#define LOG_FIELDS_LIMIT 12 /* per line; further ones are omitted */

#define log_text(name, value) ((struct log_field){.key = (name), .text = (value), .is_text = true})
/* Ends a list; stands for "no fields". */
#define LOG_NO_FIELD ((struct log_field){.key = NULL})
#define log_number(name, value) ((struct log_field){.key = (name), .number = (value)})

/* log_event(LOG_INFO, "stream deleted", log_text("stream", name), log_number("generation", 2)) */
#define log_event(level, message, ...) \
    log_fields(level, message, (const struct log_field[]){__VA_ARGS__, {.key = NULL}})
void log_fields(enum log_level level, const char *message, const struct log_field *fields);

/* Writes a line on standard output that others wait for: the message alone, or as the log's JSON
 * object with its fields. Cut as log messages are. false: it could not be written. */
bool log_announce(const char *message, const struct log_field *fields);

/* Reports a command's failure for main(): "PROGRAM COMMAND: message" without time and level, or a
 * JSON line with "program" and "command". */
void log_failure(const char *program, const char *command, const char *message);

#define log_debug(...) log_message(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_message(LOG_INFO, __VA_ARGS__)
#define log_warning(...) log_message(LOG_WARNING, __VA_ARGS__)
#define log_error(...) log_message(LOG_ERROR, __VA_ARGS__)

#endif
