/* SPDX-License-Identifier: MIT */
#include "loader/csv/csv_keys.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"

static const char rows_memory[] = "the rows of a block of CSV";

void csv_keys_release(struct csv_keys *keys)
{
    if (keys->is_ready)
        csv_decoder_release(&keys->decoder);
    free(keys->ids);
    free(keys->label_codes);
    free(keys->group_codes);
    free(keys->weights);
    text_set_release(&keys->labels.set);
    text_set_release(&keys->groups.set);
    memset(keys, 0, sizeof(*keys));
}

static enum error grow(void **array, size_t rows, size_t element_bytes)
{
    void *larger = array_new(rows, element_bytes, rows_memory);
    if (!larger)
        return ERROR_MEMORY;
    free(*array);
    *array = larger;
    return OK;
}

static enum error reserve(struct csv_keys *keys, const struct csv_columns *columns, size_t rows)
{
    enum error error = OK;
    if (rows <= keys->capacity)
        return OK;
    keys->capacity = 0;
    error = grow((void **)&keys->ids, rows, sizeof(*keys->ids));
    if (!error && columns->column_of[COLUMN_LABEL] >= 0)
        error = grow((void **)&keys->label_codes, rows, sizeof(*keys->label_codes));
    if (!error && columns->column_of[COLUMN_GROUP] >= 0)
        error = grow((void **)&keys->group_codes, rows, sizeof(*keys->group_codes));
    if (!error && columns->column_of[COLUMN_WEIGHT] >= 0)
        error = grow((void **)&keys->weights, rows, sizeof(*keys->weights));
    if (!error)
        keys->capacity = rows;
    return error;
}

/* Lines are not rows if quotes contain line ends; a row has at least a byte per column. */
static size_t most_rows(const struct csv_columns *columns, const struct csv_block *block)
{
    size_t lines = (size_t)block->lines + 1;
    size_t rows = block->length / csv_columns_least(columns) + 1;
    return lines < rows ? lines : rows;
}

static void clear(struct csv_texts *texts)
{
    if (texts->set.count > 0)
        memset(texts->small, 0, sizeof(texts->small));
    text_set_clear(&texts->set);
}

static enum error prepare(struct csv_keys *keys, const struct csv_columns *columns, char delimiter,
                          const struct csv_block *block)
{
    enum error error = OK;
    keys->rows = 0;
    clear(&keys->labels);
    clear(&keys->groups);
    if (!keys->is_ready)
        error = csv_decoder_init(&keys->decoder, columns, delimiter);
    if (error)
        return error;
    keys->is_ready = true;
    return reserve(keys, columns, most_rows(columns, block));
}

/* ---- fast path ---------------------------------------------------------- */

#define EACH(byte) ((uint64_t)(byte)*UINT64_C(0x0101010101010101))

/* How many of the eight bytes, from the first on, are digits. */
static inline unsigned count_digits(uint64_t bytes)
{
    uint64_t values = bytes ^ EACH('0');
    uint64_t others = ((values + EACH(0x76)) | values) & EACH(0x80);
    return others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
}

/* The value of the first `digits` (1 to 8) bytes. */
static inline uint64_t value_of(uint64_t bytes, unsigned digits)
{
    bytes = (bytes - EACH('0')) << (64 - 8 * digits);
    bytes = bytes * 10 + (bytes >> 8); /* pairs, in every other byte */
    uint64_t pairs = UINT64_C(0x000000ff000000ff);
    return ((bytes & pairs) * (100 + (UINT64_C(1000000) << 32)) +
            (bytes >> 16 & pairs) * (1 + (UINT64_C(10000) << 32))) >>
           32;
}

/* Parses up to 15 digits; leading zeros are allowed. Returns what follows, or NULL. */
static inline const char *quick_id(const char *at, int64_t *ret_id)
{
    static const uint64_t powers[9] = {1,      10,      100,      1000,     10000,
                                       100000, 1000000, 10000000, 100000000};
    uint64_t bytes, value = 0;
    for (unsigned done = 0; done < 16; done += 8) {
        memcpy(&bytes, at, sizeof(bytes));
        unsigned digits = count_digits(bytes);
        if (digits > 0)
            value = value * powers[digits] + value_of(bytes, digits);
        else if (done == 0)
            return NULL;
        at += digits;
        if (digits < 8) {
            *ret_id = (int64_t)value;
            return at;
        }
    }
    return NULL;
}

/* An unquoted text without blanks around it; returns its end, or NULL. */
static const char *quick_text(const char *at, char delimiter)
{
    const char *start = at;
    unsigned char all = 0, least = UINT8_MAX;
    while (*at != delimiter && *at != '\n' && *at != '\r') {
        unsigned char byte = (unsigned char)*at++;
        all |= byte;
        least = byte < least ? byte : least;
    }
    return all < 0x80 && least > ' ' && at > start ? at : NULL;
}

/* The number of the text for `value` < CSV_KEYS_SMALL, without a leading zero. */
static inline enum error add_small(struct csv_texts *texts, uint32_t value, const char *text,
                                   size_t length, uint32_t *ret_number)
{
    enum error error = OK;
    if (__builtin_expect(texts->small[value] == 0, 0)) {
        error = text_set_borrow(&texts->set, text, length, ret_number);
        if (!error)
            texts->small[value] = *ret_number + 1;
    } else {
        *ret_number = texts->small[value] - 1;
    }
    return error;
}

/* Numbers a label or group. Returns what follows, or NULL, also if there is no memory, which the
 * slow path then reports. */
static inline const char *quick_class(const char *at, char delimiter, struct csv_texts *texts,
                                      uint32_t *ret_code)
{
    uint64_t bytes;
    memcpy(&bytes, at, sizeof(bytes));
    unsigned digits = count_digits(bytes);
    char next = at[digits];
    if (digits >= 1 && digits <= 3 && (digits == 1 || *at != '0') &&
        (next == delimiter || next == '\n' || next == '\r')) {
        uint32_t value = (uint32_t)value_of(bytes, digits);
        return add_small(texts, value, at, digits, ret_code) ? NULL : at + digits;
    }
    const char *end = quick_text(at, delimiter);
    if (!end || text_set_borrow(&texts->set, at, (size_t)(end - at), ret_code))
        return NULL;
    return end;
}

static const char *quick_weight(const char *at, char delimiter, double *ret_weight)
{
    const char *end = quick_text(at, delimiter);
    return end && text_parse_real(at, (size_t)(end - at), ret_weight) && *ret_weight >= 0 ? end
                                                                                          : NULL;
}

/* The columns, as a fast pass over a block needs them. */
struct quick {
    const struct csv_columns *columns;
    char delimiter;
    const char *end; /* of the block */
};

/* Skips `count` fields; returns the delimiter or LF after them, or NULL. */
static const char *quick_skip(const struct quick *quick, const char *at, size_t count, bool is_last)
{
    const char *line_end = is_last ? memchr(at, '\n', (size_t)(quick->end - at)) : NULL;
    if (is_last && row_limit_varies(&quick->columns->limit))
        return line_end;
    if (is_last)
        return csv_count_bytes(at, (size_t)(line_end - at), quick->delimiter) == count - 1
                   ? line_end
                   : NULL;
    for (size_t i = 0; i < count; i++, at++) {
        while (*at != quick->delimiter && *at != '\n')
            at++;
        if (*at == '\n')
            return NULL;
    }
    return at - 1;
}

static inline const char *quick_key(const struct quick *quick, struct csv_keys *keys,
                                    enum column_role role, const char *at)
{
    size_t row = keys->rows;
    switch (role) {
    case COLUMN_ID:
        return quick_id(at, &keys->ids[row]);
    case COLUMN_LABEL:
        return quick_class(at, quick->delimiter, &keys->labels, &keys->label_codes[row]);
    case COLUMN_GROUP:
        return quick_class(at, quick->delimiter, &keys->groups, &keys->group_codes[row]);
    default:
        return quick_weight(at, quick->delimiter, &keys->weights[row]);
    }
}

/* Parses one record into row keys->rows; returns what follows its LF, or NULL: nothing was kept but
 * texts, which the slow path adds again. */
static const char *quick_record(const struct quick *quick, struct csv_keys *keys, const char *at)
{
    const struct csv_columns *columns = quick->columns;
    for (size_t i = 0; i < columns->run_count; i++) {
        const struct column_run *run = &columns->runs[i];
        bool is_last = i + 1 == columns->run_count;
        if (run->role == COLUMN_FEATURE || run->role == COLUMN_IGNORED)
            at = quick_skip(quick, at, run->count, is_last);
        else
            at = quick_key(quick, keys, run->role, at);
        if (!at)
            return NULL;
        if (is_last)
            at += *at == '\r';
        if (*at++ != (is_last ? '\n' : quick->delimiter))
            return NULL;
    }
    return at;
}

/* ---- slow path ---------------------------------------------------------- */

static enum error keep_row(struct csv_keys *keys, const struct store_row *row)
{
    size_t i = keys->rows;
    enum error error = OK;
    keys->ids[i] = row->id;
    if (keys->label_codes)
        error = text_set_borrow(&keys->labels.set, row->label.data, row->label.length,
                                &keys->label_codes[i]);
    if (!error && keys->group_codes)
        error = text_set_borrow(&keys->groups.set, row->group.data, row->group.length,
                                &keys->group_codes[i]);
    if (keys->weights)
        keys->weights[i] = row->weight;
    keys->rows++;
    return error;
}

static enum error slow_record(struct csv_keys *keys, char *record, size_t length, bool plain)
{
    struct store_row row;
    enum error error =
        csv_decode_row(&keys->decoder, record, length, plain, ELEMENT_U8, NULL, &row);
    return error ? error : keep_row(keys, &row);
}

static enum error decode_slowly(struct csv_keys *keys, char delimiter, struct csv_block *block,
                                int64_t *ret_line)
{
    size_t at = 0, length;
    int64_t lines = 0;
    enum error error = OK;
    while (!error) {
        char *record = csv_block_next(block, delimiter, &at, &lines, &length, ret_line);
        if (!record)
            break;
        error = slow_record(keys, record, length, block->plain);
    }
    return error;
}

/* ---- both --------------------------------------------------------------- */

/* The one-line record at *at, which the fast path did not parse. */
static enum error decode_line(struct csv_keys *keys, const struct quick *quick, char **at)
{
    char *record = *at;
    size_t length = (size_t)((char *)memchr(record, '\n', (size_t)(quick->end - record)) - record);
    *at = record + length + 1;
    return csv_record_is_blank(record, length + 1, quick->delimiter)
               ? OK
               : slow_record(keys, record, length + 1, true);
}

static enum error decode_quickly(struct csv_keys *keys, const struct csv_columns *columns,
                                 char delimiter, struct csv_block *block, int64_t *ret_line)
{
    char *at = block->data;
    struct quick quick = {
        .columns = columns, .delimiter = delimiter, .end = block->data + block->length};
    enum error error = OK;
    *ret_line = block->first_line;
    while (at < quick.end) {
        /* A blank line may look like a row of empty fields. */
        bool is_odd = *at == ' ' || *at == '\t' || *at == '\n' || *at == '\r';
        const char *next = is_odd ? NULL : quick_record(&quick, keys, at);
        if (next) {
            keys->rows++;
            at += next - at;
        } else {
            error = decode_line(keys, &quick, &at);
        }
        if (error)
            return error;
        *ret_line += 1;
    }
    return OK;
}

/* Skipped fields are not parsed, but a CR in one of them is still an error. */
static bool may_hide_returns(const struct csv_columns *columns, const struct csv_block *block)
{
    for (size_t i = 0; i < columns->run_count; i++) {
        if (columns->runs[i].role == COLUMN_FEATURE || columns->runs[i].role == COLUMN_IGNORED)
            return memchr(block->data, '\r', block->length) != NULL;
    }
    return false;
}

enum error csv_keys_decode(struct csv_keys *keys, const struct csv_columns *columns, char delimiter,
                           struct csv_block *block, bool quick, int64_t *ret_line)
{
    enum error error = prepare(keys, columns, delimiter, block);
    *ret_line = block->first_line;
    if (error)
        return error;
    bool has_id = columns->column_of[COLUMN_ID] >= 0;
    if (quick && block->plain && !may_hide_returns(columns, block)) {
        error = decode_quickly(keys, columns, delimiter, block, ret_line);
        for (size_t i = 0; i < keys->rows && !has_id; i++)
            keys->ids[i] = -1;
        return error;
    }
    return decode_slowly(keys, delimiter, block, ret_line);
}
