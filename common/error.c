/* SPDX-License-Identifier: MIT */
/* The message is a thread-local array: setting an error allocates nothing and cannot fail. */
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"

static _Thread_local char message[ERROR_MESSAGE_BYTES];
static _Thread_local const char *kind;

enum error error_set(enum error code, const char *format, ...)
{
    char text[ERROR_MESSAGE_BYTES]; /* an argument may be the old message */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    text_mask_controls(text);
    memcpy(message, text, sizeof(text));
    kind = NULL;
    return code;
}

static enum error code_of_errno(enum error code, int errno_value)
{
    switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
        return ERROR_NO_SPACE;
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
        return ERROR_NOT_FOUND;
    case ENOMEM:
        return ERROR_MEMORY;
    default:
        return code;
    }
}

enum error error_set_errno(enum error code, int errno_value, const char *format, ...)
{
    char text[ERROR_MESSAGE_BYTES];
    char system_text[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const char *reason = strerror_r(errno_value, system_text, sizeof(system_text));
    return error_set(code_of_errno(code, errno_value), "%s: %s", text, reason);
}

enum error error_set_memory(size_t bytes, const char *what)
{
    return error_set(ERROR_MEMORY, "out of memory (%zu bytes for %s)", bytes, what);
}

enum error error_prefix(enum error code, const char *format, ...)
{
    char text[ERROR_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof(text))
        snprintf(text + length, sizeof(text) - (size_t)length, "%s", message);
    text_mask_controls(text);
    memcpy(message, text, sizeof(text));
    return code;
}

enum error error_set_kind(enum error code, const char *word)
{
    kind = word;
    return code;
}

const char *error_kind(void)
{
    return kind;
}

const char *error_message(void)
{
    return message[0] ? message : "no message";
}

void error_report_take(enum error code, struct error_report *ret_report)
{
    ret_report->code = code;
    ret_report->kind = kind;
    memcpy(ret_report->message, message, sizeof(message));
}

enum error error_restore(const struct error_report *report)
{
    memcpy(message, report->message, sizeof(message));
    kind = report->kind;
    return report->code;
}

int error_exit_status(enum error code)
{
    switch (code) {
    case OK:
    case ERROR_END:
        return 0;
    case ERROR_USAGE:
    case ERROR_INPUT:
    case ERROR_NOT_FOUND:
    case ERROR_CONFLICT:
        return 2;
    default:
        return 1;
    }
}
