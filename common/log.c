#include "common/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int lowest = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&lowest, (int)level);
}

static size_t write_head(char *line, size_t bytes, enum log_level level)
{
    static const char *const names[] = {"debug", "info ", "warn ", "error"};
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t length = strftime(line, bytes, "%Y-%m-%dT%H:%M:%S", &utc);
    length += (size_t)snprintf(line + length, bytes - length, ".%03dZ %s ",
                               (int)(now.tv_nsec / 1000000), names[level]);
    return length;
}

void log_message(enum log_level level, const char *format, ...)
{
    if ((int)level < atomic_load_explicit(&lowest, memory_order_relaxed))
        return;
    char line[2 * ERROR_MESSAGE_BYTES];
    size_t length = write_head(line, sizeof(line), level);
    size_t room = sizeof(line) - length - 1; /* one byte for the line end */
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(line + length, room, format, args);
    va_end(args);
    if (wanted > 0)
        length += (size_t)wanted < room ? (size_t)wanted : room - 1;
    line[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* a log that cannot be written must not stop the work */
}
