/* SPDX-License-Identifier: MIT */
#include "loader/idx/store_idx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "loader/store/store_kinds.h"
#include "loader/store/strided_reader.h"

#define FEATURES_LIMIT ((size_t)1 << 24)
#define IMAGES "-images-idx3-"
#define LABELS "-labels-idx1-"

/* ---- headers ------------------------------------------------------------ */

static enum error read_header(struct source_file *file, struct idx_header *ret_header)
{
    uint8_t bytes[IDX_HEADER_BYTES_LIMIT];
    uint64_t all = file->identity.size_bytes;
    size_t length = all < sizeof(bytes) ? (size_t)all : sizeof(bytes);
    enum error error = source_file_read(file, bytes, length, 0);
    return error ? error : idx_header_parse(bytes, length, all, file->path, ret_header);
}

/* ---- labels ------------------------------------------------------------- */

/* "train-labels-idx1-ubyte" beside "train-images-idx3-ubyte"; owned; NULL: the name is another. */
static enum error name_labels(const char *path, char **ret_path)
{
    const char *images = strstr(path, IMAGES), *next = images;
    while (next && (next = strstr(next + 1, IMAGES)))
        images = next;
    *ret_path = NULL;
    if (!images)
        return OK;
    char *found = strdup(path);
    if (!found)
        return error_set_memory(strlen(path), "a file's name");
    memcpy(found + (images - path), LABELS, sizeof(LABELS) - 1);
    *ret_path = found;
    return OK;
}

/* The same, if it is there. */
static enum error find_labels(const char *path, char **ret_path)
{
    enum error error = name_labels(path, ret_path);
    if (!error && *ret_path && access(*ret_path, F_OK) != 0) {
        free(*ret_path);
        *ret_path = NULL;
    }
    return error;
}

static enum error idx_store_other_files(const char *path, struct uri_query *query,
                                        store_file_sink *add, void *context)
{
    const char *labels = uri_query_get(query, "labels");
    char *named = NULL;
    enum error error = labels ? OK : name_labels(path, &named);
    if (!error && (labels ? labels : named))
        error = add(context, labels ? labels : named);
    free(named);
    return error;
}

static enum error check_labels(const struct idx_store *store, const struct idx_header *labels,
                               const char *path)
{
    if (labels->values != 1)
        return error_set(ERROR_INPUT, "%s holds no labels, but %zu values a row; one is right",
                         path, labels->values);
    if (labels->type == IDX_F32 || labels->type == IDX_F64)
        return error_set(ERROR_INPUT, "%s holds no labels, but floats; integers are right", path);
    if (labels->rows != store->header.rows)
        return error_set(ERROR_INPUT, "%s has %" PRId64 " labels, %s has %" PRId64 " rows", path,
                         labels->rows, store->path, store->header.rows);
    return OK;
}

static enum error copy_labels(struct idx_store *store, const struct idx_header *header,
                              struct source_file *file)
{
    struct strided_rows rows;
    const uint8_t *record = NULL;
    store->labels = array_new((size_t)header->rows, sizeof(*store->labels), "labels");
    if (!store->labels)
        return ERROR_MEMORY;
    enum error error =
        strided_rows_init(&rows, file, header->bytes, header->row_bytes, header->rows);
    for (int64_t row = 0; row < header->rows && !error; row++) {
        error = strided_rows_next(&rows, row, &record);
        if (!error)
            store->labels[row] = (int32_t)idx_value(header->type, record);
    }
    strided_rows_release(&rows);
    return error;
}

static enum error read_labels(struct idx_store *store, const char *path)
{
    struct source_file file;
    struct idx_header header;
    enum error error = source_file_open(&file, path, NULL);
    if (error)
        return error;
    error = read_header(&file, &header);
    if (!error)
        error = check_labels(store, &header, path);
    if (!error)
        error = copy_labels(store, &header, &file);
    source_file_close(&file);
    return error;
}

/* `labels` is what the URI says; NULL: nothing, "": there are none. */
static enum error open_labels(struct idx_store *store, const char *labels)
{
    char *found = NULL;
    enum error error = labels ? OK : find_labels(store->path, &found);
    const char *path = labels ? labels : found;
    if (!error && path && path[0])
        error = read_labels(store, path);
    free(found);
    return error;
}

/* ---- values ------------------------------------------------------------- */

/* Are all values integers from 0 to 255? Which rows have one that is no number? */
static enum error look_through(struct idx_store *store, struct source_file *file)
{
    const struct idx_header *header = &store->header;
    struct strided_rows rows;
    const uint8_t *record = NULL;
    bool all_u8 = true, is_u8;
    float *features = array_new(header->values, sizeof(*features), "a row of an IDX file");
    enum error error =
        strided_rows_init(&rows, file, header->bytes, header->row_bytes, header->rows);
    if (!features)
        error = ERROR_MEMORY;
    for (int64_t i = 0; i < header->rows && !error; i++) {
        error = strided_rows_next(&rows, i, &record);
        if (error)
            break;
        if (idx_row_decode(store, i, record, ELEMENT_F32, features, &is_u8) == ROW_BAD)
            error = store_add_bad_row(&store->store.info, &store->first_bad);
        all_u8 = all_u8 && is_u8;
    }
    strided_rows_release(&rows);
    free(features);
    store->store.info.element = all_u8 ? ELEMENT_U8 : ELEMENT_F32;
    store->store.info.first_bad_row = store->first_bad;
    return error;
}

/* Numbers, as columns of a CSV without a header are called. */
static enum error name_features(struct idx_store *store)
{
    enum { NAME_BYTES = 21 };
    size_t count = store->header.values;
    if (count > FEATURES_LIMIT)
        return error_set(ERROR_INPUT, "%s has %zu values a row; at most %zu are possible",
                         store->path, count, FEATURES_LIMIT);
    store->names = array_new(count, sizeof(char *) + NAME_BYTES, "names of features");
    if (!store->names)
        return ERROR_MEMORY;
    char *text = (char *)(store->names + count);
    for (size_t i = 0; i < count; i++, text += NAME_BYTES) {
        snprintf(text, NAME_BYTES, "%zu", i);
        store->names[i] = text;
    }
    return OK;
}

/* ---- open --------------------------------------------------------------- */

static enum error open_values(struct idx_store *store, bool keys_only)
{
    struct source_file file;
    struct store_info *info = &store->store.info;
    enum error error = source_file_open(&file, store->path, NULL);
    if (error)
        return error;
    store->identity = file.identity;
    error = read_header(&file, &store->header);
    if (!error)
        error = name_features(store);
    if (!error) {
        *info = (struct store_info){.rows = store->header.rows,
                                    .features = store->header.values,
                                    .shape = store->header.dimensions > 1 ? store->header.shape + 1
                                                                          : NULL,
                                    .dimensions = store->header.dimensions - 1,
                                    .element = ELEMENT_U8,
                                    .bytes = file.identity.size_bytes,
                                    .feature_names = (const char *const *)store->names};
        if (store->header.type != IDX_U8 && !keys_only)
            error = look_through(store, &file);
    }
    source_file_close(&file);
    return error;
}

static void idx_store_close(struct store *base)
{
    struct idx_store *store = (struct idx_store *)base;
    free(store->path);
    free(store->labels);
    free(store->names);
    free(store->first_bad);
    free(store);
}

static enum error idx_store_open(struct uri *uri, bool keys_only, struct store **ret_store)
{
    const char *labels = uri_query_get(&uri->query, "labels");
    enum error error = uri_query_finish(&uri->query);
    if (error)
        return error_prefix(error, "%s: ", uri->path);
    struct idx_store *store = array_new(1, sizeof(*store), "a store");
    if (!store)
        return ERROR_MEMORY;
    store->path = strdup(uri->path);
    if (!store->path) {
        idx_store_close(&store->store);
        return error_set_memory(strlen(uri->path), "a file's name");
    }
    error = open_values(store, keys_only);
    if (!error)
        error = open_labels(store, labels);
    if (error) {
        idx_store_close(&store->store);
        return error;
    }
    store->store.info.label_kind = store->labels ? LABEL_INTEGER : LABEL_NONE;
    store->store.info.label_column = store->labels ? "label" : NULL;
    *ret_store = &store->store;
    return OK;
}

const struct store_ops store_idx_ops = {
    .scheme = "idx",
    .endings = "-idx2-ubyte|-idx3-ubyte|-idx4-ubyte|.idx",
    .open = idx_store_open,
    .other_files = idx_store_other_files,
    .close = idx_store_close,
    .scan = idx_store_scan,
    .reader_open = idx_reader_open,
    .reader_close = strided_reader_close,
    .fetch = strided_reader_fetch,
    .locate = idx_row_locate,
};
