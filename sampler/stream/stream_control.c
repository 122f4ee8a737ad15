/* SPDX-License-Identifier: MIT */
/* Changes of a stream other than draws and acks: extend, release, pause, seek, checkpoint,
 * restore. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "sampler/journal/journal_record.h"
#include "sampler/ledger/ledger_listing.h"
#include "sampler/ledger/ledger_past.h"
#include "sampler/ledger/ledger_plan.h"
#include "sampler/stream/checkpoint_token.h"
#include "sampler/stream/stream_private.h"

/* The mutex is held from begin() to end(). */
static enum error begin(struct stream *stream, struct journal_waiter *waiter)
{
    journal_waiter_clear(waiter);
    pthread_mutex_lock(&stream->streams->mutex);
    return stream_check_alive(stream);
}

static enum error end(struct stream *stream, enum error error, struct journal_waiter *waiter,
                      bool *ret_wait)
{
    *ret_wait = !error && stream_wait(stream->streams, waiter);
    pthread_mutex_unlock(&stream->streams->mutex);
    return error;
}

/* ---- a worker's leases -------------------------------------------------- */

enum error stream_extend(struct stream *stream, const char *worker, const int64_t *seqs,
                         size_t count, int64_t *ret_expires_ms)
{
    const struct ledger_pull pull = {.worker = worker, .acks = seqs, .ack_count = count};
    int64_t now_ms = stream_clock_ms();
    struct ledger *ledger = &stream->ledger;
    enum error error = begin(stream, NULL);
    uint32_t number = ledger_worker(ledger, worker);
    if (!error)
        error = ledger_plan_extend(ledger, &pull, number);
    if (!error && count > 0) {
        int64_t lease_ms = ledger_lease_ms(ledger);
        for (size_t i = 0; i < count; i++) {
            uint32_t lease = lease_set_find(&ledger->leases, number, seqs[i]);
            lease_set_start(&ledger->leases, lease,
                            lease_set_get(&ledger->leases, lease)->leased_ms, now_ms + lease_ms);
        }
        worker_table_see(&ledger->workers, number, now_ms);
    }
    if (!error)
        *ret_expires_ms = ledger_lease_ms(ledger);
    pthread_mutex_unlock(&stream->streams->mutex);
    return error;
}

enum error stream_release(struct stream *stream, const char *worker, struct journal_waiter *waiter,
                          int64_t *ret_released, bool *ret_wait)
{
    int64_t now_ms = stream_clock_ms();
    int64_t released = 0;
    enum error error = begin(stream, waiter);
    uint32_t number = ledger_worker(&stream->ledger, worker);
    if (!error && number != WORKER_NONE) {
        const struct worker_record *record = worker_table_get(&stream->ledger.workers, number);
        released = record->leased;
        worker_table_see(&stream->ledger.workers, number, now_ms);
    }
    if (!error)
        error = stream_check_holds(stream, worker);
    if (!error && released > 0) {
        struct entry entry = {.type = ENTRY_RELEASE, .worker = number};
        error = stream_change(stream, &entry, now_ms);
    }
    if (!error)
        *ret_released = released;
    return end(stream, error, waiter, ret_wait);
}

/* ---- the position ------------------------------------------------------- */

static enum error set_paused(struct stream *stream, bool paused, struct journal_waiter *waiter,
                             bool *ret_wait)
{
    enum error error = begin(stream, waiter);
    if (!error && stream->ledger.paused != paused) {
        struct entry entry = {.type = paused ? ENTRY_PAUSE : ENTRY_RESUME, .worker = -1};
        error = stream_change(stream, &entry, stream_clock_ms());
        if (!error)
            journal_waiter_remember(waiter, stream, paused ? UNDO_PAUSE : UNDO_RESUME);
    }
    return end(stream, error, waiter, ret_wait);
}

enum error stream_pause(struct stream *stream, struct journal_waiter *waiter, bool *ret_wait)
{
    return set_paused(stream, true, waiter, ret_wait);
}

enum error stream_resume(struct stream *stream, struct journal_waiter *waiter, bool *ret_wait)
{
    return set_paused(stream, false, waiter, ret_wait);
}

/* Waits for another seek whose spans are still being merged. The mutex is held, but not
 * meanwhile. */
static enum error wait_for_seek(struct stream *stream)
{
    enum error error = OK;
    while (stream->ledger.past && !error) {
        pthread_mutex_unlock(&stream->streams->mutex);
        stream_give_way();
        pthread_mutex_lock(&stream->streams->mutex);
        error = stream_check_alive(stream);
    }
    return error;
}

/* A seek or a restore: what it takes out of the ledger ends up in `past`. */
static enum error jump(struct stream *stream, struct entry *entry, struct journal_memory *memory,
                       struct ledger_past *past, struct journal_waiter *waiter, bool *ret_wait)
{
    enum error error = begin(stream, waiter);
    if (!error)
        error = wait_for_seek(stream);
    if (!error)
        error = stream_check_holds(stream, NULL);
    if (!error) {
        stream->ledger.past = past;
        if (memory->bytes)
            journal_use_memory(stream->streams->journal, memory);
        error = stream_change(stream, entry, stream_clock_ms());
        if (error)
            stream->ledger.past = NULL;
        else
            journal_waiter_remember(waiter, stream, UNDO_JUMP);
    }
    return end(stream, error, waiter, ret_wait);
}

/* The mutex is not held while spans are merged. If the ledger was restored meanwhile, because this
 * seek could not be kept, the result is discarded. */
static void settle(struct stream *stream, struct ledger_past *past)
{
    ledger_past_merge(past, &past->next);
    pthread_mutex_lock(&stream->streams->mutex);
    if (stream->ledger.past == past)
        ledger_past_settle(past, &stream->ledger);
    pthread_mutex_unlock(&stream->streams->mutex);
}

enum error stream_seek(struct stream *stream, int64_t position, struct journal_waiter *waiter,
                       bool *ret_wait)
{
    struct entry entry = {.type = ENTRY_SEEK, .worker = -1, .value = position};
    struct ledger_past past;
    *ret_wait = false;
    enum error error = stream_check_position(&stream->plan->batching, position);
    if (error)
        return error;
    struct journal_memory none = {0};
    ledger_past_init(&past);
    error = jump(stream, &entry, &none, &past, waiter, ret_wait);
    if (!error)
        settle(stream, &past);
    ledger_past_release(&past);
    return error;
}

enum error stream_check_position(const struct batching *batching, int64_t position)
{
    int64_t most = batching_end(batching);
    int64_t only = order_batch_size(batching->order);
    if (position < 0 || position > most)
        return error_set(ERROR_USAGE, "position is %" PRId64 ", must be from 0 to %" PRId64 "%s",
                         position, most, batching->epochs > 0 ? ", the stream's end" : "");
    if (only > 0 && position % only != 0)
        return error_set(ERROR_USAGE,
                         "position is %" PRId64 ", inside a batch; must be a multiple of %" PRId64
                         " (p * k), the size of every batch of this design",
                         position, only);
    return OK;
}

/* ---- checkpoint and restore --------------------------------------------- */

static int compare_intervals(const void *a, const void *b)
{
    int64_t first = ((const struct interval *)a)->begin;
    int64_t second = ((const struct interval *)b)->begin;
    return (first > second) - (first < second);
}

static enum error write_token(struct checkpoint_token *token, const struct ledger_listing *list,
                              char **ret_token)
{
    enum error error = intervals_reserve(&token->open, list->count);
    if (!error) {
        qsort(list->items, list->count, sizeof(*list->items), compare_intervals);
        for (size_t i = 0; i < list->count; i++)
            intervals_add(&token->open, list->items[i].begin, list->items[i].end);
        error = checkpoint_token_write(token, ret_token);
    }
    intervals_release(&token->open);
    return error;
}

/* Rows 0:N are all rows, which are written 0:0. */
static void name_all_rows(const struct stream *stream, struct stream_definition *definition)
{
    if (definition->rows_begin == 0 &&
        definition->rows_end == sampling_plan_whole_units(stream->plan))
        definition->rows_end = 0;
}

/* How often appended entries could not be kept: that undid draws that a token may contain. */
static uint64_t count_failures(const struct stream *stream)
{
    struct journal_counts counts = {0};
    if (stream->streams->journal)
        journal_get_counts(stream->streams->journal, &counts);
    return counts.failures;
}

/* The token is written without the mutex; then waits for everything appended by then. */
static enum error wait_for_token(struct stream *stream, uint64_t failures,
                                 struct journal_waiter *waiter, bool *ret_wait)
{
    enum error error = begin(stream, waiter);
    if (!error && count_failures(stream) != failures)
        error = journal_failure(stream->streams->journal);
    return end(stream, error, waiter, ret_wait);
}

/* Positions below the current one that are not done. The mutex is held, but not between pieces. */
static enum error list_open(struct stream *stream, struct ledger_listing *listing,
                            uint64_t *ret_failures)
{
    enum error error = OK;
    ledger_listing_begin(&stream->ledger, listing);
    *ret_failures = count_failures(stream);
    for (bool more = true; more && !error;) {
        error = ledger_listing_some(&stream->ledger, listing, &more);
        if (error || !more)
            break;
        pthread_mutex_unlock(&stream->streams->mutex);
        stream_give_way();
        pthread_mutex_lock(&stream->streams->mutex);
        error = stream_check_alive(stream);
    }
    ledger_listing_end(&stream->ledger, listing);
    return error;
}

enum error stream_checkpoint(struct stream *stream, struct journal_waiter *waiter, char **ret_token,
                             bool *ret_wait)
{
    struct ledger_listing listing = {.items = NULL};
    struct checkpoint_token token = {.definition = stream->definition, .binding = stream->binding};
    uint64_t failures = 0;
    char *text = NULL;
    *ret_wait = false;
    name_all_rows(stream, &token.definition);
    enum error error = begin(stream, waiter);
    if (!error)
        error = list_open(stream, &listing, &failures);
    pthread_mutex_unlock(&stream->streams->mutex);
    token.position = listing.end;
    if (!error)
        error = write_token(&token, &listing, &text);
    free(listing.items);
    if (!error)
        error = wait_for_token(stream, failures, waiter, ret_wait);
    if (!error)
        *ret_token = text;
    else
        free(text);
    return error;
}

/* Makes the token's intervals the stream's gaps. */
static enum error restore(struct stream *stream, struct checkpoint_token *token,
                          struct journal_waiter *waiter, bool *ret_wait)
{
    struct ledger_past past;
    size_t count = 2 * token->open.count;
    int64_t *list = array_new(count, sizeof(*list), "a checkpoint token");
    if (!list)
        return ERROR_MEMORY;
    for (size_t i = 0; i < token->open.count; i++) {
        list[2 * i] = intervals_at(&token->open, i)->begin;
        list[2 * i + 1] = intervals_at(&token->open, i)->end;
    }
    struct entry entry = {.type = ENTRY_RESTORE,
                          .worker = -1,
                          .value = token->position,
                          .list = list,
                          .count = count};
    struct journal *journal = stream->streams->journal;
    struct journal_memory memory = {0};
    uint8_t *bytes = NULL;
    ledger_past_init(&past);
    past.next = token->open;
    token->open = (struct intervals){0};
    enum error error = entry_encode_list(&entry, &bytes);
    if (!error && journal)
        error = journal_prepare(journal, journal_record_bytes(entry_bound_bytes(&entry)), &memory);
    if (!error)
        error = jump(stream, &entry, &memory, &past, waiter, ret_wait);
    journal_memory_release(&memory);
    ledger_past_release(&past);
    free(bytes);
    free(list);
    return error;
}

/* A checksum is no protection against forgery: a token may contain anything. */
static enum error check_spans(const struct batching *batching, const struct checkpoint_token *token)
{
    struct batching endless = *batching; /* a token does not fix the epochs */
    endless.epochs = 0;
    enum error error = stream_check_position(&endless, token->position);
    for (size_t i = 0; i < token->open.count && !error; i++) {
        error = stream_check_position(&endless, intervals_at(&token->open, i)->begin);
        if (!error)
            error = stream_check_position(&endless, intervals_at(&token->open, i)->end);
    }
    return error ? error_prefix(error, "the token's ") : OK;
}

enum error stream_restore(struct stream *stream, const char *text, struct journal_waiter *waiter,
                          bool *ret_wait)
{
    struct checkpoint_token token;
    struct stream_definition here = stream->definition;
    *ret_wait = false;
    enum error error = checkpoint_token_read(text, &token);
    if (error)
        return error;
    name_all_rows(stream, &token.definition);
    name_all_rows(stream, &here);
    error = checkpoint_token_check(&token, &here, &stream->binding);
    if (!error)
        error = check_spans(&stream->plan->batching, &token);
    if (!error)
        error = restore(stream, &token, waiter, ret_wait);
    checkpoint_token_release(&token);
    return error;
}
