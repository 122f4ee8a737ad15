/* SPDX-License-Identifier: MIT */
/*
 * DIR/journal from outside. The first byte chooses: a file as it is; or entries (u16 length, bytes
 * each) that are put into sound frames, so that what they say is reached, too.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "sampler/journal/journal_record.h"
#include "sampler/stream/streams_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

struct replay {
    struct streams *streams;
    struct entry_numbers numbers;
};

static enum error visit(void *context, const uint8_t *bytes, size_t length)
{
    struct replay *replay = context;
    struct entry entry;
    enum error error = entry_decode(bytes, length, &replay->numbers, &entry);
    return error ? error : streams_replay(replay->streams, &entry);
}

static enum error count(void *context, const struct entry *entry)
{
    *(size_t *)context += entry_bound_bytes(entry);
    return OK;
}

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void read_journal(const uint8_t *bytes, size_t length)
{
    struct streams *streams = calloc(1, sizeof(*streams));
    struct replay replay = {.streams = streams};
    struct journal_found found;
    size_t written = 0;
    check(streams != NULL);
    pthread_mutex_init(&streams->mutex, NULL);
    if (!journal_read(bytes, length, 0, visit, &replay, &found)) {
        check(found.end >= found.header.whole_end && found.end <= length && !found.lost);
        check(!streams_write(streams, count, &written));
    }
    for (size_t i = 0; i < streams->count; i++) {
        struct ledger *ledger = &streams->items[i]->ledger;
        ledger_start(ledger, 1000);
        ledger_expire(ledger, INT64_MAX);
        check(ledger->leases.owned <= ledger->leases.count);
    }
    entry_numbers_release(&replay.numbers);
    streams_free(streams);
}

static void read_entries(const uint8_t *data, size_t length)
{
    const struct journal_header header = {.id = 1, .whole_end = JOURNAL_HEADER_BYTES};
    uint8_t *bytes = calloc(1, JOURNAL_HEADER_BYTES + 32 * (length + 1) + 512);
    size_t at = JOURNAL_HEADER_BYTES;
    check(bytes != NULL);
    journal_header_encode(&header, bytes);
    for (size_t i = 0; i + 1 < length;) {
        size_t entry_bytes = data[i] | (size_t)data[i + 1] << 8;
        i += 2;
        if (entry_bytes > length - i)
            entry_bytes = length - i;
        if (entry_bytes == 0)
            break;
        memcpy(bytes + at + JOURNAL_RECORD_HEAD_BYTES, data + i, entry_bytes);
        journal_record_seal(bytes + at, entry_bytes, 1, at, 0, data[0] & 8);
        at += journal_record_bytes(entry_bytes);
        i += entry_bytes;
    }
    read_journal(bytes, (at + 511) / 512 * 512);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length == 0)
        return 0;
    if (data[0] % 4 == 1)
        read_journal(data + 1, length - 1);
    else
        read_entries(data + 1, length - 1);
    return 0;
}
