/* SPDX-License-Identifier: MIT */
#include "loader/idx/store_idx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"
#include "loader/store/store_kinds.h"
#include "loader/store/strided_reader.h"

#define FEATURES_LIMIT ((size_t)1 << 24)
#define IMAGES "-images-idx3-"
#define LABELS "-labels-idx1-"

/* ---- labels ------------------------------------------------------------- */

/* The names of "train-labels-idx1-ubyte" next to "train-images-idx3-ubyte", with the same packing
 * or another; the first that exists is used. */
static const char *const packings[] = {"", ".gz", ".zst"};
#define NAMES (1 + sizeof(packings) / sizeof(packings[0]))

struct label_names {
    char *text;         /* owned; NULL: the images' name does not follow the pattern */
    char *names[NAMES]; /* borrowed from it */
};

static size_t unpacked_length(const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 1; i < NAMES - 1; i++) {
        size_t ending = strlen(packings[i]);
        if (length > ending && strcmp(path + length - ending, packings[i]) == 0)
            return length - ending;
    }
    return length;
}

static enum error name_labels(const char *path, struct label_names *ret_names)
{
    enum { ENDING_BYTES = 5 };
    const char *images = strstr(path, IMAGES), *next = images;
    while (next && (next = strstr(next + 1, IMAGES)))
        images = next;
    *ret_names = (struct label_names){.text = NULL};
    if (!images)
        return OK;
    size_t bytes = strlen(path) + ENDING_BYTES;
    char *text = array_new(NAMES, bytes, "names of files");
    if (!text)
        return ERROR_MEMORY;
    ret_names->text = text;
    for (size_t i = 0; i < NAMES; i++, text += bytes) {
        if (i == 0)
            snprintf(text, bytes, "%s", path);
        else
            snprintf(text, bytes, "%.*s%s", (int)unpacked_length(path), path, packings[i - 1]);
        memcpy(text + (images - path), LABELS, sizeof(LABELS) - 1);
        ret_names->names[i] = text;
    }
    return OK;
}

/* NULL: none. */
static const char *find_labels(const struct label_names *names)
{
    for (size_t i = 0; names->text && i < NAMES; i++) {
        if (access(names->names[i], F_OK) == 0)
            return names->names[i];
    }
    return NULL;
}

/* Missing ones count too: if one appears, it is used. */
static enum error add_names(const struct label_names *names, store_file_sink *add, void *context)
{
    enum error error = OK;
    for (size_t i = 0; names->text && i < NAMES && !error; i++)
        error = add(context, names->names[i]);
    return error;
}

static enum error idx_store_other_files(const char *path, struct uri_query *query,
                                        store_file_sink *add, void *context)
{
    const char *labels = uri_query_get(query, "labels");
    if (labels)
        return add(context, labels);
    struct label_names names;
    enum error error = name_labels(path, &names);
    if (!error)
        error = add_names(&names, add, context);
    free(names.text);
    return error;
}

static enum error check_labels(const struct idx_store *store, const struct idx_header *labels,
                               const char *path)
{
    if (labels->values != 1)
        return error_set(ERROR_INPUT, "%s does not hold labels: it has %zu values a row, not one",
                         path, labels->values);
    if (labels->type == IDX_F32 || labels->type == IDX_F64)
        return error_set(ERROR_INPUT, "%s does not hold labels: it has floats, not integers", path);
    if (labels->rows != store->text.header.rows)
        return error_set(ERROR_INPUT, "%s has %" PRId64 " labels, %s has %" PRId64 " rows", path,
                         labels->rows, store->path, store->text.header.rows);
    return OK;
}

static enum error copy_labels(struct idx_store *store, const struct idx_text *text,
                              struct source_file *file)
{
    const struct idx_header *header = &text->header;
    struct strided_rows rows;
    const uint8_t *record = NULL;
    store->labels = array_new((size_t)header->rows, sizeof(*store->labels), "labels");
    if (!store->labels)
        return ERROR_MEMORY;
    enum error error = idx_text_rows(text, file, &rows);
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
    struct idx_text text;
    enum error error = file_as_input(idx_text_open(&text, path, false), path);
    if (error)
        return error;
    error = check_labels(store, &text.header, path);
    if (!error)
        error = source_file_open(&file, path, &text.source.identity);
    if (!error) {
        error = copy_labels(store, &text, &file);
        if (!error)
            error = source_file_check(&file); /* labels read may include later writes */
        source_file_close(&file);
    }
    idx_text_release(&text);
    return error;
}

/* `labels` is the URI's; NULL: not given, "": none. */
static enum error open_labels(struct idx_store *store, const char *labels)
{
    struct label_names names;
    enum error error = name_labels(store->path, &names);
    const char *path = error ? NULL : labels ? labels : find_labels(&names);
    if (path && path[0])
        error = read_labels(store, path);
    free(names.text);
    return error;
}

/* ---- values ------------------------------------------------------------- */

/* Are all values integers from 0 to 255? Which rows have one that is not a number, or not of the
 * URI's element? */
static enum error look_through(struct idx_store *store, struct source_file *file)
{
    enum element asked = store->store.info.element;
    enum element element = asked == ELEMENT_I32 ? asked : ELEMENT_F32;
    const struct idx_header *header = &store->text.header;
    struct strided_rows rows;
    const uint8_t *record = NULL;
    bool all_u8 = true, is_u8;
    void *features = array_new(header->values, element_bytes(element), "a row of an IDX file");
    enum error error = idx_text_rows(&store->text, file, &rows);
    if (!features)
        error = ERROR_MEMORY;
    for (int64_t i = 0; i < header->rows && !error; i++) {
        error = strided_rows_next(&rows, i, &record);
        if (error)
            break;
        if (idx_row_decode(store, i, record, element, features, &is_u8) == ROW_BAD)
            error = store_add_bad_row(&store->store.info, &store->first_bad);
        all_u8 = all_u8 && is_u8;
    }
    strided_rows_release(&rows);
    free(features);
    store->store.info.element = all_u8 ? asked : ELEMENT_F32;
    store->store.info.first_bad_row = store->first_bad;
    return error;
}

/* Numbers, as for the columns of a CSV without a header. */
static enum error name_features(struct idx_store *store)
{
    enum { NAME_BYTES = 21 };
    size_t count = store->text.header.values;
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

static enum error look_at_values(struct idx_store *store)
{
    struct source_file file;
    enum error error = source_file_open(&file, store->path, &store->text.source.identity);
    if (error)
        return error;
    error = look_through(store, &file);
    source_file_close(&file);
    return error;
}

static enum error open_values(struct idx_store *store, enum element element, bool keys_only)
{
    const struct idx_header *header = &store->text.header;
    enum error error = idx_text_open(&store->text, store->path, !keys_only);
    if (!error)
        error = name_features(store);
    if (error)
        return error;
    store->store.info =
        (struct store_info){.rows = header->rows,
                            .features = header->values,
                            .shape = header->dimensions > 1 ? header->shape + 1 : NULL,
                            .dimensions = header->dimensions - 1,
                            .element = element,
                            .bytes = store->text.source.identity.size_bytes,
                            .feature_names = (const char *const *)store->names};
    return header->type != IDX_U8 && !keys_only ? look_at_values(store) : OK;
}

static void idx_store_close(struct store *base)
{
    struct idx_store *store = (struct idx_store *)base;
    idx_text_release(&store->text);
    free(store->path);
    free(store->labels);
    free(store->names);
    free(store->first_bad);
    free(store);
}

static enum error idx_store_open(struct uri *uri, const struct read_options *options,
                                 struct store **ret_store)
{
    const char *labels = uri_query_get(&uri->query, "labels");
    struct element_choice element;
    enum error error = element_choice_read(&element, uri);
    if (!error)
        error = element_choice_check_numbers(&element, "an IDX file");
    if (!error)
        error = uri_query_finish(&uri->query);
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
    error = open_values(store, element.element, options->keys_only);
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
    .endings = "-idx2-ubyte|-idx3-ubyte|-idx4-ubyte|.idx|"
               "-idx2-ubyte.gz|-idx3-ubyte.gz|-idx4-ubyte.gz|.idx.gz|"
               "-idx2-ubyte.zst|-idx3-ubyte.zst|-idx4-ubyte.zst|.idx.zst",
    .open = idx_store_open,
    .other_files = idx_store_other_files,
    .close = idx_store_close,
    .scan = idx_store_scan,
    .reader_open = idx_reader_open,
    .has_run = idx_reader_has_run,
    .reader_close = strided_reader_close,
    .fetch = strided_reader_fetch,
    .locate = idx_row_locate,
};
