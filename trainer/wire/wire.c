/* SPDX-License-Identifier: MIT */
#include "trainer/wire/wire.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

static const char *const names[WIRE_TYPES] = {
    [WIRE_HELLO] = "HELLO",       [WIRE_WELCOME] = "WELCOME",
    [WIRE_FACTS] = "FACTS",       [WIRE_PROPOSE] = "PROPOSE",
    [WIRE_PROPOSAL] = "PROPOSAL", [WIRE_PULL] = "PULL",
    [WIRE_PUSH] = "PUSH",         [WIRE_SKIP] = "SKIP",
    [WIRE_VALUES] = "VALUES",     [WIRE_STALE] = "STALE",
    [WIRE_REFUSED] = "REFUSED",   [WIRE_RESTORE] = "RESTORE",
    [WIRE_RESTORED] = "RESTORED", [WIRE_FREEZE] = "FREEZE",
    [WIRE_FROZEN] = "FROZEN",     [WIRE_UNION] = "UNION",
    [WIRE_COPIED] = "COPIED",     [WIRE_COPY] = "COPY",
    [WIRE_THAW] = "THAW",         [WIRE_END] = "END",
    [WIRE_STORED] = "STORED",     [WIRE_OFFER] = "OFFER",
    [WIRE_TAKEN] = "TAKEN",       [WIRE_AGAIN] = "AGAIN",
    [WIRE_STOP] = "STOP",         [WIRE_JOIN] = "JOIN",
    [WIRE_GROUP] = "GROUP",       [WIRE_ID] = "ID",
    [WIRE_BEAT] = "BEAT",         [WIRE_NEWS] = "NEWS",
    [WIRE_STATE] = "STATE",       [WIRE_STREAM] = "STREAM",
};

const char *wire_type_name(enum wire_type type)
{
    return names[type];
}

static uint32_t check_of(const struct wire_header *header)
{
    return XXH32(header, offsetof(struct wire_header, check), 0);
}

void wire_header_seal(struct wire_header *header)
{
    memcpy(header->magic, WIRE_MAGIC, sizeof(header->magic));
    header->check = check_of(header);
}

void wire_frame(struct wire_header *header, const struct iovec parts[], size_t count,
                struct iovec ret_all[])
{
    assert(count <= WIRE_PARTS_LIMIT);
    ret_all[0] = (struct iovec){.iov_base = header, .iov_len = sizeof(*header)};
    header->bytes = 0;
    for (size_t i = 0; i < count; i++) {
        ret_all[1 + i] = parts[i];
        header->bytes += parts[i].iov_len;
    }
    wire_header_seal(header);
}

enum error wire_header_check(const struct wire_header *header, uint64_t most_bytes)
{
    if (memcmp(header->magic, WIRE_MAGIC, sizeof(header->magic)) != 0)
        return error_set(ERROR_INPUT, "the peer does not speak tombola-trainer's protocol");
    if (header->check != check_of(header))
        return error_set(ERROR_INPUT, "the header of a frame is damaged");
    if (header->type == 0 || header->type >= WIRE_TYPES)
        return error_set(ERROR_INPUT, "a frame of the unknown type %u", header->type);
    if (header->bytes > most_bytes)
        return error_set(ERROR_INPUT, "%s with %" PRIu64 " bytes, more than %" PRIu64,
                         names[header->type], header->bytes, most_bytes);
    return OK;
}

enum error wire_ranges_read(const void *payload, size_t count, struct index_set *set)
{
    int64_t least = 0;
    for (size_t i = 0; i < count; i++) {
        struct index_range range;
        memcpy(&range, (const char *)payload + i * sizeof(range), sizeof(range));
        if (range.first < least || range.end <= range.first)
            return error_set(ERROR_INPUT,
                             "range %zu of a set of batches, %" PRId64 " to %" PRId64
                             ", does not ascend",
                             i, range.first, range.end);
        least = range.end;
        enum error error = index_set_add(set, range);
        if (error)
            return error;
    }
    return OK;
}
