/* SPDX-License-Identifier: MIT */
/*
 * Writes a program's results to a file descriptor, in blocks. A vanished reader is ERROR_IO (the
 * caller ignores SIGPIPE, see stop_install()), a full disk ERROR_NO_SPACE. A slow reader blocks the
 * writer until a signal to stop (ERROR_CANCELLED); what can be written without waiting is written
 * even then. One thread.
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
/* Standard output; ERROR_IO if it is closed, before any work is done. */
enum error output_open_standard(struct output **ret_output) MUST_CHECK;
/* From now on stdio's stdout also waits for a slow reader only until a signal to stop; its writes
 * then fail with ECANCELED. */
enum error output_take_stdio(void) MUST_CHECK;
/* An unlinked temporary file in $TMPDIR, else /tmp; output_close() closes its descriptor. */
enum error output_open_temporary(struct output **ret_output) MUST_CHECK;
/* Drops bytes that were not flushed. NULL is legal. */
void output_close(struct output *output);

/* Gives `bytes` of room to write into; output_advance() adds what was written there. */
enum error output_reserve(struct output *output, size_t bytes, char **ret_room) MUST_CHECK;
void output_advance(struct output *output, size_t bytes);
enum error output_add(struct output *output, const void *bytes, size_t length) MUST_CHECK;
enum error output_flush(struct output *output) MUST_CHECK;
/* Closes it and returns `error`, unless a write failed because the reader has gone: `head` has all
 * it wants. */
enum error output_end(struct output *output, enum error error) MUST_CHECK;

/* Can bytes already added be replaced? Not on pipes, nor if all writes append. */
bool output_seekable(const struct output *output);
/* Flushes, then replaces `length` bytes at `offset`, counted from where the output began. */
enum error output_patch(struct output *output, const void *bytes, size_t length,
                        uint64_t offset) MUST_CHECK;
/* Flushes `from` (seekable) and adds all of it to `to`. */
enum error output_copy(struct output *to, struct output *from) MUST_CHECK;

#endif
