/* SPDX-License-Identifier: MIT */
/* The table of streams, and what the journal says of it. What a server does at its start and end is
 * in streams_open.c. */
#include "sampler/stream/streams.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/journal/committer.h"
#include "sampler/journal/journal_record.h"
#include "sampler/ledger/conflicts.h"
#include "sampler/stream/stream_private.h"
#include "sampler/stream/streams_private.h"

#define DEFINITION_BYTES_LIMIT ((size_t)256 << 20) /* shares of very many labels */

/* ---- names: the mutex is held ------------------------------------------- */

struct stream *streams_find(const struct streams *streams, const char *name)
{
    for (size_t i = 0; i < streams->count; i++) {
        if (strcmp(streams->items[i]->definition.name, name) == 0)
            return streams->items[i];
    }
    return NULL;
}

static int64_t next_generation(const struct streams *streams, const char *name)
{
    for (size_t i = 0; i < streams->forgotten_count; i++) {
        if (strcmp(streams->forgotten[i].name, name) == 0)
            return streams->forgotten[i].generation + 1;
    }
    return streams->generation_floor + 1;
}

enum error streams_reserve_name(struct streams *streams)
{
    void *forgotten = streams->forgotten;
    enum error error =
        array_grow(&forgotten, &streams->forgotten_capacity, streams->forgotten_count + 1,
                   sizeof(*streams->forgotten), "the names of streams");
    streams->forgotten = forgotten;
    return error;
}

void streams_forget_name(struct streams *streams, const char *name, int64_t generation)
{
    struct forgotten_name *entry = NULL;
    for (size_t i = 0; i < streams->forgotten_count && !entry; i++) {
        if (strcmp(streams->forgotten[i].name, name) == 0)
            entry = &streams->forgotten[i];
    }
    if (!entry && streams->forgotten_count == FORGOTTEN_LIMIT) {
        entry = &streams->forgotten[0]; /* the oldest: its generations never come back either */
        if (entry->generation > streams->generation_floor)
            streams->generation_floor = entry->generation;
        memmove(entry, entry + 1, (FORGOTTEN_LIMIT - 1) * sizeof(*entry));
        entry = &streams->forgotten[FORGOTTEN_LIMIT - 1];
    } else if (!entry) {
        entry = &streams->forgotten[streams->forgotten_count++];
    }
    memset(entry, 0, sizeof(*entry));
    memcpy(entry->name, name, strlen(name) + 1);
    entry->generation = generation;
}

/* ---- the table: the mutex is held --------------------------------------- */

enum error streams_reserve(struct streams *streams)
{
    void *items = streams->items;
    enum error error = array_grow(&items, &streams->capacity, streams->count + 1,
                                  sizeof(struct stream *), "the streams");
    streams->items = items;
    return error;
}

void streams_add(struct streams *streams, struct stream *stream)
{
    streams->items[streams->count++] = stream;
    if (stream->number >= streams->next_number)
        streams->next_number = stream->number + 1;
}

void streams_remove(struct streams *streams, struct stream *stream)
{
    size_t i = 0;
    while (streams->items[i] != stream)
        i++;
    memmove(&streams->items[i], &streams->items[i + 1],
            (streams->count - i - 1) * sizeof(struct stream *));
    streams->count--;
    stream->deleted = true;
}

void streams_put_back(struct streams *streams, struct stream *stream)
{
    size_t i = streams->count++; /* its place is still there: nobody else took it for good */
    for (; i > 0 && streams->items[i - 1]->number > stream->number; i--)
        streams->items[i] = streams->items[i - 1];
    streams->items[i] = stream;
    stream_take(stream);
    stream->deleted = false;
}

struct stream *streams_numbered(const struct streams *streams, uint32_t number)
{
    size_t low = 0;
    size_t high = streams->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (streams->items[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < streams->count && streams->items[low]->number == number;
    return found ? streams->items[low] : NULL;
}

/* ---- entries about streams ---------------------------------------------- */

enum error streams_write_definition(const struct stream *stream, struct buffer *buffer)
{
    *buffer = (struct buffer)BUFFER_INIT(DEFINITION_BYTES_LIMIT);
    return stream_definition_write(&stream->definition, &stream->binding, buffer);
}

enum error streams_append(struct streams *streams, const struct entry *entry)
{
    if (!streams->journal)
        return OK;
    enum error error =
        journal_reserve(streams->journal, journal_record_bytes(entry_bound_bytes(entry)));
    return error ? error : journal_append(streams->journal, entry);
}

static enum error append_create(struct streams *streams, const struct stream *stream)
{
    struct buffer text;
    enum error error = streams_write_definition(stream, &text);
    if (!error) {
        struct entry entry = {
            .type = ENTRY_CREATE,
            .stream = stream->number,
            .worker = -1,
            .attempt = stream->generation,
            .value = stream->ledger.position,
            .text = text.data,
            .text_bytes = text.length,
        };
        error = streams_append(streams, &entry);
    }
    buffer_release(&text);
    return error;
}

enum error streams_insert(struct streams *streams, struct stream *stream)
{
    enum error error = streams_reserve(streams);
    if (!error)
        error = append_create(streams, stream);
    if (!error)
        streams_add(streams, stream);
    return error;
}

/* ---- creating and deleting ---------------------------------------------- */

static enum error check_new(const struct streams *streams, const char *name)
{
    if (streams_find(streams, name))
        return error_set_kind(
            error_set(ERROR_CONFLICT, "name \"%s\" is in use by another stream", name),
            PROBLEM_NAME_IN_USE);
    if ((int64_t)streams->count >= streams->options.max_streams)
        return error_set_kind(
            error_set(ERROR_CONFLICT,
                      "there are as many streams as --max-streams allows (%zu); delete one",
                      streams->count),
            PROBLEM_TOO_MANY_STREAMS);
    if (streams->next_number == UINT32_MAX)
        return error_set(ERROR_CONFLICT, "%u streams were created in this state, which is the most",
                         UINT32_MAX);
    return OK;
}

/* The mutex is held. `stream` is in no list yet. */
static enum error create(struct streams *streams, struct stream *stream,
                         struct journal_waiter *waiter, bool *ret_wait)
{
    enum error error = check_new(streams, stream->definition.name);
    if (error)
        return error;
    stream->number = streams->next_number;
    stream->generation = next_generation(streams, stream->definition.name);
    error = streams_insert(streams, stream);
    if (error)
        return error;
    journal_waiter_remember(waiter, stream, UNDO_CREATE);
    *ret_wait = stream_wait(streams, waiter);
    return OK;
}

enum error streams_create(struct streams *streams, const struct stream_definition *definition,
                          struct sampling_plan *plan, int64_t position,
                          struct journal_waiter *waiter, struct stream **ret_stream, bool *ret_wait)
{
    struct stream_definition copy;
    struct stream *stream;
    *ret_wait = false;
    enum error error = stream_check_position(&plan->batching, position);
    if (!error)
        error = stream_definition_copy(definition, &copy);
    if (error) {
        sampling_plan_put(plan);
        return error;
    }
    error = stream_new(streams, &copy, &plan->binding, plan, 0, 0, &stream);
    if (error)
        return error;
    error = ledger_begin(&stream->ledger, position);
    if (error) {
        stream_put(stream);
        return error;
    }
    stream_take(stream); /* one for the table, one for the caller */
    pthread_mutex_lock(&streams->mutex);
    error = create(streams, stream, waiter, ret_wait);
    pthread_mutex_unlock(&streams->mutex);
    if (error) {
        stream_put(stream);
        stream_put(stream);
        return error;
    }
    *ret_stream = stream;
    return OK;
}

static enum error delete_stream(struct streams *streams, struct stream *stream)
{
    struct entry entry = {.type = ENTRY_DELETE, .stream = stream->number, .worker = -1};
    enum error error = streams_reserve_name(streams);
    if (!error)
        error = streams_append(streams, &entry);
    if (error)
        return error;
    streams_forget_name(streams, stream->definition.name, stream->generation);
    streams_remove(streams, stream);
    return OK;
}

enum error streams_delete(struct streams *streams, const char *name, struct journal_waiter *waiter,
                          bool *ret_wait)
{
    *ret_wait = false;
    journal_waiter_clear(waiter);
    pthread_mutex_lock(&streams->mutex);
    struct stream *stream = streams_find(streams, name);
    enum error error = OK;
    if (!stream)
        error = error_set(ERROR_NOT_FOUND, "there is no stream \"%s\"", name);
    else if (strcmp(name, STREAM_DEFAULT) == 0)
        error =
            error_set_kind(error_set(ERROR_CONFLICT, "stream \"" STREAM_DEFAULT
                                                     "\" is always there and cannot be deleted"),
                           PROBLEM_DEFAULT_STREAM);
    else
        error = delete_stream(streams, stream);
    if (!error) {
        journal_waiter_remember(waiter, stream, UNDO_DELETE);
        *ret_wait = stream_wait(streams, waiter);
    }
    pthread_mutex_unlock(&streams->mutex);
    if (!error)
        stream_put(stream);
    return error;
}

/* ---- asking ------------------------------------------------------------- */

struct stream *streams_take(struct streams *streams, const char *name)
{
    pthread_mutex_lock(&streams->mutex);
    struct stream *stream = streams_find(streams, name);
    if (stream)
        stream_take(stream);
    pthread_mutex_unlock(&streams->mutex);
    return stream;
}

enum error streams_list(struct streams *streams, struct stream ***ret_taken, size_t *ret_count)
{
    pthread_mutex_lock(&streams->mutex);
    size_t count = streams->count;
    struct stream **taken = array_new(count, sizeof(struct stream *), "the list of streams");
    for (size_t i = 0; taken && i < count; i++) {
        taken[i] = streams->items[i];
        stream_take(taken[i]);
    }
    pthread_mutex_unlock(&streams->mutex);
    if (!taken)
        return ERROR_MEMORY;
    *ret_taken = taken;
    *ret_count = count;
    return OK;
}

bool streams_failing(struct streams *streams)
{
    pthread_mutex_lock(&streams->mutex);
    bool failing = streams->journal && journal_failing(streams->journal);
    pthread_mutex_unlock(&streams->mutex);
    return failing;
}

enum error streams_failure(struct streams *streams)
{
    if (!streams->journal)
        return OK;
    pthread_mutex_lock(&streams->mutex);
    enum error error = journal_failure(streams->journal);
    pthread_mutex_unlock(&streams->mutex);
    return error;
}

void streams_journal_counts(struct streams *streams, struct journal_counts *ret_counts)
{
    *ret_counts = (struct journal_counts){0};
    if (!streams->journal)
        return;
    pthread_mutex_lock(&streams->mutex);
    journal_get_counts(streams->journal, ret_counts);
    pthread_mutex_unlock(&streams->mutex);
}

void streams_free(struct streams *streams)
{
    if (!streams)
        return;
    committer_free(streams->committer);
    for (size_t i = 0; i < streams->count; i++)
        stream_put(streams->items[i]);
    free(streams->items);
    free(streams->forgotten);
    journal_close(streams->journal);
    pthread_mutex_destroy(&streams->mutex);
    free(streams);
}
