/* SPDX-License-Identifier: MIT */
#include "loader/store/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "loader/store/column_role.h"

const char *const element_names[2] = {[ELEMENT_U8] = "u8", [ELEMENT_F32] = "f32"};
const char *const label_kind_names[4] = {[LABEL_NONE] = "none",
                                         [LABEL_INTEGER] = "integer",
                                         [LABEL_REAL] = "real",
                                         [LABEL_TEXT] = "text"};

bool store_is_without_rows(enum error error)
{
    return error == ERROR_INPUT && error_kind() && strcmp(error_kind(), STORE_WITHOUT_ROWS) == 0;
}

enum error store_add_bad_row(struct store_info *info, char **first)
{
    if (info->bad_rows++ > 0)
        return OK;
    *first = strdup(error_message());
    return *first ? OK : error_set_memory(ERROR_MESSAGE_BYTES, "a message");
}

void store_close(struct store *store)
{
    if (!store || atomic_fetch_sub(&store->keepers, 1) > 0)
        return;
    char *uri = (char *)store->info.uri;
    store->ops->close(store);
    free(uri);
}

void store_keep(struct store *store)
{
    atomic_fetch_add(&store->keepers, 1);
}

const struct store_info *store_info(const struct store *store)
{
    return &store->info;
}

const char *store_label_hint(const struct store_info *info, char out[STORE_HINT_BYTES])
{
    char names[NAME_LIST_BYTES];
    out[0] = '\0';
    if (!info->label_column && info->label_choices)
        snprintf(out, STORE_HINT_BYTES, "%clabel=NAME in the URI says which column holds them: %s",
                 strchr(info->uri, '?') ? '&' : '?',
                 name_list(info->label_choices, info->label_choice_count, names));
    return out;
}

void store_warn_of_labels(const struct store_info *info)
{
    char hint[STORE_HINT_BYTES];
    if (store_label_hint(info, hint)[0])
        log_warning(
            "%s: no labels: no column is called \"label\"; %s (label= alone: there are none)",
            info->uri, hint);
}

enum error store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                      void *context)
{
    return store->ops->scan(store, columns, sink, context);
}

const char *store_locate(struct store *store, int64_t row, char out[STORE_PLACE_BYTES])
{
    if (!store->ops->locate || store->ops->locate(store, row, out))
        snprintf(out, STORE_PLACE_BYTES, "%.400s, row %lld (from 1)", store->info.uri,
                 (long long)row + 1);
    return out;
}

enum error reader_open(struct store *store, struct reader **ret_reader)
{
    enum error error = store->ops->reader_open(store, ret_reader);
    if (!error)
        (*ret_reader)->store = store;
    return error;
}

void reader_close(struct reader *reader)
{
    if (reader)
        reader->store->ops->reader_close(reader);
}

enum error reader_fetch(struct reader *reader, const int64_t *ids, size_t count, void *features,
                        size_t stride_bytes, double *labels, enum row_status *status)
{
    return reader->store->ops->fetch(reader, ids, count, features, stride_bytes, labels, status);
}
