/* SPDX-License-Identifier: MIT */
/*
 * A program's results on their way to a file descriptor, in blocks. A reader that is gone is
 * ERROR_IO (the caller has SIGPIPE ignored, as stop_install() does), a full disk ERROR_NO_SPACE; a
 * slow reader blocks the writer, until SIGINT or SIGTERM (ERROR_CANCELLED): what does not have to
 * wait is written even then. One thread.
 */
#ifndef COMMON_OUTPUT_H
#define COMMON_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct output;

/* `descriptor` is borrowed until output_close(); `name` is for messages, a literal. */
enum error output_open(int descriptor, const char *name, struct output **ret_output) MUST_CHECK;
/* Standard output; ERROR_IO where it is closed, before anything is done for it. */
enum error output_open_standard(struct output **ret_output) MUST_CHECK;
/* From now on stdio's stdout, too, waits for a slow reader until SIGINT or SIGTERM only; its writes
 * then fail with ECANCELED. */
enum error output_take_stdio(void) MUST_CHECK;
/* An unlinked temporary file in $TMPDIR, else /tmp; its descriptor is closed with it. */
enum error output_open_temporary(struct output **ret_output) MUST_CHECK;
/* Bytes not flushed are dropped. NULL is legal. */
void output_close(struct output *output);

/* `bytes` of room to write into; what was written there is added with output_advance(). */
enum error output_reserve(struct output *output, size_t bytes, char **ret_room) MUST_CHECK;
void output_advance(struct output *output, size_t bytes);
enum error output_add(struct output *output, const void *bytes, size_t length) MUST_CHECK;
enum error output_flush(struct output *output) MUST_CHECK;
/* Closes it after `error`, which is returned, but where a write failed because nobody reads any
 * more: such as head, which has all it wants. */
enum error output_end(struct output *output, enum error error) MUST_CHECK;

/* Can bytes that were added before be replaced? Not on pipes, nor where all writes append. */
bool output_seekable(const struct output *output);
/* Flushes and replaces `length` bytes at `offset`, counted from where the output began. */
enum error output_patch(struct output *output, const void *bytes, size_t length,
                        uint64_t offset) MUST_CHECK;
/* Flushes `from` (seekable) and adds all of it to `to`. */
enum error output_copy(struct output *to, struct output *from) MUST_CHECK;

#endif
