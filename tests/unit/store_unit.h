/* SPDX-License-Identifier: MIT */
/* What tests of stores share: files from text, whole stores in memory, a small own generator. */
#ifndef TESTS_UNIT_STORE_UNIT_H
#define TESTS_UNIT_STORE_UNIT_H

#include "tests/unit/folder_unit.h"

#include "common/file.h"
#include "loader/store/row_cache.h"
#include "loader/store/row_slots.h"
#include "loader/store/store.h"
#include "loader/store/store_writer.h"
#include "loader/store_open.h"

/* FOLDER/NAME; valid until the fourth call from here. */
static inline const char *path_of(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, 512, "%s/%s", folder, name);
    return path;
}

static inline void write_bytes(const char *name, const void *bytes, size_t length)
{
    assert_ok(file_write_whole(path_of(name), bytes, length));
}

static inline void write_file(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

/* "csv:FOLDER/NAME?QUERY"; valid until the fourth call from here. */
static inline const char *uri_of(const char *scheme, const char *name, const char *query)
{
    static char uris[4][1024];
    static int next;
    char *uri = uris[next++ % 4];
    snprintf(uri, 1024, "%s:%s/%s%s%s", scheme, folder, name, query[0] ? "?" : "", query);
    return uri;
}

/* Writes `text` to a file and opens it as CSV. */
static inline enum error open_csv(const char *text, const char *query, struct store **ret_store)
{
    write_file("rows.csv", text);
    return store_open(uri_of("csv", "rows.csv", query), false, ret_store);
}

/* Opening must fail, and the message must hold `says`. */
static inline void refuse_csv(const char *text, const char *query, enum error code,
                              const char *says)
{
    struct store *store = NULL;
    assert_fails(open_csv(text, query, &store), code, says);
}

/* splitmix64: the tests' own generator. */
static inline uint64_t dice(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline size_t dice_below(uint64_t *state, size_t limit)
{
    return (size_t)(dice(state) % limit);
}

/* All that a scan hands out. */
struct rows {
    size_t count, capacity;
    int64_t *ids;
    char **labels, **groups;
    double *values, *weights;
    uint8_t *features; /* [count, row_bytes], zeros behind those of a shorter row */
    int64_t *lengths;
    enum row_status *status;
    size_t row_bytes;
    const struct store_info *info;
};

static inline char *text_copy(const struct text *text)
{
    char *copy = malloc(text->length + 1);
    memcpy(copy, text->data, text->length);
    copy[text->length] = '\0';
    return copy;
}

static inline enum error keep_block(void *context, const struct store_block *block)
{
    struct rows *rows = context;
    const uint8_t *features = block->features;
    assert_int_equal(block->first_row, rows->count);
    assert_true(block->rows > 0);
    for (size_t i = 0; i < block->rows; i++) {
        size_t at = rows->count++;
        assert_true(at < rows->capacity);
        rows->ids[at] = block->ids[i];
        rows->labels[at] = text_copy(&block->labels[i]);
        rows->groups[at] = block->groups ? text_copy(&block->groups[i]) : NULL;
        rows->weights[at] = block->weights ? block->weights[i] : 1;
        rows->values[at] = block->label_values ? block->label_values[i] : 0;
        rows->status[at] = block->status ? block->status[i] : ROW_OK;
        size_t bytes = store_block_row_bytes(block, i, rows->info);
        rows->lengths[at] = rows->status[at] != ROW_OK ? 0
                            : block->lengths           ? block->lengths[i]
                                                       : (int64_t)rows->info->features;
        assert_true(bytes <= rows->row_bytes);
        if (features && bytes > 0) {
            memcpy(rows->features + at * rows->row_bytes, features, bytes);
            features += bytes;
        }
    }
    return OK;
}

static inline void rows_init(struct rows *rows, const struct store *store)
{
    const struct store_info *info = store_info(store);
    size_t count = (size_t)info->rows;
    rows->count = 0;
    rows->info = info;
    rows->capacity = count;
    rows->row_bytes = info->features * element_bytes(info->element);
    rows->ids = calloc(count, sizeof(*rows->ids));
    rows->labels = calloc(count, sizeof(*rows->labels));
    rows->groups = calloc(count, sizeof(*rows->groups));
    rows->values = calloc(count, sizeof(*rows->values));
    rows->weights = calloc(count, sizeof(*rows->weights));
    rows->features = calloc(count, rows->row_bytes + 1);
    rows->lengths = calloc(count, sizeof(*rows->lengths));
    rows->status = calloc(count, sizeof(*rows->status));
}

static inline void rows_release(struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->labels[i]);
        free(rows->groups[i]);
    }
    free(rows->ids);
    free(rows->labels);
    free(rows->groups);
    free(rows->values);
    free(rows->weights);
    free(rows->features);
    free(rows->lengths);
    free(rows->status);
}

static inline void rows_scan(struct rows *rows, struct store *store, enum scan_columns columns)
{
    rows_init(rows, store);
    assert_ok(store_scan(store, columns, keep_block, rows));
    assert_int_equal(rows->count, store_info(store)->rows);
}

static inline double feature_of(const struct rows *rows, const struct store_info *info, size_t row,
                                size_t feature)
{
    const uint8_t *features = rows->features + row * rows->row_bytes;
    float value;
    int32_t whole;
    if (info->element == ELEMENT_U8)
        return features[feature];
    memcpy(&value, features + feature * sizeof(value), sizeof(value));
    memcpy(&whole, features + feature * sizeof(whole), sizeof(whole));
    return info->element == ELEMENT_I32 ? whole : (double)value;
}

/* The same rows side by side; behind them nothing is touched where lengths are known before. */
static inline void check_packed(struct reader *reader, const struct rows *rows, const int64_t *ids,
                                const size_t *which, size_t count)
{
    const struct store_ops *ops = reader->store->ops;
    const struct store_info *info = store_info(reader->store);
    bool known = info->lengths == LENGTHS_VARY && ops->knows_lengths && ops->knows_lengths(reader);
    size_t all = count * rows->row_bytes, width = 0, longest = 0;
    uint8_t *features = malloc(all + 1);
    int64_t lengths[64];
    enum row_status status[64];
    memset(features, 0xa5, all + 1);
    assert_true(count <= 64);
    assert_ok(reader_fetch_packed(reader, ids, count, features, NULL, status, lengths, &width));
    size_t bytes = width * element_bytes(info->element);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(status[i], rows->status[which[i]]);
        assert_int_equal(lengths[i], rows->lengths[which[i]]);
        assert_memory_equal(features + i * bytes, rows->features + which[i] * rows->row_bytes,
                            bytes);
        longest = (size_t)lengths[i] > longest ? (size_t)lengths[i] : longest;
    }
    assert_int_equal(width, info->lengths == LENGTHS_VARY ? longest : info->features);
    for (size_t at = known ? count * bytes : all; at <= all; at++)
        assert_int_equal(features[at], 0xa5);
    free(features);
}

/* What fetch() says of random ids must be what the scan said. */
static inline void check_fetch(struct store *store, const struct rows *rows, uint64_t seed)
{
    enum { COUNT = 64, GUARD = 5 };
    struct reader *reader = NULL;
    size_t stride = rows->row_bytes + GUARD;
    uint8_t *features = malloc(COUNT * stride);
    int64_t ids[COUNT], lengths[COUNT], measured[COUNT];
    double labels[COUNT];
    enum row_status status[COUNT];
    size_t which[COUNT];
    assert_ok(reader_open(store, &reader));
    for (int round = 0; round < 8; round++) {
        memset(features, 0xa5, COUNT * stride);
        size_t count = 1 + dice_below(&seed, COUNT);
        for (size_t i = 0; i < count; i++) {
            which[i] = dice_below(&seed, rows->count);
            ids[i] = rows->ids[which[i]];
        }
        assert_ok(reader_fetch(reader, ids, count, features, stride, labels, status));
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(status[i], rows->status[which[i]]);
            assert_memory_equal(features + i * stride, rows->features + which[i] * rows->row_bytes,
                                rows->row_bytes);
            assert_true(labels[i] == rows->values[which[i]]);
            for (size_t k = 0; k < GUARD; k++)
                assert_int_equal(features[i * stride + rows->row_bytes + k], 0xa5);
        }
        assert_ok(
            reader_fetch_lengths(reader, ids, count, features, stride, labels, status, lengths));
        assert_ok(reader_lengths(reader, ids, count, measured));
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(status[i], rows->status[which[i]]);
            assert_int_equal(lengths[i], rows->lengths[which[i]]);
            assert_int_equal(measured[i], lengths[i]);
            assert_memory_equal(features + i * stride, rows->features + which[i] * rows->row_bytes,
                                (size_t)lengths[i] * element_bytes(store_info(store)->element));
            for (size_t k = 0; k < GUARD; k++)
                assert_int_equal(features[i * stride + rows->row_bytes + k], 0xa5);
        }
        check_packed(reader, rows, ids, which, count);
    }
    reader_close(reader);
    free(features);
}

/* A fetch of one row of one feature must be refused with this in its message. */
static inline void refuse_fetch(struct reader *reader, int64_t id, const char *says)
{
    float feature;
    double label;
    enum row_status status;
    assert_fails(reader_fetch(reader, &id, 1, &feature, sizeof(feature), &label, &status),
                 ERROR_INPUT, says);
}

/* What `import` does, into a file of a kind; whatever is there is replaced. */
static inline enum error try_import(const struct store_writer_ops *kind, struct store *store,
                                    const char *path)
{
    struct uri uri = {.path = (char *)(uintptr_t)path};
    struct store_writer *writer = NULL;
    enum error error =
        store_writer_open(kind, &uri, kind->has_table ? "samples" : NULL, true, &writer);
    if (!error)
        error = store_writer_begin(writer, store_info(store));
    if (!error)
        error = store_scan(store, SCAN_FEATURES, store_writer_add, writer);
    if (!error)
        error = store_writer_commit(writer);
    store_writer_close(writer);
    return error;
}

static inline void import_store(struct store *store, const char *path)
{
    assert_ok(try_import(&store_writer_sqlite_ops, store, path));
}

static inline void import_rows(struct store *store, const char *path)
{
    assert_ok(try_import(&store_writer_rows_ops, store, path));
}

/* What `import` says to a file that is there, without --force. */
static inline enum error try_place(const struct store_writer_ops *kind, const char *path,
                                   const char *table)
{
    struct uri uri = {.path = (char *)(uintptr_t)path};
    struct store_writer *writer = NULL;
    enum error error = store_writer_open(kind, &uri, table, false, &writer);
    store_writer_close(writer);
    return error;
}

/* The least memory in which a row cache keeps all rows. */
static inline uint64_t cache_bytes(const struct store_info *info)
{
    bool has_ids = info->id_column != NULL;
    uint64_t index = row_cache_row_bytes(0, info->element, has_ids) -
                     row_cache_row_bytes(0, info->element, false);
    if (info->lengths == LENGTHS_ALIKE)
        return (uint64_t)info->rows * row_cache_row_bytes(info->features, info->element, has_ids);
    return (uint64_t)info->rows * (ROW_SLOTS_VARYING_BYTES + index) +
           info->elements * element_bytes(info->element);
}

#endif
