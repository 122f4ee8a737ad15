/* SPDX-License-Identifier: MIT */
/*
 * Bytes that grow up to a limit. NUL-terminated once something was added, so `data` is also a C
 * string. Start with BUFFER_INIT(limit); buffer_release() frees the memory.
 *
 * `error` keeps the first failure: later adds add nothing and return it, so a text of many parts is
 * checked once, at its end. Not thread-safe.
 */
#ifndef COMMON_BUFFER_H
#define COMMON_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

struct buffer {
    char *data;    /* owned; NULL while empty */
    size_t length; /* without the NUL */
    size_t capacity;
    size_t limit_bytes; /* exceeding it is ERROR_MEMORY */
    enum error error;   /* the first failure */
};

#define BUFFER_INIT(limit)     \
    {                          \
        .limit_bytes = (limit) \
    }

void buffer_release(struct buffer *buffer);

/* Moves the text to the caller, who frees it, or returns the first failure. Releases the buffer
 * either way. */
enum error buffer_take(struct buffer *buffer, char **ret_text) MUST_CHECK;

/* Empties the buffer and clears its error; keeps the memory. */
void buffer_clear(struct buffer *buffer);

/* Do `bytes` more fit within the limit? */
bool buffer_fits(const struct buffer *buffer, size_t bytes);
/* Makes room for `bytes` more after `length`; data + length may then be written directly. */
enum error buffer_reserve(struct buffer *buffer, size_t bytes) MUST_CHECK;
enum error buffer_add(struct buffer *buffer, const void *bytes, size_t length);
enum error buffer_add_text(struct buffer *buffer, const char *text);
/* Adds a CSV field, quoted if necessary. */
enum error buffer_add_csv(struct buffer *buffer, const char *text);
/* Adds a word of a shell's command line, in quotes. */
enum error buffer_add_shell(struct buffer *buffer, const char *text);
enum error buffer_print(struct buffer *buffer, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
