/* SPDX-License-Identifier: MIT */
#include "common/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 256

void buffer_release(struct buffer *buffer)
{
    free(buffer->data);
    buffer->data = NULL;
    buffer->length = 0;
    buffer->capacity = 0;
    buffer->error = OK;
}

enum error buffer_take(struct buffer *buffer, char **ret_text)
{
    enum error error = buffer->error;
    if (!error) {
        *ret_text = buffer->data;
        buffer->data = NULL;
    }
    buffer_release(buffer);
    return error;
}

void buffer_clear(struct buffer *buffer)
{
    buffer->length = 0;
    buffer->error = OK;
    if (buffer->data)
        buffer->data[0] = '\0';
}

static enum error grow(struct buffer *buffer, size_t needed)
{
    size_t capacity = buffer->capacity ? buffer->capacity : FIRST_CAPACITY;
    while (capacity < needed)
        capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
    if (capacity - 1 > buffer->limit_bytes)
        capacity = buffer->limit_bytes + 1; /* still enough: the caller checked the limit */
    char *data = realloc(buffer->data, capacity);
    if (!data)
        return error_set_memory(capacity, "a buffer");
    buffer->data = data;
    buffer->capacity = capacity;
    return OK;
}

bool buffer_fits(const struct buffer *buffer, size_t bytes)
{
    return bytes <= buffer->limit_bytes && buffer->length <= buffer->limit_bytes - bytes &&
           buffer->limit_bytes < SIZE_MAX;
}

enum error buffer_reserve(struct buffer *buffer, size_t bytes)
{
    if (buffer->error)
        return buffer->error;
    size_t needed = buffer->length + bytes + 1; /* the NUL */
    if (!buffer_fits(buffer, bytes))
        buffer->error =
            error_set(ERROR_MEMORY, "%zu bytes and %zu more are over the limit of %zu bytes",
                      buffer->length, bytes, buffer->limit_bytes);
    else if (needed > buffer->capacity)
        buffer->error = grow(buffer, needed);
    return buffer->error;
}

enum error buffer_add(struct buffer *buffer, const void *bytes, size_t length)
{
    enum error error = buffer_reserve(buffer, length);
    if (error)
        return error;
    if (length > 0)
        memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
    return OK;
}

enum error buffer_add_text(struct buffer *buffer, const char *text)
{
    return buffer_add(buffer, text, strlen(text));
}

enum error buffer_add_csv(struct buffer *buffer, const char *text)
{
    if (!strpbrk(text, ",\"\r\n"))
        return buffer_add_text(buffer, text);
    buffer_add_text(buffer, "\"");
    for (; *text; text++)
        buffer_add(buffer, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    return buffer_add_text(buffer, "\"");
}

enum error buffer_add_shell(struct buffer *buffer, const char *text)
{
    buffer_add_text(buffer, "'");
    for (; *text; text++)
        buffer_add(buffer, *text == '\'' ? "'\\''" : text, *text == '\'' ? 4 : 1);
    return buffer_add_text(buffer, "'");
}

/* vsnprintf() may also need memory. */
static enum error refuse_format(struct buffer *buffer, const char *format)
{
    if (!buffer->error)
        buffer->error = error_set(ERROR_MEMORY, "text for format \"%s\" cannot be printed", format);
    return buffer->error;
}

enum error buffer_print(struct buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return refuse_format(buffer, format);
    if (buffer_reserve(buffer, (size_t)length))
        return buffer->error;
    va_start(args, format);
    int printed = vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, args);
    va_end(args);
    if (printed != length)
        return refuse_format(buffer, format);
    buffer->length += (size_t)length;
    return OK;
}
