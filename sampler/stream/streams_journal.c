/* SPDX-License-Identifier: MIT */
/* The streams as the journal's owner: entries in, entries out, and undo. */
#include <string.h>

#include "common/array.h"
#include "common/log.h"
#include "sampler/stream/streams_private.h"

/* ---- entries in --------------------------------------------------------- */

static enum error refuse(const struct entry *entry, const char *why)
{
    return error_set(ERROR_INPUT, "a journal entry (kind %d, stream %u) %s", (int)entry->type,
                     (unsigned)entry->stream, why);
}

static enum error replay_create(struct streams *streams, const struct entry *entry)
{
    struct stream_definition definition;
    struct stream_binding binding;
    struct stream *stream;
    if (!entry->text || entry->stream < streams->next_number || entry->stream == UINT32_MAX ||
        entry->value < 0 || entry->value > POSITION_LIMIT || entry->attempt < 1)
        return refuse(entry, "creates no stream");
    enum error error =
        stream_definition_read(entry->text, entry->text_bytes, &definition, &binding);
    if (error)
        return error;
    if (streams_find(streams, definition.name)) {
        stream_definition_release(&definition);
        return refuse(entry, "creates a stream whose name is in use");
    }
    error = streams_reserve(streams);
    if (error) {
        stream_definition_release(&definition);
        return error;
    }
    error =
        stream_new(streams, &definition, &binding, NULL, entry->stream, entry->attempt, &stream);
    if (error)
        return error;
    error = ledger_begin(&stream->ledger, entry->value);
    if (error) {
        stream_put(stream);
        return error;
    }
    streams_add(streams, stream);
    return OK;
}

static enum error replay_define(struct stream *stream, const struct entry *entry)
{
    struct stream_definition definition;
    struct stream_binding binding;
    if (!entry->text)
        return refuse(entry, "defines nothing");
    enum error error =
        stream_definition_read(entry->text, entry->text_bytes, &definition, &binding);
    if (error)
        return error;
    if (strcmp(definition.name, stream->definition.name) != 0) {
        stream_definition_release(&definition);
        return refuse(entry, "gives a stream another name");
    }
    stream_definition_release(&stream->definition);
    stream->definition = definition;
    stream->binding = binding;
    stream->ledger.lease_ms = definition.lease_ms;
    return OK;
}

static enum error replay_delete(struct streams *streams, struct stream *stream)
{
    enum error error = streams_reserve_name(streams);
    if (error)
        return error;
    streams_forget_name(streams, stream->definition.name, stream->generation);
    streams_remove(streams, stream);
    stream_put(stream);
    return OK;
}

static enum error replay_forgotten(struct streams *streams, const struct entry *entry)
{
    char name[STREAM_NAME_BYTES];
    if (entry->value < 0 || entry->text_bytes >= sizeof(name) ||
        (entry->text_bytes > 0 && memchr(entry->text, '\0', entry->text_bytes)))
        return refuse(entry, "forgets no name");
    if (entry->text_bytes == 0) {
        streams->generation_floor = entry->value;
        return OK;
    }
    memcpy(name, entry->text, entry->text_bytes);
    name[entry->text_bytes] = '\0';
    enum error error = streams_reserve_name(streams);
    if (!error)
        streams_forget_name(streams, name, entry->value);
    return error;
}

enum error streams_replay(void *ledgers, const struct entry *entry)
{
    struct streams *streams = ledgers;
    if (entry->type == ENTRY_CREATE)
        return replay_create(streams, entry);
    if (entry->type == ENTRY_FORGOTTEN)
        return replay_forgotten(streams, entry);
    struct stream *stream = streams_numbered(streams, entry->stream);
    if (!stream)
        return refuse(entry, "is of a stream that does not exist");
    if (entry->type == ENTRY_DEFINE)
        return replay_define(stream, entry);
    if (entry->type == ENTRY_DELETE)
        return replay_delete(streams, stream);
    enum error error = ledger_check(&stream->ledger, entry);
    if (!error)
        error = ledger_prepare(&stream->ledger, entry);
    if (!error)
        ledger_apply(&stream->ledger, entry, 0);
    return error;
}

/* ---- ledgers beside those in use ---------------------------------------- */

/* With definitions, but without plans or a journal. */

enum error streams_ledgers_new(void **ret_ledgers)
{
    struct streams *streams = array_new(1, sizeof(*streams), "the streams");
    if (!streams)
        return ERROR_MEMORY;
    pthread_mutex_init(&streams->mutex, NULL);
    *ret_ledgers = streams;
    return OK;
}

void streams_ledgers_free(void *ledgers)
{
    (void)streams_free(ledgers);
}

/* ---- entries out -------------------------------------------------------- */

static enum error write_names(const struct streams *streams,
                              enum error (*add)(void *adding, const struct entry *entry),
                              void *adding)
{
    struct entry entry = {.type = ENTRY_FORGOTTEN, .worker = -1};
    enum error error = OK;
    entry.value = streams->generation_floor;
    if (entry.value > 0)
        error = add(adding, &entry);
    for (size_t i = 0; i < streams->forgotten_count && !error; i++) {
        size_t at = (streams->forgotten_oldest + i) % streams->forgotten_count;
        entry.text = streams->forgotten[at].name;
        entry.text_bytes = strlen(entry.text);
        entry.value = streams->forgotten[at].generation;
        error = add(adding, &entry);
    }
    return error;
}

static enum error write_stream(const struct stream *stream,
                               enum error (*add)(void *adding, const struct entry *entry),
                               void *adding)
{
    struct buffer text;
    enum error error = streams_write_definition(stream, &text);
    if (!error) {
        struct entry entry = {.type = ENTRY_CREATE,
                              .stream = stream->number,
                              .worker = -1,
                              .attempt = stream->generation,
                              .text = text.data,
                              .text_bytes = text.length};
        error = add(adding, &entry);
    }
    buffer_release(&text);
    return error ? error : ledger_write(&stream->ledger, stream->number, add, adding);
}

enum error streams_write(void *ledgers, enum error (*add)(void *adding, const struct entry *entry),
                         void *adding)
{
    const struct streams *streams = ledgers;
    enum error error = write_names(streams, add, adding);
    for (size_t i = 0; i < streams->count && !error; i++)
        error = write_stream(streams->items[i], add, adding);
    return error;
}

/* ---- undo --------------------------------------------------------------- */

static void undo_create(struct streams *streams, struct stream *stream)
{
    streams_remove(streams, stream);
    atomic_fetch_sub(&stream->holders, 1); /* the table's reference; the caller still has its own */
}

static void undo_pause(struct stream *stream, enum entry_type opposite)
{
    const struct entry entry = {.type = opposite, .worker = -1};
    ledger_apply(&stream->ledger, &entry, 0);
}

/* A batch whose lease had expired is its worker's again: it may still ack it. Not if that worker
 * was forgotten since, and another one has its number. */
static void give_back(struct ledger *ledger, const struct journal_waiter *waiter)
{
    uint32_t number = lease_set_starting(&ledger->leases, waiter->first);
    uint32_t worker = (uint32_t)waiter->worker;
    if (waiter->worker < 0 || lease_set_find(&ledger->leases, worker, waiter->seq) != LEASE_NONE)
        return;
    struct worker_record *record = worker_table_get(&ledger->workers, worker);
    if (!intervals_has(&record->used, waiter->seq) || intervals_has(&record->acked, waiter->seq))
        return;
    lease_set_get(&ledger->leases, number)->asked = waiter->asked;
    lease_set_assign(&ledger->leases, number, worker, waiter->seq, &record->leases);
    worker_table_lease(&ledger->workers, worker);
    lease_set_wait(&ledger->leases, number);
}

static void undo_draw(struct stream *stream, const struct journal_waiter *waiter)
{
    struct entry entry = {
        .type = ENTRY_UNDO_DRAW,
        .first = waiter->first,
        .positions = waiter->positions,
        .units = waiter->units,
        .worker = -1,
        .attempt = waiter->attempt,
        .value = waiter->piece,
    };
    if (waiter->jumps != stream->ledger.jumps)
        return; /* what the seek or restore replaced is reverted */
    if (waiter->first > waiter->before &&
        waiter->first + waiter->positions == stream->ledger.position) {
        entry.first = waiter->before; /* tail drop had skipped the rest of an epoch */
        entry.positions += waiter->first - waiter->before;
    }
    if (ledger_prepare(&stream->ledger, &entry)) {
        log_error("%s: %lld positions from %lld on are skipped", error_message(),
                  (long long)waiter->positions, (long long)waiter->first);
        return;
    }
    ledger_apply(&stream->ledger, &entry, 0);
    if (waiter->attempt > 0)
        give_back(&stream->ledger, waiter);
}

bool streams_undo(void *ledgers, struct journal_waiter *waiter)
{
    struct streams *streams = ledgers;
    struct stream *stream = waiter->stream;
    if (!stream || stream->deleted != (waiter->undo == UNDO_DELETE))
        return true;
    switch (waiter->undo) {
    case UNDO_CREATE:
        undo_create(streams, stream);
        break;
    case UNDO_DELETE:
        streams_put_back(streams, stream);
        break;
    case UNDO_PAUSE:
        undo_pause(stream, ENTRY_RESUME);
        break;
    case UNDO_RESUME:
        undo_pause(stream, ENTRY_PAUSE);
        break;
    case UNDO_DRAW:
        undo_draw(stream, waiter);
        break;
    case UNDO_JUMP:
        stream->jumped = true;
        return false;
    }
    return true;
}

/* Streams whose ledger is to be replaced; one missing in `kept` was created since, and is
 * deleted. */
static void each_jumped(struct streams *streams, const struct streams *kept,
                        void (*visit)(struct stream *stream, struct stream *kept))
{
    pthread_mutex_lock(&streams->mutex);
    for (size_t i = 0; i < streams->count; i++) {
        struct stream *stream = streams->items[i];
        if (stream->jumped)
            visit(stream, streams_numbered(kept, stream->number));
    }
    pthread_mutex_unlock(&streams->mutex);
}

static void mark(struct stream *stream, struct stream *kept)
{
    kept->ledger.lease_ms = stream->ledger.lease_ms;
    kept->jumped = true;
}

static void take_back(struct stream *stream, struct stream *kept)
{
    struct ledger ledger = stream->ledger;
    stream->ledger = kept->ledger;
    kept->ledger = ledger;
    stream->ledger.jumps = ledger.jumps + 1;
    stream->ledger.listings = ledger.listings;
    stream->jumped = false;
}

/* Leases get a full lease, as after a start: examining each of them needs no mutex. */
void streams_take_back(void *ledgers, void *kept)
{
    const struct streams *read = kept;
    each_jumped(ledgers, read, mark);
    for (size_t i = 0; i < read->count; i++) {
        if (read->items[i]->jumped)
            ledger_start(&read->items[i]->ledger, stream_clock_ms());
    }
    each_jumped(ledgers, read, take_back);
}
