/* SPDX-License-Identifier: MIT */
#include "sampler/stream/readers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/keyed_hash.h"

#define STRIPE_BITS 3
#define STRIPE_MOST (2 * READERS_MOST / READER_STRIPES)
#define STRIPE_AT_FIRST 16
#define SECOND_NS INT64_C(1000000000)

_Static_assert(READER_STRIPES == 1 << STRIPE_BITS, "the bits of a hash choose a stripe");

/* Records allocated for all streams. */
static _Atomic int64_t all_capacity;

void readers_init(struct readers *set)
{
    for (int i = 0; i < READER_STRIPES; i++) {
        set->stripes[i] = (struct reader_stripe){.readers = NULL};
        pthread_mutex_init(&set->stripes[i].mutex, NULL);
    }
}

void readers_release(struct readers *set)
{
    for (int i = 0; i < READER_STRIPES; i++) {
        struct reader_stripe *stripe = &set->stripes[i];
        atomic_fetch_sub(&all_capacity, (int64_t)stripe->capacity);
        free(stripe->readers);
        hash_table_release(&stripe->names);
        pthread_mutex_destroy(&stripe->mutex);
    }
}

/* ---- names -------------------------------------------------------------- */

static inline uint64_t hash_of(const void *keys, uint32_t number)
{
    return keyed_hash_name(((const struct reader_stripe *)keys)->readers[number].worker);
}

struct name_key {
    const struct reader_stripe *stripe;
    const char *name;
};

static inline bool has_name(const void *key, uint32_t number)
{
    const struct name_key *wanted = key;
    return strcmp(wanted->stripe->readers[number].worker, wanted->name) == 0;
}

/* Room for one more; false: the stripe, or all of them, are at their limit, or there is no
 * memory. */
static bool grow(struct reader_stripe *stripe)
{
    size_t capacity = stripe->capacity > 0 ? 2 * stripe->capacity : STRIPE_AT_FIRST;
    if (capacity > STRIPE_MOST)
        capacity = STRIPE_MOST;
    int64_t more = (int64_t)(capacity - stripe->capacity);
    if (more == 0)
        return false;
    struct reader *readers = NULL;
    bool fits = atomic_fetch_add(&all_capacity, more) + more <= READERS_ALL_MOST;
    if (fits &&
        !hash_table_reserve(&stripe->names, capacity, hash_of, stripe, "the names of readers"))
        readers = realloc(stripe->readers, capacity * sizeof(*readers));
    if (!readers) {
        atomic_fetch_sub(&all_capacity, more);
        return false;
    }
    stripe->readers = readers;
    stripe->capacity = capacity;
    return true;
}

static uint32_t least_recent(const struct reader_stripe *stripe)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < stripe->count; i++) {
        if (stripe->readers[i].seen_ns < stripe->readers[least].seen_ns)
            least = i;
    }
    return least;
}

/* NULL: there is no room, nor a reader to replace. */
static struct reader *enter(struct reader_stripe *stripe, uint64_t hash, const char *name,
                            int64_t now_ns)
{
    uint32_t number = (uint32_t)stripe->count;
    if (stripe->count < stripe->capacity || grow(stripe)) {
        stripe->count++;
    } else if (stripe->count > 0) {
        number = least_recent(stripe);
        hash_table_remove(&stripe->names, number, hash_of, stripe);
    } else {
        return NULL;
    }
    struct reader *reader = &stripe->readers[number];
    *reader = (struct reader){.first_ns = now_ns, .second = now_ns / SECOND_NS};
    memcpy(reader->worker, name, strlen(name) + 1);
    hash_table_put(&stripe->names, hash, number);
    return reader;
}

/* ---- what they read ----------------------------------------------------- */

_Static_assert((READER_RATE_SECONDS & (READER_RATE_SECONDS - 1)) == 0, "a mask makes the slot");

static int64_t slot_of(int64_t second)
{
    return second & (READER_RATE_SECONDS - 1);
}

static void count_ids(struct reader *reader, int64_t ids, int64_t second)
{
    int64_t passed = second - reader->second;
    if (passed >= READER_RATE_SECONDS)
        memset(reader->ids_of, 0, sizeof(reader->ids_of));
    for (int64_t i = 1; i <= passed && passed < READER_RATE_SECONDS; i++)
        reader->ids_of[slot_of(reader->second + i)] = 0;
    if (passed > 0) /* another thread may have read its clock before and come later */
        reader->second = second;
    reader->ids_of[slot_of(reader->second)] += ids;
}

void readers_note(struct readers *set, const char *worker, int64_t index, const struct span *batch,
                  int64_t now_ns)
{
    uint64_t hash = keyed_hash_name(worker);
    struct reader_stripe *stripe = &set->stripes[hash >> (64 - STRIPE_BITS)];
    struct name_key key = {.stripe = stripe, .name = worker};
    pthread_mutex_lock(&stripe->mutex);
    uint32_t number = hash_table_find(&stripe->names, hash, has_name, &key);
    struct reader *reader =
        number != HASH_TABLE_NONE ? &stripe->readers[number] : enter(stripe, hash, worker, now_ns);
    if (reader) {
        reader->batches++;
        reader->ids += batch->units;
        reader->newest = index;
        reader->end = batch->first + batch->positions;
        count_ids(reader, batch->units, now_ns / SECOND_NS);
        if (now_ns > reader->seen_ns)
            reader->seen_ns = now_ns;
    }
    stripe->batches++;
    stripe->positions += batch->positions;
    if (now_ns > stripe->seen_ns)
        stripe->seen_ns = now_ns;
    pthread_mutex_unlock(&stripe->mutex);
}

int64_t reader_seen_ms(const struct reader *reader, int64_t now_ns)
{
    return now_ns > reader->seen_ns ? (now_ns - reader->seen_ns) / 1000000 : 0;
}

double reader_ids_per_s(const struct reader *reader, int64_t now_ns)
{
    int64_t second = now_ns / SECOND_NS;
    int64_t since_ns = (second - READER_RATE_SECONDS + 1) * SECOND_NS;
    int64_t ids = 0;
    for (int64_t i = 0; i < READER_RATE_SECONDS; i++) {
        if (reader->second - i > second - READER_RATE_SECONDS)
            ids += reader->ids_of[slot_of(reader->second - i)];
    }
    if (since_ns < reader->first_ns)
        since_ns = reader->first_ns;
    int64_t took_ns = now_ns - since_ns < SECOND_NS ? SECOND_NS : now_ns - since_ns;
    return (double)ids * (double)SECOND_NS / (double)took_ns;
}

/* ---- all of them -------------------------------------------------------- */

static int64_t last_seen_ns(struct readers *set)
{
    int64_t seen_ns = 0;
    for (int i = 0; i < READER_STRIPES; i++) {
        pthread_mutex_lock(&set->stripes[i].mutex);
        if (set->stripes[i].seen_ns > seen_ns)
            seen_ns = set->stripes[i].seen_ns;
        pthread_mutex_unlock(&set->stripes[i].mutex);
    }
    return seen_ns;
}

void readers_progress(struct readers *set, struct readers_progress *ret_progress)
{
    struct readers_progress progress = {0};
    int64_t since_ns = last_seen_ns(set) - READER_RATE_SECONDS * SECOND_NS;
    for (int i = 0; i < READER_STRIPES; i++) {
        struct reader_stripe *stripe = &set->stripes[i];
        pthread_mutex_lock(&stripe->mutex);
        progress.batches += stripe->batches;
        progress.positions += stripe->positions;
        for (size_t k = 0; k < stripe->count && stripe->seen_ns >= since_ns; k++) {
            const struct reader *reader = &stripe->readers[k];
            if (reader->seen_ns >= since_ns && reader->end > progress.end)
                progress.end = reader->end;
        }
        pthread_mutex_unlock(&stripe->mutex);
    }
    *ret_progress = progress;
}

/* ---- the list ----------------------------------------------------------- */

size_t readers_count(struct readers *set)
{
    size_t count = 0;
    for (int i = 0; i < READER_STRIPES; i++) {
        pthread_mutex_lock(&set->stripes[i].mutex);
        count += set->stripes[i].count;
        pthread_mutex_unlock(&set->stripes[i].mutex);
    }
    return count < READERS_MOST ? count : READERS_MOST;
}

static int compare_seen(const void *a, const void *b)
{
    int64_t one = ((const struct reader *)a)->seen_ns;
    int64_t other = ((const struct reader *)b)->seen_ns;
    return (one < other) - (one > other);
}

enum error readers_list(struct readers *set, struct reader **ret_list, size_t *ret_count)
{
    struct reader *list = NULL;
    size_t count = 0;
    for (int i = 0; i < READER_STRIPES; i++) {
        struct reader_stripe *stripe = &set->stripes[i];
        pthread_mutex_lock(&stripe->mutex);
        struct reader *longer = realloc(list, (count + stripe->count + 1) * sizeof(*list));
        if (longer) {
            list = longer;
            if (stripe->count > 0)
                memcpy(&list[count], stripe->readers, stripe->count * sizeof(*list));
            count += stripe->count;
        }
        pthread_mutex_unlock(&stripe->mutex);
        if (!longer) {
            free(list);
            return error_set_memory(count * sizeof(*list), "the list of readers");
        }
    }
    qsort(list, count, sizeof(*list), compare_seen);
    *ret_list = list;
    *ret_count = count < READERS_MOST ? count : READERS_MOST;
    return OK;
}
