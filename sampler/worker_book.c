#include "sampler/worker_book.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"

#define SLOTS_AT_LEAST 16
#define SLICE_MS (WORKER_RATE_SECONDS * 1000 / WORKER_RATE_SLOTS)

static void record_free(struct worker_record *record)
{
    intervals_release(&record->used);
    intervals_release(&record->acked);
    free(record->name);
    free(record);
}

void worker_book_release(struct worker_book *book)
{
    for (size_t i = 0; i < book->count; i++)
        record_free(book->records[i]);
    free(book->records);
    free(book->slots);
    *book = (struct worker_book){0};
}

bool worker_name_is_valid(const char *name)
{
    size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                 "._:-");
    return length > 0 && length < WORKER_NAME_BYTES && name[length] == '\0';
}

struct worker_record *worker_book_get(const struct worker_book *book, uint32_t worker)
{
    return book->records[worker];
}

/* The slot that holds the name, or the free one where it belongs. */
static size_t find_slot(const struct worker_book *book, const char *name, size_t length)
{
    size_t slot = (size_t)XXH3_64bits(name, length) & (book->slot_count - 1);
    while (book->slots[slot] != WORKER_NONE) {
        const char *there = book->records[book->slots[slot]]->name;
        if (strncmp(there, name, length) == 0 && there[length] == '\0')
            break;
        slot = (slot + 1) & (book->slot_count - 1);
    }
    return slot;
}

uint32_t worker_book_find(const struct worker_book *book, const char *name)
{
    return book->count ? book->slots[find_slot(book, name, strlen(name))] : WORKER_NONE;
}

static enum error grow_slots(struct worker_book *book)
{
    size_t count = book->slot_count ? 2 * book->slot_count : SLOTS_AT_LEAST;
    uint32_t *slots = array_new(count, sizeof(*slots), "the workers of a stream");
    if (!slots)
        return ERROR_MEMORY;
    memset(slots, 0xff, count * sizeof(*slots)); /* WORKER_NONE */
    free(book->slots);
    book->slots = slots;
    book->slot_count = count;
    for (size_t i = 0; i < book->count; i++) {
        const char *name = book->records[i]->name;
        slots[find_slot(book, name, strlen(name))] = (uint32_t)i;
    }
    return OK;
}

enum error worker_book_add(struct worker_book *book, const char *name, size_t length)
{
    enum error error = OK;
    if (book->count >= WORKER_BOOK_LIMIT)
        return error_set(ERROR_MEMORY,
                         "worker=%.*s: this stream has known %d workers, which is the most; use a "
                         "name again with higher seqs, or restore the stream",
                         (int)length, name, WORKER_BOOK_LIMIT);
    if (2 * (book->count + 1) > book->slot_count)
        error = grow_slots(book);
    void *records = book->records;
    if (error == OK)
        error = array_grow(&records, &book->capacity, book->count + 1,
                           sizeof(struct worker_record *), "the workers of a stream");
    book->records = records;
    struct worker_record *record = NULL;
    if (error == OK && !(record = array_new(1, sizeof(*record), "a worker of a stream")))
        error = ERROR_MEMORY;
    if (error == OK && !(record->name = strndup(name, length)))
        error = error_set_memory(length, "the name of a worker");
    if (error != OK) {
        free(record);
        return error;
    }
    record->leases = LEASE_LIST_EMPTY;
    record->seen_ms = -1;
    book->slots[find_slot(book, name, length)] = (uint32_t)book->count;
    book->records[book->count++] = record;
    return OK;
}

/* ---- rates -------------------------------------------------------------------------------------
 */

void worker_record_count(struct worker_record *record, int64_t now_ms)
{
    int64_t slice = now_ms / SLICE_MS;
    int64_t passed = slice - record->rate_slice;
    if (passed < 0)
        return; /* an ack that waited for the lock longer than a slice */
    if (passed > WORKER_RATE_SLOTS)
        passed = WORKER_RATE_SLOTS;
    for (int64_t i = 0; i < passed; i++)
        record->rate_counts[(slice - i) % WORKER_RATE_SLOTS] = 0;
    record->rate_slice = slice;
    record->rate_counts[slice % WORKER_RATE_SLOTS]++;
}

double worker_record_rate(const struct worker_record *record, int64_t now_ms)
{
    int64_t slice = now_ms / SLICE_MS;
    int64_t sum = 0;
    for (int64_t i = 0; i < WORKER_RATE_SLOTS; i++) {
        int64_t number = record->rate_slice - i;
        if (number >= 0 && number > slice - WORKER_RATE_SLOTS)
            sum += record->rate_counts[number % WORKER_RATE_SLOTS];
    }
    return (double)sum / WORKER_RATE_SECONDS;
}
