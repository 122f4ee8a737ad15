/*
 * The log: one line a message on standard error, as text or as a JSON object:
 *
 *   2026-11-21T10:30:00.123Z info  listening on ...
 *   {"ts":"2026-11-21T10:30:00.123Z","level":"info","pid":7,"msg":"listening on ..."}
 *
 * Standard output belongs to a program's results. Each line is one write(2), so that lines of
 * several threads and processes never mix. Safe from every thread.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "common/error.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

/* Messages below `level` are dropped; LOG_INFO at the start. */
void log_set_level(enum log_level level);
/* LOG_TEXT at the start. */
void log_set_format(enum log_format format);

void log_message(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

/* How a command failed, as main() tells it: "PROGRAM COMMAND: message" without time and level, or
 * a JSON line with "program" and "command". */
void log_failure(const char *program, const char *command, const char *message);

#define log_debug(...) log_message(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_message(LOG_INFO, __VA_ARGS__)
#define log_warning(...) log_message(LOG_WARNING, __VA_ARGS__)
#define log_error(...) log_message(LOG_ERROR, __VA_ARGS__)

#endif
