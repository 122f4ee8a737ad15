/* SPDX-License-Identifier: MIT */
#include "sampler/journal/journal_record.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#define HEADER_PAGE_BYTES 4096
#define HEADER_SECTOR_BYTES 512
#define HEADER_CHECKSUM_OFFSET (HEADER_SECTOR_BYTES - 8)
#define WATERMARK_CHECKSUM_OFFSET (JOURNAL_WATERMARK_BYTES - 8)
#define ORDERED (UINT32_C(1) << 31) /* in a record's length */
#define BLOCK_BYTES 512             /* a divisor of every file system's block size */

static void put64(uint8_t *out, uint64_t value)
{
    memcpy(out, &value, sizeof(value)); /* configure refuses big-endian machines */
}

static uint64_t get64(const uint8_t *in)
{
    uint64_t value;
    memcpy(&value, in, sizeof(value));
    return value;
}

void journal_header_encode(const struct journal_header *header, uint8_t out[JOURNAL_HEADER_BYTES])
{
    memset(out, 0, JOURNAL_HEADER_BYTES);
    memcpy(out, JOURNAL_MAGIC, JOURNAL_MAGIC_BYTES);
    put64(out + 8, header->id);
    put64(out + 16, (uint64_t)header->shift);
    put64(out + 24, header->whole_end);
    put64(out + 32, header->length);
    put64(out + HEADER_CHECKSUM_OFFSET, XXH3_64bits(out, HEADER_CHECKSUM_OFFSET));
}

static bool are_zeros(const uint8_t *bytes, size_t begin, size_t end)
{
    while (begin < end && bytes[begin] == 0)
        begin++;
    return begin == end;
}

/* False: not of this version, damaged, or truncated. */
static bool decode_header(const uint8_t *bytes, size_t length, struct journal_header *ret_header)
{
    if (length < JOURNAL_HEADER_BYTES || memcmp(bytes, JOURNAL_MAGIC, JOURNAL_MAGIC_BYTES) != 0 ||
        get64(bytes + HEADER_CHECKSUM_OFFSET) != XXH3_64bits(bytes, HEADER_CHECKSUM_OFFSET) ||
        !are_zeros(bytes, HEADER_SECTOR_BYTES, HEADER_PAGE_BYTES))
        return false;
    *ret_header = (struct journal_header){
        .id = get64(bytes + 8),
        .shift = (int64_t)get64(bytes + 16),
        .whole_end = get64(bytes + 24),
        .length = get64(bytes + 32),
    };
    return ret_header->whole_end >= JOURNAL_HEADER_BYTES;
}

void journal_watermark_encode(const struct journal_watermark *watermark, uint64_t id,
                              uint8_t out[JOURNAL_WATERMARK_BYTES])
{
    put64(out, watermark->whole);
    put64(out + 8, watermark->length);
    put64(out + 16, watermark->closed);
    put64(out + WATERMARK_CHECKSUM_OFFSET,
          XXH3_64bits_withSeed(out, WATERMARK_CHECKSUM_OFFSET, id));
}

static bool decode_watermark(const uint8_t bytes[JOURNAL_WATERMARK_BYTES], uint64_t id,
                             struct journal_watermark *ret_watermark)
{
    if (get64(bytes + WATERMARK_CHECKSUM_OFFSET) !=
            XXH3_64bits_withSeed(bytes, WATERMARK_CHECKSUM_OFFSET, id) ||
        get64(bytes + 16) > 1)
        return false;
    *ret_watermark = (struct journal_watermark){
        .whole = get64(bytes), .length = get64(bytes + 8), .closed = get64(bytes + 16) == 1};
    return true;
}

/* ---- records ------------------------------------------------------------ */

/* u64 checksum of all that follows, u32 length and flag, u32 unsynced, entry, zeros. */

static uint64_t checksum(const uint8_t *record, size_t entry_bytes, uint64_t id, uint64_t lsn)
{
    return XXH3_64bits_withSeed(record + 8, journal_record_bytes(entry_bytes) - 8, id + lsn);
}

void journal_record_seal(uint8_t *record, size_t entry_bytes, uint64_t id, uint64_t lsn,
                         uint64_t unsynced, bool ordered)
{
    uint32_t facts[2] = {(uint32_t)entry_bytes | (ordered ? ORDERED : 0),
                         unsynced > UINT32_MAX ? UINT32_MAX : (uint32_t)unsynced};
    size_t end = JOURNAL_RECORD_HEAD_BYTES + entry_bytes;
    memcpy(record + 8, facts, sizeof(facts));
    memset(record + end, 0, journal_record_bytes(entry_bytes) - end);
    put64(record, checksum(record, entry_bytes, id, lsn));
}

static size_t entry_length(const uint8_t *record)
{
    uint32_t length;
    memcpy(&length, record + 8, sizeof(length));
    return length & ~ORDERED;
}

size_t journal_record_length(const uint8_t head[JOURNAL_RECORD_HEAD_BYTES])
{
    return journal_record_bytes(entry_length(head));
}

bool journal_record_is_sound(const uint8_t *record, size_t length, uint64_t id, uint64_t lsn,
                             size_t *ret_entry_bytes)
{
    if (length < JOURNAL_RECORD_HEAD_BYTES)
        return false;
    size_t entry_bytes = entry_length(record);
    if (entry_bytes == 0 || entry_bytes > length - JOURNAL_RECORD_HEAD_BYTES ||
        journal_record_bytes(entry_bytes) > length ||
        get64(record) != checksum(record, entry_bytes, id, lsn))
        return false;
    *ret_entry_bytes = entry_bytes;
    return true;
}

struct record {
    size_t entry_bytes;
    uint64_t unsynced;
    bool ordered;
};

/* The record at `offset`, if it is complete. */
static bool read_record(const uint8_t *bytes, size_t length, size_t offset,
                        const struct journal_header *header, struct record *ret_record)
{
    uint32_t facts[2];
    size_t entry_bytes;
    uint64_t lsn = offset + (uint64_t)header->shift;
    if (!journal_record_is_sound(bytes + offset, length - offset, header->id, lsn, &entry_bytes))
        return false;
    memcpy(facts, bytes + offset + 8, sizeof(facts));
    *ret_record = (struct record){entry_bytes, facts[1], facts[0] & ORDERED};
    return true;
}

/* ---- judging ------------------------------------------------------------ */

/* The remedy is the same for all of these. */
static enum error refuse(size_t end)
{
    return error_prefix(ERROR_INPUT,
                        "it is damaged at byte %zu (bring back a copy of the folder; or start once "
                        "with --accept-loss %zu: what was answered after that byte is forgotten, "
                        "and its draws come again): ",
                        end, end);
}

/* A file only grows, and by whole blocks. */
static enum error judge_length(size_t length, size_t end, const struct journal_header *header,
                               const struct journal_watermark *watermark)
{
    uint64_t least = watermark->length > header->length ? watermark->length : header->length;
    if (length >= least && length % BLOCK_BYTES == 0)
        return OK;
    if (length >= least)
        (void)error_set(ERROR_INPUT,
                        "it is %zu bytes long, and should be a multiple of %d, at least %" PRIu64
                        ": it was cut",
                        length, BLOCK_BYTES, least);
    else
        (void)error_set(ERROR_INPUT,
                        "it is %zu bytes long, and should be at least %" PRIu64 ": it was cut",
                        length, least);
    return refuse(end);
}

static enum error judge_whole(size_t end, const struct journal_header *header,
                              const struct journal_watermark *watermark)
{
    uint64_t known = watermark->whole - (uint64_t)header->shift;
    bool closed = watermark->closed && end < known;
    uint64_t whole_end = known > header->whole_end ? known : header->whole_end;
    if (end >= whole_end)
        return OK;
    (void)error_set(ERROR_INPUT, "%s byte %" PRIu64,
                    closed ? "it was closed in order at" : "it was on the disk up to", whole_end);
    return refuse(end);
}

/* Records after the end show whether the missing part once existed. */
static enum error judge_rest(const uint8_t *bytes, size_t length, size_t end,
                             const struct journal_header *header, bool *ret_torn)
{
    struct record record;
    *ret_torn = false;
    for (size_t offset = end; offset + 8 <= length;) {
        if (get64(bytes + offset) == 0) {
            offset += 8; /* allocated but unused */
            continue;
        }
        *ret_torn = true;
        if (!read_record(bytes, length, offset, header, &record)) {
            offset += 8;
            continue;
        }
        if (record.unsynced < offset - end || record.ordered) {
            (void)error_set(ERROR_INPUT,
                            record.unsynced < offset - end
                                ? "the entry at byte %zu says that what stood there was on the disk"
                                : "the entry at byte %zu is whole, and a killed process loses "
                                  "nothing before it; power loss with --durability process does, "
                                  "and so does a bad disk",
                            offset);
            return refuse(end);
        }
        offset += journal_record_bytes(record.entry_bytes);
    }
    return OK;
}

/* A torn watermark is ignored. */
static void read_watermark(const uint8_t *bytes, const struct journal_header *header,
                           struct journal_watermark *ret_watermark)
{
    if (!decode_watermark(bytes + JOURNAL_WATERMARK_OFFSET, header->id, ret_watermark))
        *ret_watermark =
            (struct journal_watermark){.whole = header->whole_end + (uint64_t)header->shift};
}

static enum error judge(const uint8_t *bytes, size_t length, struct journal_found *found)
{
    struct journal_watermark watermark;
    read_watermark(bytes, &found->header, &watermark);
    enum error error = judge_length(length, found->end, &found->header, &watermark);
    if (!error)
        error = judge_whole(found->end, &found->header, &watermark);
    return error ? error : judge_rest(bytes, length, found->end, &found->header, &found->torn);
}

/* A digit, of any version's journal; else 0. */
static uint8_t version_of(const uint8_t *bytes, size_t length)
{
    if (length < JOURNAL_MAGIC_BYTES || memcmp(bytes, JOURNAL_MAGIC, JOURNAL_VERSION_AT) != 0)
        return 0;
    uint8_t version = bytes[JOURNAL_VERSION_AT];
    return version >= '1' && version <= '9' ? version : 0;
}

static enum error refuse_header(const uint8_t *bytes, size_t length)
{
    if (version_of(bytes, length) > JOURNAL_MAGIC[JOURNAL_VERSION_AT])
        return error_set(ERROR_INPUT,
                         "it was written by a later version, or its header is damaged: "
                         "start that version, bring back a copy of the folder, or "
                         "move it away to begin again");
    if (version_of(bytes, length) == '1')
        return error_set(ERROR_INPUT, "it was written by an earlier version, whose orders "
                                      "differed: finish the epoch with that version, or move the "
                                      "folder away to begin again");
    return error_set(ERROR_INPUT,
                     "its header (of %zu bytes that it is long) is damaged, or it is not a "
                     "journal of this version. Bring back a copy of the folder, or move it "
                     "away to begin again",
                     length);
}

enum error journal_read(const uint8_t *bytes, size_t length, uint64_t accept_loss,
                        journal_visit visit, void *context, struct journal_found *ret_found)
{
    struct journal_found found = {0};
    struct record record;
    if (!decode_header(bytes, length, &found.header))
        return refuse_header(bytes, length);
    found.end = JOURNAL_HEADER_BYTES;
    while (found.end < length && read_record(bytes, length, found.end, &found.header, &record)) {
        enum error error =
            visit(context, bytes + found.end + JOURNAL_RECORD_HEAD_BYTES, record.entry_bytes);
        if (error)
            return error_prefix(error, "entry at byte %zu: ", found.end);
        found.end += journal_record_bytes(record.entry_bytes);
    }
    enum error error = judge(bytes, length, &found);
    if (error && accept_loss != found.end)
        return error;
    found.lost = error;
    *ret_found = found;
    return OK;
}
