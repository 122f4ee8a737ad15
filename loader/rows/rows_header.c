/* SPDX-License-Identifier: MIT */
/*
 * Offsets and strides follow from the counts: the file also states them, so that others can read it
 * without this arithmetic; here they must agree.
 */
#include "loader/rows/rows_header.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/crc32c.h"
#include "common/text.h"
#include "loader/column/feature_recipe.h"
#include "loader/column/row_limit.h"
#include "loader/rows/rows_ends.h"
#include "loader/rows/rows_record.h"

static_assert(sizeof(struct rows_head) == 160, "the file's layout");

#define FLAGS_KNOWN                                                                       \
    (ROWS_IDS | ROWS_CONSECUTIVE | ROWS_WEIGHTS | ROWS_GROUPS | ROWS_KEPT | ROWS_RECIPE | \
     ROWS_VARY | ROWS_LIMITED)
#define COLUMNS 4

/* ---- offsets ------------------------------------------------------------ */

/* False: more than 64 bits. */
static bool round_up(uint64_t bytes, uint64_t to, uint64_t *ret_bytes)
{
    uint64_t more;
    if (__builtin_add_overflow(bytes, to - 1, &more))
        return false;
    *ret_bytes = more / to * to;
    return true;
}

/* Records without gaps, preceded by the end of each. */
static bool place_varying(struct rows_header *header)
{
    struct rows_head *head = &header->head;
    uint64_t keys, ends, bytes, rows;
    head->row_bytes =
        sizeof(struct rows_row) + head->features * element_bytes((enum element)head->element);
    return !__builtin_mul_overflow(head->rows, head->key_bytes, &keys) &&
           !__builtin_mul_overflow(head->rows, sizeof(uint64_t), &ends) &&
           !__builtin_mul_overflow(header->elements, element_bytes((enum element)head->element),
                                   &bytes) &&
           !__builtin_mul_overflow(head->rows, sizeof(struct rows_row), &rows) &&
           !__builtin_add_overflow(keys, ends, &ends) &&
           !__builtin_add_overflow(ends, head->head_bytes + sizeof(struct rows_ends_tail),
                                   &head->rows_at) &&
           !__builtin_add_overflow(rows, bytes, &rows) &&
           !__builtin_add_overflow(head->rows_at, rows, &head->texts_at);
}

/* Computes strides and offsets from rows, features and optional parts; false: too many. */
static bool place(struct rows_header *header)
{
    struct rows_head *head = &header->head;
    uint64_t features, keys, rows;
    head->key_bytes = (uint32_t)rows_key_bytes(header);
    if (rows_header_has(header, ROWS_VARY)) {
        if (!place_varying(header))
            return false;
        head->file_bytes = head->texts_at;
        return head->texts_at <= INT64_MAX;
    }
    if (__builtin_mul_overflow(head->features, element_bytes((enum element)head->element),
                               &features) ||
        __builtin_add_overflow(features, sizeof(struct rows_row), &features) ||
        !round_up(features, ROWS_RECORD_ALIGNMENT, &head->row_bytes) ||
        __builtin_mul_overflow(head->rows, head->key_bytes, &keys) ||
        __builtin_add_overflow(head->head_bytes, keys, &head->rows_at) ||
        __builtin_mul_overflow(head->rows, head->row_bytes, &rows) ||
        __builtin_add_overflow(head->rows_at, rows, &head->texts_at))
        return false;
    head->file_bytes = head->texts_at;
    return head->texts_at <= INT64_MAX;
}

/* ---- writing ------------------------------------------------------------ */

static size_t texts_bytes(const struct rows_header *header)
{
    size_t bytes = 0;
    for (size_t i = 0; i < COLUMNS; i++)
        bytes += (header->columns[i] ? strlen(header->columns[i]) : 0) + 1;
    for (size_t i = 0; i < rows_header_names(header); i++)
        bytes += strlen(header->feature_names[i]) + 1;
    for (size_t i = 0; i < header->head.label_texts; i++)
        bytes += strlen(header->label_texts[i]) + 1;
    bytes += header->recipe ? strlen(header->recipe) + 1 : 0;
    bytes += header->source ? strlen(header->source) + 1 : 0;
    return bytes + (size_t)header->head.dimensions * sizeof(header->shape[0]);
}

static uint32_t flags_of(const struct store_info *info)
{
    return (info->id_column ? ROWS_IDS : ROWS_CONSECUTIVE) |
           (info->weight_column ? ROWS_WEIGHTS : 0u) | (info->group_column ? ROWS_GROUPS : 0u) |
           (info->recipe ? ROWS_RECIPE : 0u) | (info->lengths != LENGTHS_ALIKE ? ROWS_VARY : 0u) |
           (info->lengths == LENGTHS_LIMITED ? ROWS_LIMITED : 0u);
}

static enum error print_recipe(struct rows_header *header, const struct feature_recipe *recipe)
{
    struct buffer text = BUFFER_INIT(RECIPE_JSON_LIMIT);
    enum error error = feature_recipe_print(recipe, &text);
    if (!error)
        error = buffer_take(&text, &header->recipe_text);
    buffer_release(&text);
    header->recipe = header->recipe_text;
    return error;
}

/* A shape with too many dimensions is omitted. */
static void take_shape(struct rows_header *header, const struct store_info *info)
{
    if (!info->shape || info->lengths != LENGTHS_ALIKE || info->dimensions > ROWS_DIMENSIONS_LIMIT)
        return;
    header->head.dimensions = info->dimensions;
    memcpy(header->shape, info->shape, info->dimensions * sizeof(header->shape[0]));
}

static void take_key(struct rows_header *header, const uint8_t *key, const char *source)
{
    header->head.flags |= ROWS_KEPT;
    memcpy(header->head.key, key, ROWS_KEY_BYTES);
    header->source = source;
}

enum error rows_header_init(struct rows_header *header, const struct store_info *info,
                            const uint8_t *key, const char *source)
{
    *header = (struct rows_header){
        .head = {.magic = ROWS_MAGIC,
                 .version = ROWS_VERSION,
                 .rows = (uint64_t)info->rows,
                 .features = info->features,
                 .label_texts = info->label_kind == LABEL_TEXT ? info->label_text_count : 0,
                 .flags = flags_of(info),
                 .element = info->element,
                 .label_kind = info->label_kind},
        .elements = info->lengths == LENGTHS_ALIKE ? 0 : info->elements,
        .columns = {info->id_column, info->label_column, info->weight_column, info->group_column},
        .feature_names = (const char **)info->feature_names,
        .label_texts = (const char **)info->label_texts,
    };
    take_shape(header, info);
    if (key)
        take_key(header, key, source);
    enum error error = info->recipe ? print_recipe(header, info->recipe) : OK;
    if (error)
        return error;
    bool fits = round_up(sizeof(header->head) + texts_bytes(header), ROWS_ALIGNMENT,
                         &header->head.head_bytes);
    return fits && place(header)
               ? OK
               : error_set(ERROR_INPUT,
                           "%s: %" PRId64 " rows of %zu features are too many for a file",
                           info->uri, info->rows, info->features);
}

static void add_list(struct buffer *out, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = texts[i] ? texts[i] : "";
        buffer_add(out, text, strlen(text) + 1);
    }
}

enum error rows_header_write(const struct rows_header *header, struct buffer *out)
{
    static const char zeros[ROWS_ALIGNMENT];
    struct rows_head head = header->head;
    size_t start = out->length;
    head.checksum = 0;
    buffer_add(out, &head, sizeof(head));
    add_list(out, header->columns, COLUMNS);
    add_list(out, header->feature_names, (size_t)rows_header_names(header));
    add_list(out, header->label_texts, (size_t)head.label_texts);
    if (header->recipe)
        add_list(out, &header->recipe, 1);
    add_list(out, &header->source, header->source ? 1 : 0);
    buffer_add(out, header->shape, (size_t)head.dimensions * sizeof(header->shape[0]));
    enum error error = buffer_add(out, zeros, (size_t)head.head_bytes - (out->length - start));
    if (error)
        return error;
    head.checksum = crc32c_add(0, out->data + start, (size_t)head.head_bytes);
    memcpy(out->data + start, &head, sizeof(head));
    return OK;
}

/* ---- reading ------------------------------------------------------------ */

enum error rows_header_measure(const void *bytes, uint64_t file_bytes, const char *path,
                               size_t *ret_bytes)
{
    struct rows_head head;
    if (file_bytes < sizeof(head.magic) || memcmp(bytes, ROWS_MAGIC, sizeof(head.magic)) != 0)
        return error_set(ERROR_INPUT,
                         "%s is not a row file: it does not begin with \"" ROWS_MAGIC
                         "\"; `tombola-loader import SOURCE rows:PATH` makes one",
                         path);
    if (file_bytes < sizeof(head))
        return error_set(ERROR_INPUT, "%s is cut off at byte %" PRIu64 ", within its header", path,
                         file_bytes);
    memcpy(&head, bytes, sizeof(head));
    if (head.version != ROWS_VERSION)
        return error_set(ERROR_INPUT,
                         "%s is a row file of version %" PRIu32 ", at byte 8; this program reads "
                         "version %d: import the rows anew",
                         path, head.version, ROWS_VERSION);
    if (head.head_bytes > file_bytes || head.head_bytes < sizeof(head) + COLUMNS)
        return error_set(ERROR_INPUT,
                         "%s has %" PRIu64 " bytes; its header says at byte 16 that it has %" PRIu64
                         " of them: it is cut off or damaged",
                         path, file_bytes, head.head_bytes);
    *ret_bytes = (size_t)head.head_bytes;
    return OK;
}

static enum error refuse(const char *path, const char *what)
{
    return error_set(ERROR_INPUT, "%s is damaged: its header %s", path, what);
}

static enum error check_checksum(const struct rows_head *head, char *memory, const char *path)
{
    struct rows_head unsummed = *head;
    unsummed.checksum = 0;
    memcpy(memory, &unsummed, sizeof(unsummed));
    uint32_t checksum = crc32c_add(0, memory, (size_t)head->head_bytes);
    if (checksum == head->checksum)
        return OK;
    return error_set(ERROR_INPUT,
                     "%s is damaged: bytes 0 to %" PRIu64
                     ", its header, have the checksum %08" PRIx32 ", byte 12 says %08" PRIx32,
                     path, head->head_bytes - 1, checksum, head->checksum);
}

/* Describes the end of a file that is too short. */
static void describe_end(const struct rows_head *head, uint64_t end, char *out, size_t bytes)
{
    if (end < head->rows_at)
        snprintf(out, bytes, "within the keys of row %" PRIu64,
                 (end - head->head_bytes) / head->key_bytes);
    else if (end < head->texts_at && (head->flags & ROWS_VARY))
        snprintf(out, bytes, "within its rows");
    else if (end < head->texts_at)
        snprintf(out, bytes, "within row %" PRIu64, (end - head->rows_at) / head->row_bytes);
    else
        snprintf(out, bytes, "within the texts of its rows");
}

static enum error check_length(const struct rows_head *head, uint64_t file_bytes, const char *path)
{
    char where[64];
    if (head->file_bytes == file_bytes)
        return OK;
    if (head->file_bytes < file_bytes)
        return error_set(ERROR_INPUT,
                         "%s has %" PRIu64 " bytes; its header says %" PRIu64
                         ": something was written behind its last row",
                         path, file_bytes, head->file_bytes);
    describe_end(head, file_bytes, where, sizeof(where));
    return error_set(ERROR_INPUT,
                     "%s is cut off at byte %" PRIu64 ", %s; its header says %" PRIu64
                     " bytes (%" PRIu64 " rows of %" PRIu64 ")",
                     path, file_bytes, where, head->file_bytes, head->rows, head->row_bytes);
}

static bool has_key(const struct rows_head *head)
{
    static const uint8_t none[ROWS_KEY_BYTES];
    return memcmp(head->key, none, sizeof(none)) != 0;
}

/* The lengths of rows, if they differ: impossible ones are refused with the file's ends. */
static bool are_lengths(const struct rows_head *head)
{
    if ((head->flags & ROWS_VARY) == 0)
        return (head->flags & ROWS_LIMITED) == 0 && head->features <= head->head_bytes;
    return head->features <= ROW_LIMIT_MOST && head->dimensions == 0;
}

/* From where the rows end; place() then checks whether that is possible. */
static void count_elements(struct rows_header *header)
{
    const struct rows_head *head = &header->head;
    uint64_t least = head->rows * sizeof(struct rows_row);
    if (rows_header_has(header, ROWS_VARY) && head->texts_at > head->rows_at + least)
        header->elements =
            (head->texts_at - head->rows_at - least) / element_bytes((enum element)head->element);
}

static enum error check_numbers(const struct rows_header *header, const char *path)
{
    const struct rows_head *head = &header->head;
    bool ids = rows_header_has(header, ROWS_IDS);
    bool consecutive = rows_header_has(header, ROWS_CONSECUTIVE);
    if (head->element >= ELEMENTS || head->label_kind > LABEL_TEXT ||
        (head->flags & ~(uint32_t)FLAGS_KNOWN) != 0)
        return refuse(path, "names types that this version does not have");
    if (head->rows == 0 || head->rows > INT64_MAX || !are_lengths(head) ||
        head->label_texts > head->head_bytes || (!ids && (!consecutive || head->first_id != 0)) ||
        head->first_id < 0 ||
        (consecutive && head->first_id > INT64_MAX - (int64_t)(head->rows - 1)) ||
        (head->label_kind == LABEL_TEXT) != (head->label_texts > 0) ||
        head->dimensions > ROWS_DIMENSIONS_LIMIT ||
        (has_key(head) && !rows_header_has(header, ROWS_KEPT)))
        return refuse(path, "counts what cannot be");
    return OK;
}

static enum error check_places(const struct rows_header *header, uint64_t file_bytes,
                               const char *path)
{
    struct rows_header right = {.head = header->head, .elements = header->elements};
    const struct rows_head *a = &header->head, *b = &right.head;
    if (!place(&right) || a->key_bytes != b->key_bytes || a->row_bytes != b->row_bytes ||
        a->rows_at != b->rows_at || a->texts_at != b->texts_at || a->file_bytes < b->texts_at ||
        (a->file_bytes > b->texts_at && !rows_header_has_texts(header)))
        return refuse(path, "places its parts where they cannot be");
    return check_length(a, file_bytes, path);
}

/* The text at *at, which moves after it; NULL: no more. */
static const char *next_text(const char **at, const char *end)
{
    const char *text = *at;
    const char *last = memchr(text, '\0', (size_t)(end - text));
    if (!last)
        return NULL;
    *at = last + 1;
    return text;
}

static bool read_columns(struct rows_header *header, const char **at, const char *end)
{
    const bool there[COLUMNS] = {
        rows_header_has(header, ROWS_IDS), header->head.label_kind != LABEL_NONE,
        rows_header_has(header, ROWS_WEIGHTS), rows_header_has(header, ROWS_GROUPS)};
    for (size_t i = 0; i < COLUMNS; i++) {
        const char *text = next_text(at, end);
        if (!text)
            return false;
        header->columns[i] = there[i] ? text : NULL;
    }
    return true;
}

static bool is_label(const char *text)
{
    return text && text[0] && text_is_utf8(text, strlen(text));
}

/* Labels must ascend. */
static bool read_lists(struct rows_header *header, const char **at, const char *end)
{
    for (size_t i = 0; i < rows_header_names(header); i++) {
        header->feature_names[i] = next_text(at, end);
        if (!header->feature_names[i])
            return false;
    }
    for (size_t i = 0; i < header->head.label_texts; i++) {
        header->label_texts[i] = next_text(at, end);
        if (!is_label(header->label_texts[i]) ||
            (i > 0 && strcmp(header->label_texts[i - 1], header->label_texts[i]) >= 0))
            return false;
    }
    header->label_texts[header->head.label_texts] = *at;
    if (rows_header_has(header, ROWS_RECIPE))
        header->recipe = next_text(at, end);
    return header->recipe || !rows_header_has(header, ROWS_RECIPE);
}

/* What follows the lists: the source, and a shape that multiplies to the number of features. */
static bool read_rest(struct rows_header *header, const char **at, const char *end)
{
    uint64_t features = 1;
    size_t bytes = (size_t)header->head.dimensions * sizeof(header->shape[0]);
    if (rows_header_has(header, ROWS_KEPT) && !(header->source = next_text(at, end)))
        return false;
    if (bytes > (size_t)(end - *at))
        return false;
    memcpy(header->shape, *at, bytes);
    *at += bytes;
    for (size_t i = 0; i < header->head.dimensions; i++) {
        if (header->shape[i] < 1 ||
            __builtin_mul_overflow(features, (uint64_t)header->shape[i], &features))
            return false;
    }
    return header->head.dimensions == 0 || features == header->head.features;
}

/* Zeros, no more than alignment requires. */
static bool is_padding(const char *at, const char *end)
{
    for (const char *byte = at; byte < end; byte++) {
        if (*byte != 0)
            return false;
    }
    return end - at < ROWS_ALIGNMENT;
}

static enum error read_texts(struct rows_header *header, const char *path)
{
    const char *at = header->memory + sizeof(header->head);
    const char *end = header->memory + header->head.head_bytes;
    size_t count = (size_t)(rows_header_names(header) + header->head.label_texts + 1);
    header->lists = array_new(count, sizeof(*header->lists), "names of features and labels");
    if (!header->lists)
        return ERROR_MEMORY;
    header->feature_names = header->lists;
    header->label_texts = header->lists + rows_header_names(header);
    if (!read_columns(header, &at, end) || !read_lists(header, &at, end) ||
        !read_rest(header, &at, end) || !is_padding(at, end))
        return refuse(path, "has names or labels that are not texts in order, or a shape that does "
                            "not match its features");
    return OK;
}

enum error rows_header_parse(struct rows_header *header, char *memory, uint64_t file_bytes,
                             const char *path)
{
    *header = (struct rows_header){.memory = memory};
    memcpy(&header->head, memory, sizeof(header->head));
    enum error error = check_checksum(&header->head, memory, path);
    if (!error)
        error = check_numbers(header, path);
    if (!error)
        count_elements(header);
    if (!error)
        error = check_places(header, file_bytes, path);
    if (!error)
        error = read_texts(header, path);
    if (error)
        rows_header_release(header);
    return error;
}

void rows_header_release(struct rows_header *header)
{
    free(header->memory);
    free(header->lists);
    free(header->recipe_text);
    *header = (struct rows_header){.memory = NULL};
}
