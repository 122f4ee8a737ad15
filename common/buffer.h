/* SPDX-License-Identifier: MIT */
/*
 * Bytes that grow up to a limit. Always NUL-terminated once something was added, so that `data`
 * is also a C string. Start with BUFFER_INIT(limit); buffer_release() gives the memory back.
 *
 * The first add that fails is kept in `error`: those after it add nothing and return the same, so
 * that a text of many parts is checked once, at its end. Not for several threads at once.
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
    size_t limit_bytes; /* more than this is ERROR_MEMORY */
    enum error error;   /* of the first add that failed */
};

#define BUFFER_INIT(limit)     \
    {                          \
        .limit_bytes = (limit) \
    }

void buffer_release(struct buffer *buffer);

/* The text moves to the caller, who frees it; or the error of the first add that failed. Released
 * either way. */
enum error buffer_take(struct buffer *buffer, char **ret_text) MUST_CHECK;

/* Empty and without an error; keeps the memory. */
void buffer_clear(struct buffer *buffer);

/* Are `bytes` more within the limit? */
bool buffer_fits(const struct buffer *buffer, size_t bytes);
/* Room for `bytes` more behind `length`; data + length may then be written directly. */
enum error buffer_reserve(struct buffer *buffer, size_t bytes) MUST_CHECK;
enum error buffer_add(struct buffer *buffer, const void *bytes, size_t length);
enum error buffer_add_text(struct buffer *buffer, const char *text);
/* As one field of CSV: quoted where it has to be. */
enum error buffer_add_csv(struct buffer *buffer, const char *text);
enum error buffer_print(struct buffer *buffer, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
