/* SPDX-License-Identifier: MIT */
/* The input is a row file, behind a byte: odd, and checksums are made right first, so that what they
 * protect is reached. What opens must give the same rows to scan and fetch. */
#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/fuzz_store.h"

#include "common/crc32c.h"
#include "loader/rows/rows_ends.h"
#include "loader/rows/rows_record.h"

#define INPUT_LIMIT_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

/* A record's, over the file's key, its place and all behind the checksum. */
static void mend_record(const struct rows_head *head, int64_t place, uint8_t *record, size_t bytes)
{
    uint32_t sum;
    memcpy(&sum, head->key, sizeof(sum));
    sum = crc32c_add(sum, &place, sizeof(place));
    sum = crc32c_add(sum, record + sizeof(sum), bytes - sizeof(sum));
    memcpy(record, &sum, sizeof(sum));
}

/* Where rows differ in length: the checksum of their ends, and whether each lies in the file behind
 * the one before it. */
static bool mend_ends(const struct rows_header *header, uint8_t *file, uint64_t *ret_ends)
{
    const struct rows_head *head = &header->head;
    uint8_t *tail = file + head->rows_at - sizeof(struct rows_ends_tail);
    size_t bytes = (size_t)head->rows * sizeof(uint64_t);
    struct rows_ends_tail right = {.checksum = crc32c_add(0, tail - bytes, bytes)};
    uint64_t end = 0;
    memcpy(tail, &right, sizeof(right));
    *ret_ends = head->rows_at - sizeof(right) - bytes;
    for (uint64_t row = 0; row < head->rows; row++) {
        uint64_t next;
        memcpy(&next, file + *ret_ends + row * sizeof(next), sizeof(next));
        if (next < end || next - end < sizeof(struct rows_row) ||
            next > head->texts_at - head->rows_at)
            return false;
        end = next;
    }
    return true;
}

/* Of the keys' texts, then of the keys, then of the rows. */
static void mend_records(const struct rows_header *header, uint8_t *file)
{
    const struct rows_head *head = &header->head;
    uint64_t from = 0, limit = head->file_bytes - head->texts_at, ends = 0, begin = 0;
    bool varies = rows_header_has(header, ROWS_VARY);
    if (varies && !mend_ends(header, file, &ends))
        return;
    for (int64_t row = 0; row < (int64_t)head->rows; row++) {
        uint8_t *record = file + rows_header_key_at(header, row);
        struct rows_key key = {.id = row};
        mend_record(head, row, record, head->key_bytes);
        if (rows_key_read(header, row, record, &key) == NULL && rows_header_has_texts(header) &&
            key.texts.end >= from && key.texts.end <= limit) {
            key.texts.checksum =
                crc32c_add(0, file + head->texts_at + from, (size_t)(key.texts.end - from));
            rows_key_write(header, row, &key, record);
            from = key.texts.end;
        }
        uint64_t end = begin + head->row_bytes;
        if (varies)
            memcpy(&end, file + ends + (uint64_t)row * sizeof(end), sizeof(end));
        mend_record(head, key.id, file + head->rows_at + begin, (size_t)(end - begin));
        begin = end;
    }
}

static void mend(uint8_t *file, size_t length)
{
    struct rows_header header;
    struct rows_head head;
    size_t bytes;
    if (rows_header_measure(file, length, "the input", &bytes))
        return;
    memcpy(&head, file, sizeof(head));
    head.checksum = 0;
    memcpy(file, &head, sizeof(head));
    head.checksum = crc32c_add(0, file, bytes);
    memcpy(file, &head, sizeof(head));
    char *memory = malloc(bytes + 1);
    if (!memory)
        abort();
    memcpy(memory, file, bytes);
    if (rows_header_parse(&header, memory, length, "the input"))
        return;
    mend_records(&header, file);
    rows_header_release(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    char uri[2048];
    if (length == 0 || length > INPUT_LIMIT_BYTES)
        return 0;
    uint8_t *file = malloc(length);
    if (!file)
        abort();
    memcpy(file, data + 1, length - 1);
    if (data[0] % 2)
        mend(file, length - 1);
    snprintf(uri, sizeof(uri), "rows:%s", fuzz_file_write(file, length - 1));
    free(file);
    fuzz_store(uri, NULL);
    return 0;
}
