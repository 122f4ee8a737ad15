/* SPDX-License-Identifier: MIT */
#include "sampler/service/history.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/hash_table.h"
#include "common/keyed_hash.h"

#define NAME_BYTES 65
#define SECOND_NS INT64_C(1000000000)
#define SHORTEST_NS (SECOND_NS / 2)       /* a rate over a shorter time means nothing */
#define RING (HISTORY_MINUTE_SECONDS + 1) /* a minute lies between the first and the last */

struct reading {
    int64_t time_ns;
    int64_t drawn; /* our own count: excludes jumps of seeks */
    struct history_counts counts;
};

struct record {
    char name[NAME_BYTES];
    bool noted;       /* since the last sweep */
    int64_t ended_ns; /* 0: has not ended, or the time is not known */
    int64_t moved_ns; /* last draw or read; 0: none since the first reading */
    int64_t pause_ns; /* between two batches, at that time */
    size_t used;
    size_t newest; /* in ring */
    struct reading ring[RING];
    int64_t slot_began_ns;
    int64_t slot_moved; /* at the beginning of the slot */
    size_t slots;
    size_t newest_slot;
    float course[HISTORY_SLOTS];
};

struct history {
    pthread_mutex_t mutex;   /* guards all below */
    struct record **records; /* unordered */
    size_t count;
    size_t capacity;
    struct hash_table names; /* indexes of records by name */
};

enum error history_new(struct history **ret_history)
{
    struct history *history = array_new(1, sizeof(*history), "the history of streams");
    if (!history)
        return ERROR_MEMORY;
    pthread_mutex_init(&history->mutex, NULL);
    *ret_history = history;
    return OK;
}

void history_free(struct history *history)
{
    if (!history)
        return;
    for (size_t i = 0; i < history->count; i++)
        free(history->records[i]);
    free(history->records);
    hash_table_release(&history->names);
    pthread_mutex_destroy(&history->mutex);
    free(history);
}

static const struct reading *newest(const struct record *record)
{
    return &record->ring[record->newest];
}

/* The reading `back` before the newest. */
static const struct reading *earlier(const struct record *record, size_t back)
{
    return &record->ring[(record->newest + RING - back) % RING];
}

static uint64_t hash_of(const void *history, uint32_t number)
{
    return keyed_hash_name(((const struct history *)history)->records[number]->name);
}

struct record_key {
    const struct history *history;
    const char *name;
    int64_t generation;
};

static inline bool has_key(const void *key, uint32_t number)
{
    const struct record_key *wanted = key;
    const struct record *record = wanted->history->records[number];
    return newest(record)->counts.generation == wanted->generation &&
           strcmp(record->name, wanted->name) == 0;
}

static struct record *find(const struct history *history, const char *name, int64_t generation)
{
    struct record_key key = {.history = history, .name = name, .generation = generation};
    uint32_t number = hash_table_find(&history->names, keyed_hash_name(name), has_key, &key);
    return number == HASH_TABLE_NONE ? NULL : history->records[number];
}

static enum error add_record(struct history *history, const char *name,
                             const struct history_counts *counts, int64_t now_ns,
                             struct record **ret_record)
{
    struct record *record = array_new(1, sizeof(*record), "the history of a stream");
    if (!record)
        return ERROR_MEMORY;
    enum error error =
        array_grow((void **)&history->records, &history->capacity, history->count + 1,
                   sizeof(struct record *), "the history of streams");
    if (!error)
        error = hash_table_reserve(&history->names, history->count + 1, hash_of, history,
                                   "the history of streams");
    if (error) {
        free(record);
        return error;
    }
    snprintf(record->name, sizeof(record->name), "%s", name);
    record->slot_began_ns = now_ns;
    record->slot_moved = counts->read;
    uint32_t number = (uint32_t)history->count++;
    history->records[number] = record;
    hash_table_put(&history->names, hash_of(history, number), number);
    *ret_record = record;
    return OK;
}

/* Positions drawn between two readings. */
static int64_t step(const struct history_counts *before, const struct history_counts *now)
{
    int64_t drawn = (now->position - now->gaps) - (before->position - before->gaps);
    return before->jumps == now->jumps && drawn > 0 ? drawn : 0;
}

/* Closes the slots that are over. After late readings, several slots get the same mean. */
static void advance_slots(struct record *record, int64_t moved, int64_t now_ns)
{
    int64_t passed_ns = now_ns - record->slot_began_ns;
    int64_t slots = passed_ns / (HISTORY_SLOT_SECONDS * SECOND_NS);
    if (slots == 0)
        return;
    float mean = (float)((double)(moved - record->slot_moved) * 1e9 / (double)passed_ns);
    for (int64_t i = 0; i < slots && i < HISTORY_SLOTS; i++) {
        record->newest_slot = (record->newest_slot + 1) % HISTORY_SLOTS;
        record->course[record->newest_slot] = mean;
        record->slots += record->slots < HISTORY_SLOTS ? 1 : 0;
    }
    record->slot_began_ns = now_ns;
    record->slot_moved = moved;
}

/* The oldest reading not older than a minute before the newest one, with a second's tolerance for
 * late readings. */
static size_t minute_back(const struct record *record)
{
    int64_t limit_ns = newest(record)->time_ns - (HISTORY_MINUTE_SECONDS + 1) * SECOND_NS;
    size_t back = 0;
    while (back + 1 < record->used && earlier(record, back + 1)->time_ns >= limit_ns)
        back++;
    return back;
}

static int64_t batches_of(const struct reading *reading)
{
    return reading->counts.batches + reading->counts.reads;
}

/* The reading at which a rate starts. */
static size_t rate_back(const struct record *record)
{
    const struct reading *to = newest(record);
    size_t most = minute_back(record);
    size_t back = 0;
    while (back < most &&
           (to->time_ns - earlier(record, back)->time_ns < HISTORY_RATE_SECONDS * SECOND_NS ||
            batches_of(to) - batches_of(earlier(record, back)) < HISTORY_RATE_BATCHES))
        back++;
    return back;
}

/* Compares the newest reading with the one before. */
static void note_movement(struct record *record)
{
    const struct reading *now = newest(record);
    const struct reading *before = earlier(record, 1);
    const struct reading *from = earlier(record, rate_back(record));
    if (now->drawn == before->drawn && batches_of(now) <= batches_of(before))
        return;
    int64_t batches = batches_of(now) - batches_of(from);
    record->moved_ns = now->time_ns;
    record->pause_ns = (now->time_ns - from->time_ns) / (batches > 0 ? batches : 1);
}

static void add_reading(struct record *record, const struct history_counts *counts, int64_t now_ns)
{
    int64_t drawn = 0;
    if (!counts->ended)
        record->ended_ns = 0;
    else if (record->used > 0 && !newest(record)->counts.ended)
        record->ended_ns = now_ns;
    if (record->used > 0) {
        drawn = newest(record)->drawn + step(&newest(record)->counts, counts);
        record->newest = (record->newest + 1) % RING;
    }
    record->ring[record->newest] =
        (struct reading){.time_ns = now_ns, .drawn = drawn, .counts = *counts};
    record->used += record->used < RING ? 1 : 0;
    record->noted = true;
    if (record->used > 1)
        note_movement(record);
    advance_slots(record, drawn + counts->read, now_ns);
}

enum error history_note(struct history *history, const char *name,
                        const struct history_counts *counts, int64_t now_ns)
{
    enum error error = OK;
    pthread_mutex_lock(&history->mutex);
    struct record *record = find(history, name, counts->generation);
    if (!record)
        error = add_record(history, name, counts, now_ns, &record);
    if (!error)
        add_reading(record, counts, now_ns);
    pthread_mutex_unlock(&history->mutex);
    return error;
}

/* The last one takes its index. */
static void forget(struct history *history, uint32_t number)
{
    uint32_t last = (uint32_t)history->count - 1;
    struct record *record = history->records[number];
    hash_table_remove(&history->names, number, hash_of, history);
    if (number != last) {
        hash_table_remove(&history->names, last, hash_of, history);
        history->records[number] = history->records[last];
        hash_table_put(&history->names, hash_of(history, number), number);
    }
    history->count = last;
    free(record);
}

void history_sweep(struct history *history)
{
    pthread_mutex_lock(&history->mutex);
    for (uint32_t i = 0; i < history->count;) {
        if (history->records[i]->noted)
            history->records[i++]->noted = false;
        else
            forget(history, i);
    }
    pthread_mutex_unlock(&history->mutex);
}

/* A restore may reset counters. */
static double rate(int64_t from, int64_t to, double seconds)
{
    return to > from ? (double)(to - from) / seconds : 0;
}

static struct history_rates rates_of(const struct record *record)
{
    const struct reading *to = newest(record);
    const struct reading *from = earlier(record, rate_back(record));
    int64_t passed_ns = to->time_ns - from->time_ns;
    int64_t idle_ns = to->time_ns - record->moved_ns;
    struct history_rates rates = {.idle_seconds = -1};
    if (record->moved_ns > 0) {
        rates.idle_seconds = (double)idle_ns / 1e9;
        rates.stalled = idle_ns > HISTORY_STALL_SECONDS * SECOND_NS &&
                        idle_ns > HISTORY_STALL_PAUSES * record->pause_ns;
    }
    if (passed_ns < SHORTEST_NS)
        return rates;
    double seconds = (double)passed_ns / 1e9;
    rates.seconds = seconds;
    rates.positions = (double)(to->drawn - from->drawn) / seconds;
    rates.batches = rate(from->counts.batches, to->counts.batches, seconds);
    rates.acks = rate(from->counts.acked, to->counts.acked, seconds);
    rates.redeliveries = rate(from->counts.redelivered, to->counts.redelivered, seconds);
    rates.reads = rate(from->counts.reads, to->counts.reads, seconds);
    rates.read = rate(from->counts.read, to->counts.read, seconds);
    rates.read_end = rate(from->counts.read_end, to->counts.read_end, seconds);
    return rates;
}

bool history_rates(struct history *history, const char *name, int64_t generation,
                   struct history_rates *ret_rates)
{
    pthread_mutex_lock(&history->mutex);
    const struct record *record = find(history, name, generation);
    *ret_rates = record ? rates_of(record) : (struct history_rates){.idle_seconds = -1};
    pthread_mutex_unlock(&history->mutex);
    return record != NULL;
}

size_t history_course(struct history *history, const char *name, int64_t generation,
                      float ret_values[HISTORY_SLOTS])
{
    pthread_mutex_lock(&history->mutex);
    const struct record *record = find(history, name, generation);
    size_t count = record ? record->slots : 0;
    for (size_t i = 0; i < count; i++)
        ret_values[i] =
            record->course[(record->newest_slot + HISTORY_SLOTS - (count - 1 - i)) % HISTORY_SLOTS];
    pthread_mutex_unlock(&history->mutex);
    return count;
}

int64_t history_ended_ns(struct history *history, const char *name, int64_t generation)
{
    pthread_mutex_lock(&history->mutex);
    const struct record *record = find(history, name, generation);
    int64_t ended_ns = record ? record->ended_ns : 0;
    pthread_mutex_unlock(&history->mutex);
    return ended_ns;
}

/* Appends the draws between two moments to the spans. */
static void add_span(const struct history_counts *from, const struct history_counts *to,
                     struct history_span *spans, size_t *count)
{
    if (from->jumps != to->jumps || to->position <= from->position)
        return;
    if (*count > 0 && spans[*count - 1].end == from->position)
        spans[*count - 1].end = to->position;
    else
        spans[(*count)++] = (struct history_span){from->position, to->position};
}

size_t history_spans(struct history *history, const char *name, const struct history_counts *now,
                     struct history_span ret_spans[HISTORY_SPANS])
{
    size_t count = 0;
    pthread_mutex_lock(&history->mutex);
    const struct record *record = find(history, name, now->generation);
    for (size_t back = record ? minute_back(record) : 0; back > 0; back--)
        add_span(&earlier(record, back)->counts, &earlier(record, back - 1)->counts, ret_spans,
                 &count);
    if (record)
        add_span(&newest(record)->counts, now, ret_spans, &count);
    pthread_mutex_unlock(&history->mutex);
    return count;
}
