/* SPDX-License-Identifier: MIT */
#include "common/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/text.h"

#define MESSAGE_BYTES (2 * ERROR_MESSAGE_BYTES)
#define HEAD_BYTES 256
#define KEY_BYTES 32
/* A byte becomes at most \u0000. */
#define FIELD_BYTES (KEY_BYTES + 6 * LOG_VALUE_BYTES + 8)
#define LINE_BYTES (HEAD_BYTES + 6 * MESSAGE_BYTES + LOG_FIELDS_LIMIT * FIELD_BYTES + 4)
#define ROOM_MS 1000

static _Atomic int lowest = LOG_INFO;
static _Atomic int style = LOG_TEXT;
static _Atomic bool has_sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the three below */
static void (*sink)(int level, const char *message, void *context);
static void *sink_context;
static uint64_t dropped; /* messages, since standard error took the last one */

static const char *const level_names[] = {"debug", "info", "warning", "error"};

void log_set_level(enum log_level level)
{
    atomic_store(&lowest, (int)level);
}

const char *log_level_name(enum log_level level)
{
    return level_names[level];
}

void log_set_format(enum log_format format)
{
    atomic_store(&style, (int)format);
}

/* In the child: its parent's thread that held it does not run here. */
static void renew_lock(void)
{
    pthread_mutex_init(&lock, NULL);
}

static void follow_forks(void)
{
    pthread_atfork(NULL, NULL, renew_lock);
}

static void take_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, follow_forks);
    pthread_mutex_lock(&lock);
}

void log_set_sink(void (*take)(int level, const char *message, void *context), void *context)
{
    take_lock();
    sink = take;
    sink_context = context;
    atomic_store(&has_sink, take != NULL);
    pthread_mutex_unlock(&lock);
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

/* A log that cannot be written must not stop the work, which reports its own failures. */
static bool write_line(int descriptor, char *line, size_t length)
{
    line[length++] = '\n';
    return write(descriptor, line, length) == (ssize_t)length;
}

/* Escapes `text` for a JSON string; bytes that are not UTF-8 all become '?'. Own code: nothing may
 * be allocated here, since a message may be about memory. */
static size_t escape(char *out, const char *text)
{
    bool utf8 = text_is_utf8(text, strlen(text));
    size_t length = 0;
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        size_t control = text_control_bytes(text, text[1] ? 2 : 1);
        if (byte == '"' || byte == '\\') {
            out[length++] = '\\';
            out[length++] = (char)byte;
        } else if (control == 1 || (control == 2 && utf8)) {
            text += control - 1;
            length += (size_t)sprintf(out + length, "\\u%04x", (unsigned char)*text);
        } else {
            out[length++] = byte >= 0x80 && !utf8 ? '?' : (char)byte;
        }
    }
    return length;
}

/* A truncated message may end within a character. */
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

/* ---- fields ------------------------------------------------------------- */

static bool is_plain(const char *text)
{
    const char *byte = text;
    while (*byte > ' ' && *byte < 0x7f && *byte != '"' && *byte != '=' && *byte != '\\')
        byte++;
    return byte > text && !*byte;
}

/* Returns the number of bytes, at most FIELD_BYTES. A text line quotes only what could be
 * misread. */
static size_t add_field(char *out, const struct log_field *field, bool json)
{
    char value[LOG_VALUE_BYTES];
    size_t length =
        (size_t)snprintf(out, KEY_BYTES + 8, json ? ",\"%.*s\":" : " %.*s=", KEY_BYTES, field->key);
    if (!field->is_text)
        return length + (size_t)sprintf(out + length, "%" PRId64, field->number);
    if (snprintf(value, sizeof(value), "%s", field->text) >= (int)sizeof(value))
        drop_half_character(value);
    bool quoted = json || !is_plain(value);
    if (quoted)
        out[length++] = '"';
    length += escape(out + length, value);
    if (quoted)
        out[length++] = '"';
    return length;
}

static size_t add_fields(char *out, const struct log_field *fields, bool json)
{
    size_t length = 0;
    for (int i = 0; i < LOG_FIELDS_LIMIT && fields[i].key; i++) {
        if (!fields[i].is_text || fields[i].text)
            length += add_field(out + length, &fields[i], json);
    }
    return length;
}

static const struct log_field no_fields[] = {{.key = NULL}};

/* ---- lines -------------------------------------------------------------- */

static bool write_json(int descriptor, enum log_level level, const char *message,
                       const struct log_field *fields)
{
    char time[64];
    char line[LINE_BYTES];
    write_time(time);
    int head = snprintf(line, HEAD_BYTES, "{\"ts\":\"%s\",\"level\":\"%s\",\"pid\":%d,\"msg\":\"",
                        time, level_names[level], (int)getpid());
    size_t length = head < HEAD_BYTES ? (size_t)head : HEAD_BYTES - 1;
    length += escape(line + length, message);
    line[length++] = '"';
    length += add_fields(line + length, fields, true);
    line[length++] = '}';
    return write_line(descriptor, line, length);
}

static void write_text(enum log_level level, const char *message, const struct log_field *fields)
{
    char time[64];
    char line[LINE_BYTES];
    write_time(time);
    size_t bytes = HEAD_BYTES + MESSAGE_BYTES;
    int wanted = snprintf(line, bytes, "%s %-7s %s", time, level_names[level], message);
    size_t length = (size_t)wanted < bytes ? (size_t)wanted : bytes - 1;
    length += add_fields(line + length, fields, false);
    write_line(STDERR_FILENO, line, length);
}

static bool hand_to_sink(enum log_level level, const char *message, const struct log_field *fields)
{
    char line[LINE_BYTES];
    if (!atomic_load(&has_sink))
        return false;
    size_t length = (size_t)snprintf(line, MESSAGE_BYTES, "%s", message);
    length += add_fields(line + length, fields, false);
    line[length] = '\0';
    take_lock();
    bool takes = sink != NULL;
    if (takes)
        sink((int)level, line, sink_context);
    pthread_mutex_unlock(&lock);
    return takes;
}

/* A pipe that nobody reads takes no more: false after `patience_ms`, so that no write hangs. */
static bool has_room(int64_t patience_ms)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    int64_t deadline_ns = clock_deadline_ns(patience_ms);
    int ready = 0;
    do {
        ready = poll(&room, 1, (int)clock_left_ms(deadline_ns));
    } while (ready < 0 && errno == EINTR);
    return ready != 0;
}

static void write_either(enum log_level level, const char *message, const struct log_field *fields)
{
    if (atomic_load_explicit(&style, memory_order_relaxed) == LOG_JSON)
        write_json(STDERR_FILENO, level, message, fields);
    else
        write_text(level, message, fields);
}

/* Only the first message without room waits for it, and only one thread writes: the room that it
 * found is still there. */
static void write_or_drop(enum log_level level, const char *message, const struct log_field *fields)
{
    take_lock();
    bool room = has_room(dropped > 0 ? 0 : ROOM_MS);
    if (room && dropped > 0) {
        char loss[MESSAGE_BYTES];
        snprintf(loss, sizeof(loss),
                 "%" PRIu64 " messages before this one are missing: nobody read standard error",
                 dropped);
        write_either(LOG_WARNING, loss, no_fields);
        dropped = 0;
        room = has_room(0);
    }
    if (room)
        write_either(level, message, fields);
    else
        dropped++;
    pthread_mutex_unlock(&lock);
}

static bool is_heard(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&lowest, memory_order_relaxed);
}

static void write_event(enum log_level level, const char *message, const struct log_field *fields)
{
    char cut[MESSAGE_BYTES];
    if (snprintf(cut, sizeof(cut), "%s", message) >= (int)sizeof(cut))
        drop_half_character(cut);
    if (!hand_to_sink(level, cut, fields))
        write_or_drop(level, cut, fields);
}

bool log_announce(const char *message, const struct log_field *fields)
{
    char line[MESSAGE_BYTES + 1];
    size_t length = strnlen(message, MESSAGE_BYTES);
    if (atomic_load_explicit(&style, memory_order_relaxed) == LOG_JSON)
        return write_json(STDOUT_FILENO, LOG_INFO, message, fields);
    memcpy(line, message, length);
    return write_line(STDOUT_FILENO, line, length);
}

void log_fields(enum log_level level, const char *message, const struct log_field *fields)
{
    if (is_heard(level))
        write_event(level, message, fields);
}

void log_message(enum log_level level, const char *format, ...)
{
    if (!is_heard(level))
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
    text_mask_controls(message);
    write_event(level, message, no_fields);
}

void log_failure(const char *program, const char *command, const char *message)
{
    const struct log_field of_whom[] = {
        log_text("program", program), log_text("command", command), {.key = NULL}};
    if (atomic_load(&style) == LOG_JSON)
        write_event(LOG_ERROR, message, of_whom);
    else if (has_room(ROOM_MS))
        fprintf(stderr, "%s %s: %s\n", program, command, message);
}
