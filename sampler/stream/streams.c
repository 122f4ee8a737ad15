/* SPDX-License-Identifier: MIT */
/* The table of streams, with its journal entries. Start and end of a server are in
 * streams_open.c. */
#include "sampler/stream/streams.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/keyed_hash.h"
#include "sampler/journal/committer.h"
#include "sampler/journal/journal_record.h"
#include "sampler/ledger/conflicts.h"
#include "sampler/stream/stream_private.h"
#include "sampler/stream/streams_private.h"

#define DEFINITION_BYTES_LIMIT ((size_t)256 << 20) /* shares of very many labels */
#define LIST_AT_ONCE 256                           /* streams, per hold of the mutex */

/* ---- names: the mutex is held ------------------------------------------- */

static const char streams_memory[] = "the streams";
static const char names_memory[] = "the names of streams";

struct name_key {
    const struct streams *streams;
    const char *name;
};

static inline uint64_t hash_at(const void *streams, uint32_t place)
{
    return keyed_hash_name(((const struct streams *)streams)->places[place]->definition.name);
}

static inline bool has_name(const void *key, uint32_t place)
{
    const struct name_key *wanted = key;
    return strcmp(wanted->streams->places[place]->definition.name, wanted->name) == 0;
}

struct stream *streams_find(const struct streams *streams, const char *name)
{
    struct name_key key = {.streams = streams, .name = name};
    uint32_t place = hash_table_find(&streams->names, keyed_hash_name(name), has_name, &key);
    return place == HASH_TABLE_NONE ? NULL : streams->places[place];
}

static inline uint64_t hash_forgotten(const void *streams, uint32_t at)
{
    return keyed_hash_name(((const struct streams *)streams)->forgotten[at].name);
}

static inline bool is_forgotten(const void *key, uint32_t at)
{
    const struct name_key *wanted = key;
    return strcmp(wanted->streams->forgotten[at].name, wanted->name) == 0;
}

static uint32_t find_forgotten(const struct streams *streams, const char *name)
{
    struct name_key key = {.streams = streams, .name = name};
    return hash_table_find(&streams->forgotten_names, keyed_hash_name(name), is_forgotten, &key);
}

static int64_t next_generation(const struct streams *streams, const char *name)
{
    uint32_t at = find_forgotten(streams, name);
    return 1 +
           (at == HASH_TABLE_NONE ? streams->generation_floor : streams->forgotten[at].generation);
}

enum error streams_reserve_name(struct streams *streams)
{
    size_t count = streams->forgotten_count + (streams->forgotten_count < FORGOTTEN_LIMIT);
    void *forgotten = streams->forgotten;
    enum error error = array_grow(&forgotten, &streams->forgotten_capacity, count,
                                  sizeof(*streams->forgotten), names_memory);
    streams->forgotten = forgotten;
    return error ? error
                 : hash_table_reserve(&streams->forgotten_names, count, hash_forgotten, streams,
                                      names_memory);
}

/* A slot for a new name, possibly that of the oldest, whose generations never return either. */
static uint32_t make_room(struct streams *streams)
{
    if (streams->forgotten_count < FORGOTTEN_LIMIT)
        return (uint32_t)streams->forgotten_count++;
    uint32_t oldest = (uint32_t)streams->forgotten_oldest;
    int64_t generation = streams->forgotten[oldest].generation;
    if (generation > streams->generation_floor)
        streams->generation_floor = generation;
    hash_table_remove(&streams->forgotten_names, oldest, hash_forgotten, streams);
    streams->forgotten_oldest = (oldest + 1) % FORGOTTEN_LIMIT;
    return oldest;
}

void streams_forget_name(struct streams *streams, const char *name, int64_t generation)
{
    uint32_t at = find_forgotten(streams, name);
    if (at == HASH_TABLE_NONE) {
        at = make_room(streams);
        memcpy(streams->forgotten[at].name, name, strlen(name) + 1);
        hash_table_put(&streams->forgotten_names, hash_forgotten(streams, at), at);
    }
    streams->forgotten[at].generation = generation;
}

/* ---- the table: the mutex is held --------------------------------------- */

enum error streams_reserve(struct streams *streams)
{
    size_t count = streams->count + 1;
    void *items = streams->items;
    void *places = streams->places;
    enum error error =
        array_grow(&items, &streams->capacity, count, sizeof(struct stream *), streams_memory);
    streams->items = items;
    if (!error)
        error = array_grow(&places, &streams->places_capacity, count, sizeof(struct stream *),
                           streams_memory);
    streams->places = places;
    return error ? error
                 : hash_table_reserve(&streams->names, count, hash_at, streams, streams_memory);
}

static void enter(struct streams *streams, struct stream *stream, uint32_t place)
{
    streams->places[place] = stream;
    stream->place = place;
    hash_table_put(&streams->names, hash_at(streams, place), place);
}

/* The last one takes its slot. */
static void leave(struct streams *streams, const struct stream *stream)
{
    uint32_t last = (uint32_t)streams->count - 1;
    struct stream *moved = streams->places[last];
    hash_table_remove(&streams->names, stream->place, hash_at, streams);
    if (moved == stream)
        return;
    hash_table_remove(&streams->names, last, hash_at, streams);
    enter(streams, moved, stream->place);
}

/* How many were created before that number: the index in items of the first later one. */
static size_t count_before(const struct streams *streams, uint32_t number)
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
    return low;
}

static void insert(struct streams *streams, struct stream *stream)
{
    size_t at = count_before(streams, stream->number);
    memmove(&streams->items[at + 1], &streams->items[at],
            (streams->count - at) * sizeof(struct stream *));
    streams->items[at] = stream;
    enter(streams, stream, (uint32_t)streams->count++);
}

void streams_add(struct streams *streams, struct stream *stream)
{
    insert(streams, stream);
    if (stream->number >= streams->next_number)
        streams->next_number = stream->number + 1;
}

void streams_remove(struct streams *streams, struct stream *stream)
{
    size_t at = count_before(streams, stream->number);
    leave(streams, stream);
    streams->count--;
    memmove(&streams->items[at], &streams->items[at + 1],
            (streams->count - at) * sizeof(struct stream *));
    stream->deleted = true;
}

void streams_put_back(struct streams *streams, struct stream *stream)
{
    insert(streams, stream); /* there is room: no other stream took its slot permanently */
    stream_take(stream);
    stream->deleted = false;
}

struct stream *streams_numbered(const struct streams *streams, uint32_t number)
{
    size_t at = count_before(streams, number);
    bool found = at < streams->count && streams->items[at]->number == number;
    return found ? streams->items[at] : NULL;
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
    if (!error)
        journal_append(streams->journal, entry);
    return error;
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
        return error_set(ERROR_CONFLICT,
                         "%u streams were created in this state, which is the limit", UINT32_MAX);
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

enum error streams_delete(struct streams *streams, struct stream *stream,
                          struct journal_waiter *waiter, bool *ret_wait)
{
    *ret_wait = false;
    journal_waiter_clear(waiter);
    if (strcmp(stream->definition.name, STREAM_DEFAULT) == 0)
        return error_set_kind(error_set(ERROR_CONFLICT, "stream \"" STREAM_DEFAULT
                                                        "\" is always there and cannot be deleted"),
                              PROBLEM_DEFAULT_STREAM);
    pthread_mutex_lock(&streams->mutex);
    enum error error = stream_check_alive(stream);
    if (!error)
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

/* ---- what is left of them ----------------------------------------------- */

void streams_sweep(struct streams *streams)
{
    pthread_mutex_lock(&streams->mutex);
    struct stream *stream = streams->buried;
    streams->buried = NULL;
    pthread_mutex_unlock(&streams->mutex);
    while (stream) {
        struct stream *next = stream->next_buried;
        stream_free(stream);
        stream = next;
    }
}

/* ---- asking ------------------------------------------------------------- */

static struct stream *take(struct streams *streams, const char *name, bool aside)
{
    pthread_mutex_lock(&streams->mutex);
    struct stream *stream = streams_find(streams, name);
    if (stream && !stream->plan != aside)
        stream = NULL;
    if (stream)
        stream_take(stream);
    pthread_mutex_unlock(&streams->mutex);
    return stream;
}

struct stream *streams_take(struct streams *streams, const char *name)
{
    return take(streams, name, false);
}

struct stream *streams_take_aside(struct streams *streams, const char *name)
{
    return take(streams, name, true);
}

/* From that number on, of at most LIST_AT_ONCE streams, and advances it. False: there are no
 * more. */
static bool take_some(struct streams *streams, bool aside, uint32_t *number, struct stream **taken,
                      size_t *ret_count)
{
    size_t i, count = 0;
    pthread_mutex_lock(&streams->mutex);
    size_t first = count_before(streams, *number);
    for (i = first; i < streams->count && i - first < LIST_AT_ONCE; i++) {
        struct stream *stream = streams->items[i];
        *number = stream->number + 1;
        if (!stream->plan != aside)
            continue;
        stream_take(stream);
        taken[count++] = stream;
    }
    bool goes_on = i < streams->count;
    pthread_mutex_unlock(&streams->mutex);
    *ret_count = count;
    return goes_on;
}

static enum error list(struct streams *streams, bool aside, struct stream ***ret_taken,
                       size_t *ret_count)
{
    void *taken = NULL;
    size_t capacity = 0, count = 0, more;
    uint32_t number = 0;
    bool goes_on = true;
    while (goes_on) {
        if (number > 0)
            stream_give_way();
        enum error error = array_grow(&taken, &capacity, count + LIST_AT_ONCE,
                                      sizeof(struct stream *), "the list of streams");
        struct stream **list_so_far = taken;
        if (error) {
            streams_put_all(list_so_far, count);
            return error;
        }
        goes_on = take_some(streams, aside, &number, list_so_far + count, &more);
        count += more;
    }
    *ret_taken = taken;
    *ret_count = count;
    return OK;
}

enum error streams_list(struct streams *streams, struct stream ***ret_taken, size_t *ret_count)
{
    return list(streams, false, ret_taken, ret_count);
}

enum error streams_list_aside(struct streams *streams, struct stream ***ret_taken,
                              size_t *ret_count)
{
    return list(streams, true, ret_taken, ret_count);
}

void streams_put_all(struct stream **taken, size_t count)
{
    for (size_t i = 0; i < count; i++)
        stream_put(taken[i]);
    free(taken);
}

size_t streams_count(struct streams *streams)
{
    pthread_mutex_lock(&streams->mutex);
    size_t count = streams->count;
    pthread_mutex_unlock(&streams->mutex);
    return count;
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

bool streams_free(struct streams *streams)
{
    if (!streams)
        return true;
    if (!committer_free(streams->committer))
        return false;
    for (size_t i = 0; i < streams->count; i++)
        stream_put(streams->items[i]);
    streams_sweep(streams);
    free(streams->items);
    free(streams->places);
    free(streams->forgotten);
    hash_table_release(&streams->names);
    hash_table_release(&streams->forgotten_names);
    journal_close(streams->journal);
    pthread_mutex_destroy(&streams->mutex);
    free(streams);
    return true;
}
