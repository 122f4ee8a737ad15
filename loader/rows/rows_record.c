/* SPDX-License-Identifier: MIT */
#include "loader/rows/rows_record.h"

#include <math.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/text.h"
#include "loader/column/element.h"
#include "loader/column/feature_blob.h"
#include "loader/rows/rows_header.h"

#define CHECKSUM_BYTES sizeof(uint32_t)
#define WRONG_CHECKSUM "is damaged: its checksum is not that of its bytes"
#define WRONG_VALUES "has a checksum that holds and values that cannot be"

static bool has_label_value(const struct rows_header *header)
{
    return header->head.label_kind == LABEL_INTEGER || header->head.label_kind == LABEL_REAL;
}

/* Covers the file's key, the record's place in it, and the record. */
static uint32_t checksum_of(const struct rows_header *header, int64_t place, const uint8_t *record,
                            size_t bytes)
{
    uint32_t sum;
    memcpy(&sum, header->head.key, sizeof(sum));
    sum = crc32c_add(sum, &place, sizeof(place));
    return crc32c_add(sum, record + CHECKSUM_BYTES, bytes - CHECKSUM_BYTES);
}

static bool has_checksum(const struct rows_header *header, int64_t place, const uint8_t *record,
                         size_t bytes)
{
    uint32_t noted;
    memcpy(&noted, record, sizeof(noted));
    return noted == checksum_of(header, place, record, bytes);
}

static void set_checksum(const struct rows_header *header, int64_t place, uint8_t *record,
                         size_t bytes)
{
    uint32_t sum = checksum_of(header, place, record, bytes);
    memcpy(record, &sum, sizeof(sum));
}

static bool is_label(const struct rows_header *header, double label)
{
    switch ((enum label_kind)header->head.label_kind) {
    case LABEL_NONE:
        return label == 0;
    case LABEL_INTEGER:
        return text_real_is_integer(label);
    case LABEL_REAL:
        return isfinite(label);
    case LABEL_TEXT:
        break;
    }
    return label >= 0 && label < (double)header->head.label_texts && label == floor(label);
}

/* ---- keys --------------------------------------------------------------- */

size_t rows_key_bytes(const struct rows_header *header)
{
    return sizeof(struct rows_key_start) + (has_label_value(header) ? sizeof(double) : 0) +
           (rows_header_has(header, ROWS_IDS) ? sizeof(int64_t) : 0) +
           (rows_header_has(header, ROWS_WEIGHTS) ? sizeof(double) : 0) +
           (rows_header_has_texts(header) ? sizeof(struct rows_key_texts) : 0);
}

static uint8_t *put(uint8_t *at, bool there, const void *field, size_t bytes)
{
    if (!there)
        return at;
    memcpy(at, field, bytes);
    return at + bytes;
}

void rows_key_write(const struct rows_header *header, int64_t row, const struct rows_key *key,
                    uint8_t *out)
{
    struct rows_key_start start = {.code = key->code};
    uint8_t *at = put(out, true, &start, sizeof(start));
    at = put(at, has_label_value(header), &key->label, sizeof(key->label));
    at = put(at, rows_header_has(header, ROWS_IDS), &key->id, sizeof(key->id));
    at = put(at, rows_header_has(header, ROWS_WEIGHTS), &key->weight, sizeof(key->weight));
    put(at, rows_header_has_texts(header), &key->texts, sizeof(key->texts));
    set_checksum(header, row, out, header->head.key_bytes);
}

static const uint8_t *get(const uint8_t *at, bool there, void *field, size_t bytes)
{
    if (!there)
        return at;
    memcpy(field, at, bytes);
    return at + bytes;
}

static bool is_key(const struct rows_header *header, int64_t row, const struct rows_key *key)
{
    const struct rows_head *head = &header->head;
    if (head->label_kind == LABEL_TEXT ? key->code >= head->label_texts : key->code != 0)
        return false;
    bool in_place = !rows_header_has(header, ROWS_CONSECUTIVE) || key->id == head->first_id + row;
    return key->id >= 0 && in_place && (row > 0 || key->id == head->first_id) &&
           is_label(header, head->label_kind == LABEL_TEXT ? key->code : key->label) &&
           key->weight >= 0 && isfinite(key->weight) &&
           key->texts.end <= head->file_bytes - head->texts_at;
}

const char *rows_key_read(const struct rows_header *header, int64_t row, const uint8_t *record,
                          struct rows_key *ret_key)
{
    struct rows_key_start start;
    struct rows_key key = {.id = row, .weight = 1};
    if (!has_checksum(header, row, record, header->head.key_bytes))
        return WRONG_CHECKSUM;
    const uint8_t *at = get(record, true, &start, sizeof(start));
    key.code = start.code;
    at = get(at, has_label_value(header), &key.label, sizeof(key.label));
    at = get(at, rows_header_has(header, ROWS_IDS), &key.id, sizeof(key.id));
    at = get(at, rows_header_has(header, ROWS_WEIGHTS), &key.weight, sizeof(key.weight));
    get(at, rows_header_has_texts(header), &key.texts, sizeof(key.texts));
    if (!is_key(header, row, &key))
        return WRONG_VALUES;
    *ret_key = key;
    return NULL;
}

/* ---- rows --------------------------------------------------------------- */

static size_t unit_bytes(const struct rows_header *header)
{
    return element_bytes((enum element)header->head.element);
}

size_t rows_row_bytes(const struct rows_header *header, size_t features)
{
    return rows_header_has(header, ROWS_VARY)
               ? sizeof(struct rows_row) + features * unit_bytes(header)
               : (size_t)header->head.row_bytes;
}

void rows_row_write(const struct rows_header *header, int64_t id, double label,
                    const void *features, size_t length, uint8_t *out)
{
    struct rows_row start = {.label = label};
    size_t bytes = length * unit_bytes(header);
    size_t all = rows_row_bytes(header, length);
    memcpy(out, &start, sizeof(start));
    if (bytes > 0)
        memcpy(out + sizeof(start), features, bytes);
    memset(out + sizeof(start) + bytes, 0, all - sizeof(start) - bytes);
    set_checksum(header, id, out, all);
}

const char *rows_row_read(const struct rows_header *header, int64_t id, const uint8_t *record,
                          size_t bytes, double *ret_label, size_t *ret_length)
{
    struct rows_row start;
    size_t features = rows_header_has(header, ROWS_VARY)
                          ? (bytes - sizeof(start)) / unit_bytes(header)
                          : (size_t)header->head.features;
    if (!has_checksum(header, id, record, bytes))
        return WRONG_CHECKSUM;
    memcpy(&start, record, sizeof(start));
    if (!is_label(header, start.label) ||
        (header->head.element == ELEMENT_F32 &&
         feature_not_finite(record + sizeof(start), features) < features))
        return WRONG_VALUES;
    *ret_label = start.label;
    *ret_length = features;
    return NULL;
}
