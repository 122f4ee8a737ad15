/* SPDX-License-Identifier: MIT */
#include "sampler/journal/journal_entry.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/journal/varint.h"

#define NUMBER_FIELDS 8
#define BIT_TEXT (1u << NUMBER_FIELDS)
#define BIT_LIST (1u << (NUMBER_FIELDS + 1))
#define BITS_ALL ((1u << (NUMBER_FIELDS + 2)) - 1)
#define HEAD_BYTES 3

/* In the order of the bits. No worker is 0; so are units if every position holds one. */
static void to_fields(const struct entry *entry, int64_t fields[NUMBER_FIELDS])
{
    fields[0] = entry->first;
    fields[1] = entry->positions;
    fields[2] = entry->positions - entry->units;
    fields[3] = entry->asked;
    fields[4] = entry->worker + 1;
    fields[5] = entry->seq;
    fields[6] = entry->attempt;
    fields[7] = entry->value;
}

static size_t list_bound_bytes(const struct entry *entry)
{
    return entry->list_bytes ? entry->list_length : (1 + entry->count) * VARINT_BYTES;
}

size_t entry_bound_bytes(const struct entry *entry)
{
    return HEAD_BYTES + (NUMBER_FIELDS + 2) * VARINT_BYTES + entry->text_bytes +
           list_bound_bytes(entry);
}

static uint8_t *write_list(const struct entry *entry, uint8_t *at)
{
    uint64_t before = 0; /* unsigned: differences may wrap around, and wrap back when decoded */
    at = varint_write(at, entry->count);
    for (size_t i = 0; i < entry->count; i++) {
        at = varint_write_signed(at, (int64_t)((uint64_t)entry->list[i] - before));
        before = (uint64_t)entry->list[i];
    }
    return at;
}

enum error entry_encode_list(struct entry *entry, uint8_t **ret_bytes)
{
    uint8_t *bytes = array_new(list_bound_bytes(entry), 1, "a journal entry");
    if (!bytes)
        return ERROR_MEMORY;
    entry->list_length = (size_t)(write_list(entry, bytes) - bytes);
    entry->list_bytes = bytes;
    *ret_bytes = bytes;
    return OK;
}

size_t entry_encode(const struct entry *entry, uint8_t *out)
{
    int64_t fields[NUMBER_FIELDS];
    unsigned mask = (entry->text ? BIT_TEXT : 0) | (entry->list ? BIT_LIST : 0);
    uint8_t *at = varint_write(out + HEAD_BYTES, entry->stream);
    to_fields(entry, fields);
    for (unsigned i = 0; i < NUMBER_FIELDS; i++) {
        if (fields[i] == 0)
            continue;
        mask |= 1u << i;
        at = varint_write_signed(at, fields[i]);
    }
    if (entry->text) {
        at = varint_write(at, entry->text_bytes);
        memcpy(at, entry->text, entry->text_bytes);
        at += entry->text_bytes;
    }
    if (entry->list_bytes) {
        memcpy(at, entry->list_bytes, entry->list_length);
        at += entry->list_length;
    } else if (entry->list) {
        at = write_list(entry, at);
    }
    out[0] = (uint8_t)entry->type;
    out[1] = (uint8_t)mask;
    out[2] = (uint8_t)(mask >> 8);
    return (size_t)(at - out);
}

void entry_numbers_release(struct entry_numbers *numbers)
{
    free(numbers->items);
    *numbers = (struct entry_numbers){0};
}

static enum error refuse(const char *why)
{
    return error_set(ERROR_INPUT, "a journal entry %s", why);
}

static enum error read_list(struct varint_reader *reader, struct entry_numbers *numbers,
                            struct entry *entry)
{
    uint64_t count = varint_read(reader);
    if (count > (size_t)(reader->end - reader->at))
        return refuse("has a list that is longer than the entry");
    void *items = numbers->items;
    enum error error = array_grow(&items, &numbers->capacity, count + 1, sizeof(*numbers->items),
                                  "a journal entry");
    numbers->items = items;
    if (error)
        return error;
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++) {
        number += (uint64_t)varint_read_signed(reader);
        numbers->items[i] = (int64_t)number;
    }
    entry->list = numbers->items;
    entry->count = count;
    return OK;
}

static enum error read_text(struct varint_reader *reader, struct entry *entry)
{
    uint64_t length = varint_read(reader);
    if (length > (size_t)(reader->end - reader->at))
        return refuse("has a text that is longer than the entry");
    entry->text = (const char *)reader->at;
    entry->text_bytes = length;
    reader->at += length;
    return OK;
}

static void from_fields(struct entry *entry, const int64_t fields[NUMBER_FIELDS])
{
    entry->first = fields[0];
    entry->positions = fields[1];
    entry->units = (int64_t)((uint64_t)fields[1] - (uint64_t)fields[2]);
    entry->asked = fields[3];
    entry->worker = (int64_t)((uint64_t)fields[4] - 1);
    entry->seq = fields[5];
    entry->attempt = fields[6];
    entry->value = fields[7];
}

enum error entry_decode(const uint8_t *bytes, size_t length, struct entry_numbers *numbers,
                        struct entry *ret_entry)
{
    if (length < HEAD_BYTES + 1)
        return refuse("is too short");
    struct varint_reader reader = {.at = bytes + HEAD_BYTES, .end = bytes + length};
    unsigned mask = bytes[1] | (unsigned)bytes[2] << 8;
    if (bytes[0] < 1 || bytes[0] > ENTRY_TYPE_LAST || mask > BITS_ALL)
        return refuse("is of a kind unknown to this version");
    struct entry entry = {.type = (enum entry_type)bytes[0]};
    int64_t fields[NUMBER_FIELDS] = {0};
    enum error error = OK;
    uint64_t stream = varint_read(&reader);
    for (unsigned i = 0; i < NUMBER_FIELDS; i++) {
        if (mask & 1u << i)
            fields[i] = varint_read_signed(&reader);
    }
    from_fields(&entry, fields);
    if (stream > UINT32_MAX)
        return refuse("has a stream number out of range");
    entry.stream = (uint32_t)stream;
    if (mask & BIT_TEXT)
        error = read_text(&reader, &entry);
    if (!error && mask & BIT_LIST)
        error = read_list(&reader, numbers, &entry);
    if (!error && (reader.failed || reader.at != reader.end))
        error = refuse("is cut, or longer than it says");
    if (!error)
        *ret_entry = entry;
    return error;
}
