/* SPDX-License-Identifier: MIT */
/* Appending. Opening is in journal_open.c, committing in journal_commit.c. */
#include "sampler/journal/journal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "sampler/journal/journal_private.h"

/* ---- records in memory -------------------------------------------------- */

enum error journal_bytes_reserve(struct journal_bytes *bytes, size_t more)
{
    void *array = bytes->bytes;
    enum error error =
        array_grow(&array, &bytes->capacity, bytes->length + more, 1, "entries of the journal");
    bytes->bytes = array;
    return error;
}

uint8_t *journal_bytes_add(struct journal_bytes *bytes, const struct entry *entry,
                           size_t *ret_entry_bytes)
{
    uint8_t *record = bytes->bytes + bytes->length;
    *ret_entry_bytes = entry_encode(entry, record + JOURNAL_RECORD_HEAD_BYTES);
    bytes->length += journal_record_bytes(*ret_entry_bytes);
    return record;
}

void journal_bytes_release(struct journal_bytes *bytes)
{
    free(bytes->bytes);
    *bytes = (struct journal_bytes){0};
}

/* ---- failures ----------------------------------------------------------- */

void journal_turn(struct journal *journal, enum journal_condition next)
{
#define FROM(condition) (1u << JOURNAL_##condition)
    static const unsigned found = FROM(FRESH) | FROM(WHOLE) | FROM(TORN) | FROM(LOST);
    static const unsigned from[] = {
        [JOURNAL_WHOLE] = FROM(FRESH),
        [JOURNAL_TORN] = FROM(FRESH),
        [JOURNAL_LOST] = FROM(FRESH),
        [JOURNAL_MEMORY] = found,
        [JOURNAL_RUNNING] = found | FROM(FULL) | FROM(FAILING),
        [JOURNAL_FULL] = FROM(RUNNING),
        [JOURNAL_FAILING] = FROM(WHOLE) | FROM(TORN) | FROM(RUNNING) | FROM(FULL),
        [JOURNAL_FINISHED] = ~(found | FROM(FINISHED)),
    };
#undef FROM
    assert(from[next] >> journal->condition & 1);
    journal->condition = next;
}

void journal_note_failure(struct journal *journal, enum error error, enum journal_condition next)
{
    /* A file that is not as written is ERROR_INPUT, but it is not the caller's input. */
    error_report_take(error == ERROR_NO_SPACE ? error : ERROR_IO, &journal->failure);
    if (!journal_failing(journal))
        log_error("%s; changes are refused until it can be written", error_message());
    journal->counts.failures++;
    if (journal->condition < next) /* FULL may become FAILING, never the reverse; FINISHED stays */
        journal_turn(journal, next);
}

void journal_note_success(struct journal *journal)
{
    if (!journal_failing(journal))
        return;
    log_info("the state can be written again; draws go on");
    journal_turn(journal, JOURNAL_RUNNING);
}

bool journal_failing(const struct journal *journal)
{
    return journal->condition == JOURNAL_FULL || journal->condition == JOURNAL_FAILING;
}

enum error journal_failure(const struct journal *journal)
{
    return error_restore(&journal->failure);
}

enum error journal_write_watermark(struct journal *journal, uint64_t whole, uint64_t length,
                                   bool closed)
{
    uint8_t bytes[JOURNAL_WATERMARK_BYTES];
    const struct journal_watermark watermark = {.whole = whole, .length = length, .closed = closed};
    journal_watermark_encode(&watermark, journal->id, bytes);
    enum error error =
        journal_file_write(&journal->file, bytes, sizeof(bytes), JOURNAL_WATERMARK_OFFSET);
    if (!error)
        journal->watermark = watermark;
    journal->watermark_ns = clock_now_ns();
    return error;
}

/* ---- appending: the mutex is held --------------------------------------- */

/* Appended entries need not be written: the ledgers contain them when the file is replaced. */
static bool is_dormant(const struct journal *journal)
{
    return journal->condition < JOURNAL_RUNNING;
}

/* Bytes of the file needed for what was appended. */
static uint64_t used_bytes(const struct journal *journal)
{
    return journal_file_offset(&journal->file, journal->end);
}

bool journal_wants_room(const struct journal *journal)
{
    uint64_t room = journal->file.room;
    return journal->condition == JOURNAL_RUNNING &&
           used_bytes(journal) + journal_file_step(room) / 2 > room;
}

/* Writes straight into the file, unless it is not mapped, or earlier records are not in it yet. */
static bool fits_into_map(const struct journal *journal, size_t bytes)
{
    return journal->maps && !journal->switches && !journal->map_lost &&
           bytes < JOURNAL_LARGE_BYTES && journal->written == journal->end &&
           used_bytes(journal) + bytes <= journal->file.room;
}

/* True if room is lacking and growing has not failed. */
static bool lacks_room(const struct journal *journal, size_t bytes)
{
    return journal->condition == JOURNAL_RUNNING && !journal->growth_failure.code &&
           used_bytes(journal) + bytes > journal->file.room;
}

static void wait_for_room(struct journal *journal, size_t bytes)
{
    struct timespec deadline = clock_timespec(clock_deadline_ns(JOURNAL_PATIENCE_MS));
    int error = 0;
    pthread_mutex_lock(journal->owner.mutex);
    while (!error && lacks_room(journal, bytes)) {
        journal->wanted = used_bytes(journal) + bytes;
        pthread_cond_signal(&journal->changed);
        error = pthread_cond_clockwait(&journal->grown, journal->owner.mutex, CLOCK_MONOTONIC,
                                       &deadline);
    }
    pthread_mutex_unlock(journal->owner.mutex);
}

enum error journal_prepare(struct journal *journal, size_t bytes, struct journal_memory *ret_memory)
{
    *ret_memory = (struct journal_memory){0};
    if (bytes < JOURNAL_LARGE_BYTES)
        return OK;
    wait_for_room(journal, bytes);
    size_t capacity = bytes + JOURNAL_LARGE_BYTES; /* for later pending entries */
    uint8_t *room = malloc(capacity);
    if (!room)
        return error_set_memory(capacity, "an entry of the journal");
    memset(room, 1, capacity); /* the first touch of a page is slow */
    *ret_memory = (struct journal_memory){.bytes = room, .capacity = capacity};
    return OK;
}

void journal_memory_release(struct journal_memory *memory)
{
    free(memory->bytes);
    *memory = (struct journal_memory){0};
}

void journal_use_memory(struct journal *journal, struct journal_memory *memory)
{
    struct journal_bytes *pending = &journal->pending;
    const struct journal_memory had = {.bytes = pending->bytes, .capacity = pending->capacity};
    if (memory->capacity <= had.capacity || pending->length > JOURNAL_LARGE_BYTES)
        return;
    if (pending->length > 0)
        memcpy(memory->bytes, pending->bytes, pending->length);
    pending->bytes = memory->bytes;
    pending->capacity = memory->capacity;
    *memory = had;
}

enum error journal_reserve(struct journal *journal, size_t bytes)
{
    if (journal->condition == JOURNAL_FINISHED)
        return error_set(ERROR_IO, "the server is stopping, and its state is closed");
    if (is_dormant(journal))
        return OK;
    if (journal->condition == JOURNAL_FAILING)
        return error_restore(&journal->failure);
    if (used_bytes(journal) + bytes > journal->file.room && journal->growth_failure.code) {
        enum error error = error_restore(&journal->growth_failure);
        journal_note_failure(journal, error, JOURNAL_FULL);
        return error;
    }
    journal->into_map = fits_into_map(journal, bytes);
    return journal->into_map ? OK : journal_bytes_reserve(&journal->pending, bytes);
}

void journal_append(struct journal *journal, const struct entry *entry)
{
    if (is_dormant(journal))
        return;
    uint64_t unsynced = journal->end - journal->synced;
    bool ordered = journal->durability == DURABILITY_PROCESS;
    size_t entry_bytes;
    uint8_t *record = journal->into_map ? journal->file.map + used_bytes(journal) : NULL;
    if (record) {
        journal_map_begin(journal);
        entry_bytes = entry_encode(entry, record + JOURNAL_RECORD_HEAD_BYTES);
    } else {
        record = journal_bytes_add(&journal->pending, entry, &entry_bytes);
    }
    journal_record_seal(record, entry_bytes, journal->id, journal->end, unsynced, ordered);
    if (journal->into_map)
        journal_map_end();
    journal->end += journal_record_bytes(entry_bytes);
    if (journal->into_map && !journal->map_lost) /* else it is undone, see journal_work() */
        journal->written = journal->end;
    journal->counts.entries++;
    journal->counts.bytes += journal_record_bytes(entry_bytes);
    if (journal->sleeps && (journal->end >= journal->rewrite_at || journal_wants_room(journal)))
        pthread_cond_signal(&journal->changed);
}

bool journal_is_behind(const struct journal *journal)
{
    return journal_kept(journal) < journal->end;
}

/* Nothing is written any more, or not before the file is replaced, which may take forever. */
static bool keeps_nothing(const struct journal *journal)
{
    return journal->condition == JOURNAL_FAILING || journal->condition == JOURNAL_FINISHED;
}

void journal_wait(struct journal *journal, struct journal_waiter *waiter)
{
    waiter->next = NULL;
    waiter->error = OK;
    if (keeps_nothing(journal)) {
        waiter->error = journal->failure.code ? journal->failure.code : ERROR_IO;
        waiter->ready(waiter);
        return;
    }
    *journal->waiters_end = waiter;
    journal->waiters_end = &waiter->next;
    journal->waiting++;
    if (journal->sleeps && journal->waiting >= journal->target) {
        journal->sleeps = false;
        pthread_cond_signal(&journal->changed);
    }
}

void journal_get_counts(const struct journal *journal, struct journal_counts *ret_counts)
{
    *ret_counts = journal->counts;
    ret_counts->file_bytes = used_bytes(journal);
}
