/* SPDX-License-Identifier: MIT */
/* The table of streams, for streams*.c. The mutex is held for all of it, or nobody else is there
 * yet. */
#ifndef SAMPLER_STREAM_STREAMS_PRIVATE_H
#define SAMPLER_STREAM_STREAMS_PRIVATE_H

#include "common/buffer.h"
#include "sampler/stream/stream_private.h"

/* Names that were deleted, with their generation; of older ones only the highest is known. */
#define FORGOTTEN_LIMIT 10000

struct stream *streams_find(const struct streams *streams, const char *name);
struct stream *streams_numbered(const struct streams *streams, uint32_t number);
/* Room for one more. */
enum error streams_reserve(struct streams *streams) MUST_CHECK;
void streams_add(struct streams *streams, struct stream *stream);
/* Out of the table, which held it. */
void streams_remove(struct streams *streams, struct stream *stream);
/* As before streams_remove(). Its name stays among those that are free, which says nothing while a
 * stream has it. */
void streams_put_back(struct streams *streams, struct stream *stream);
enum error streams_reserve_name(struct streams *streams) MUST_CHECK;
void streams_forget_name(struct streams *streams, const char *name, int64_t generation);

/* Into the journal; nothing without one. */
enum error streams_append(struct streams *streams, const struct entry *entry) MUST_CHECK;
/* A new stream, in the journal and then in the table. */
enum error streams_insert(struct streams *streams, struct stream *stream) MUST_CHECK;
/* Its definition and binding as a text; release the buffer, also on failure. */
enum error streams_write_definition(const struct stream *stream, struct buffer *buffer) MUST_CHECK;

/* What the journal asks of its owner (journal.h); `ledgers` are a struct streams. The mutex is not
 * held for streams_take_back(). */
enum error streams_replay(void *ledgers, const struct entry *entry) MUST_CHECK;
enum error streams_write(void *ledgers, enum error (*add)(void *adding, const struct entry *entry),
                         void *adding) MUST_CHECK;
enum error streams_ledgers_new(void **ret_ledgers) MUST_CHECK;
void streams_ledgers_free(void *ledgers);
bool streams_undo(void *ledgers, struct journal_waiter *waiter);
void streams_take_back(void *ledgers, void *kept);

#endif
