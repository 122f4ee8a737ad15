/* SPDX-License-Identifier: MIT */
/* The table of streams, for streams*.c. The mutex is held for all functions, or no other thread is
 * running yet. */
#ifndef SAMPLER_STREAM_STREAMS_PRIVATE_H
#define SAMPLER_STREAM_STREAMS_PRIVATE_H

#include "common/buffer.h"
#include "sampler/stream/stream_private.h"

/* Names of deleted streams, with their generation; of older ones only the highest generation is
 * known. */
#define FORGOTTEN_LIMIT 10000

struct stream *streams_find(const struct streams *streams, const char *name);
struct stream *streams_numbered(const struct streams *streams, uint32_t number);
/* Room for one more. */
enum error streams_reserve(struct streams *streams) MUST_CHECK;
void streams_add(struct streams *streams, struct stream *stream);
/* Removes it from the table, which held a reference. */
void streams_remove(struct streams *streams, struct stream *stream);
/* Reverts streams_remove(). Its name stays among the free ones, which has no effect while a stream
 * has it. */
void streams_put_back(struct streams *streams, struct stream *stream);
enum error streams_reserve_name(struct streams *streams) MUST_CHECK;
void streams_forget_name(struct streams *streams, const char *name, int64_t generation);

/* Appends to the journal, if there is one. */
enum error streams_append(struct streams *streams, const struct entry *entry) MUST_CHECK;
/* Adds a new stream to the journal, then to the table. */
enum error streams_insert(struct streams *streams, struct stream *stream) MUST_CHECK;
/* Its definition and binding as a text; the caller releases the buffer, also on failure. */
enum error streams_write_definition(const struct stream *stream, struct buffer *buffer) MUST_CHECK;

/* The journal's callbacks (struct journal_owner); `ledgers` is a struct streams. The mutex is not
 * held for streams_take_back(). */
enum error streams_replay(void *ledgers, const struct entry *entry) MUST_CHECK;
enum error streams_write(void *ledgers, enum error (*add)(void *adding, const struct entry *entry),
                         void *adding) MUST_CHECK;
enum error streams_ledgers_new(void **ret_ledgers) MUST_CHECK;
void streams_ledgers_free(void *ledgers);
bool streams_undo(void *ledgers, struct journal_waiter *waiter);
void streams_take_back(void *ledgers, void *kept);

#endif
