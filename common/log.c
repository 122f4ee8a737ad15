#include "common/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/text.h"

#define MESSAGE_BYTES (2 * ERROR_MESSAGE_BYTES)
#define HEAD_BYTES 256
/* A byte becomes \u0000 at most. */
#define LINE_BYTES (HEAD_BYTES + 6 * MESSAGE_BYTES + 4)

static _Atomic int lowest = LOG_INFO;
static _Atomic int style = LOG_TEXT;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_set_level(enum log_level level)
{
    atomic_store(&lowest, (int)level);
}

void log_set_format(enum log_format format)
{
    atomic_store(&style, (int)format);
}

static void write_time(char out[64])
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t length = strftime(out, 40, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out + length, 64 - length, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

static void write_line(char *line, size_t length)
{
    line[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* a log that cannot be written must not stop the work */
}

/* `text` as the inside of a JSON string; bytes that are not UTF-8 all become '?'. Own code: nothing
 * may be allocated here, a message may be about memory. */
static size_t escape(char *out, const char *text)
{
    bool utf8 = text_is_utf8(text, strlen(text));
    size_t length = 0;
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            out[length++] = '\\';
            out[length++] = (char)byte;
        } else if (byte < 0x20) {
            length += (size_t)sprintf(out + length, "\\u%04x", byte);
        } else {
            out[length++] = byte >= 0x80 && !utf8 ? '?' : (char)byte;
        }
    }
    return length;
}

/* A message that was cut may end within a character. */
static void drop_half_character(char *text)
{
    size_t length = strlen(text);
    for (size_t cut = 0; cut < 4 && cut < length; cut++) {
        if (text_is_utf8(text, length - cut)) {
            text[length - cut] = '\0';
            return;
        }
    }
}

static void write_json(enum log_level level, const char *fields, const char *message)
{
    char time[64];
    char line[LINE_BYTES];
    write_time(time);
    int head = snprintf(line, HEAD_BYTES, "{\"ts\":\"%s\",\"level\":\"%s\",\"pid\":%d,%s\"msg\":\"",
                        time, level_names[level], (int)getpid(), fields);
    size_t length = head < HEAD_BYTES ? (size_t)head : HEAD_BYTES - 1;
    length += escape(line + length, message);
    line[length++] = '"';
    line[length++] = '}';
    write_line(line, length);
}

static void write_text(enum log_level level, const char *message)
{
    char time[64];
    char line[HEAD_BYTES + MESSAGE_BYTES];
    write_time(time);
    int length = snprintf(line, sizeof(line) - 1, "%s %-5s %s", time, level_names[level], message);
    write_line(line, (size_t)length < sizeof(line) - 1 ? (size_t)length : sizeof(line) - 2);
}

void log_message(enum log_level level, const char *format, ...)
{
    if ((int)level < atomic_load_explicit(&lowest, memory_order_relaxed))
        return;
    char message[MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (wanted < 0)
        message[0] = '\0';
    else if ((size_t)wanted >= sizeof(message))
        drop_half_character(message);
    if (atomic_load_explicit(&style, memory_order_relaxed) == LOG_JSON)
        write_json(level, "", message);
    else
        write_text(level, message);
}

void log_failure(const char *program, const char *command, const char *message)
{
    char fields[HEAD_BYTES / 2]; /* both names are our own: nothing to escape */
    if (atomic_load(&style) != LOG_JSON) {
        fprintf(stderr, "%s %s: %s\n", program, command, message);
        return;
    }
    snprintf(fields, sizeof(fields), "\"program\":\"%s\",\"command\":\"%s\",", program, command);
    write_json(LOG_ERROR, fields, message);
}
