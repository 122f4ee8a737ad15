/* SPDX-License-Identifier: MIT */
#include "loader/postgres/store_postgres.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/log.h"
#include "loader/store/store_kinds.h"

/* Are its rows made of the imported columns, so that the recorded digest is theirs unless the table
 * was written to? */
static bool has_imported_columns(const struct postgres_table *table,
                                 const struct column_choice *choice)
{
    static const char *const made[COLUMN_ROLES] = {[COLUMN_ID] = "id",
                                                   [COLUMN_LABEL] = "label",
                                                   [COLUMN_WEIGHT] = "weight",
                                                   [COLUMN_GROUP] = "group"};
    for (size_t i = 0; i < COLUMN_ROLES; i++) {
        if (made[i] && choice->names[i] && strcmp(choice->names[i], made[i]) != 0)
            return false;
    }
    bool has_none = table->facts.features == 0 && table->format.feature_columns == 0;
    return table->facts.there && choice->only_count == 0 && (table->format.blob || has_none) &&
           table->format.element == table->facts.element;
}

static enum error describe(struct postgres_store *store, const struct column_choice *choice)
{
    struct store_info *info = &store->store.info;
    char *name;
    if (asprintf(&name, "postgresql:%s, table %s", store->place.shown, store->table.name) < 0)
        return error_set_memory(64, "a store's name");
    info->uri = name;
    struct postgres_format *format = &store->table.format;
    bool varies = row_limit_varies(&format->limit);
    info->lengths = format->limit.lengths;
    if (varies) {
        format->room = info->longest;
        format->features = row_limit_features(&format->limit, info->longest);
    }
    info->features = store->keys_only ? 0 : format->features;
    info->label_kind = store->keys_only && format->label ? LABEL_TEXT : store->labels.kind;
    info->id_column = format->id;
    info->label_column = format->label;
    info->weight_column = format->weight;
    info->group_column = format->group;
    info->recipe = store->table.plan.recipe;
    if (!info->recipe)
        info->recipe = store->table.facts.recipe;
    info->feature_names = format->blob ? store->numbers : format->feature_names;
    if (format->plan && !info->recipe->learner)
        info->feature_names = (const char *const *)info->recipe->names;
    if (format->blob && store->table.facts.features == format->features)
        info->feature_names = (const char *const *)store->table.facts.feature_names;
    if (varies)
        info->feature_names = NULL;
    if (!format->label && !choice->names[COLUMN_LABEL] && !format->blob &&
        format->feature_columns > 0) {
        info->label_choices = (const char *const *)store->table.columns;
        info->label_choice_count = store->table.count;
    }
    info->label_texts = store->labels.texts;
    info->label_text_count = store->labels.count;
    info->first_bad_row = store->first_bad_row;
    info->table = store->table.name;
    info->database = store->table.identity;
    if (has_imported_columns(&store->table, choice) && store->table.facts.digest[0])
        info->digest = store->table.facts.digest;
    info->digest_may_be_old = true;
    return OK;
}

static void postgres_store_close(struct store *base)
{
    struct postgres_store *store = (struct postgres_store *)base;
    postgres_table_release(&store->table);
    postgres_place_release(&store->place);
    label_dictionary_release(&store->labels);
    free(store->first_bad_row);
    free(store->numbers);
    free(store->fetch_sql);
    free(store->length_sql);
    free(store->cluster);
    free(store);
}

/* Sessions behind a pooler are shared: the name identifies the statement's text, so a statement
 * that another client left there is this one, or is not found. */
static void name_statement(struct postgres_store *store)
{
    XXH128_hash_t hash = XXH3_128bits(store->fetch_sql, strlen(store->fetch_sql));
    snprintf(store->statement, sizeof(store->statement), "tombola_%016llx%016llx",
             (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

static enum error open_table(struct postgres_store *store, const char *table,
                             const struct column_choice *choice)
{
    PGconn *connection = NULL;
    enum error error = postgres_connect(&store->place, &connection);
    if (error)
        return error;
    error = postgres_cluster(&store->place, connection, &store->cluster);
    if (!error)
        error = postgres_table_init(&store->table, &store->place, connection, table, choice,
                                    store->keys_only);
    PQfinish(connection);
    if (error)
        return error;
    store->fetch_sql =
        postgres_table_select(&store->table, false, "", " WHERE $id = ANY ($1::int8[])");
    if (!store->fetch_sql)
        return ERROR_MEMORY;
    name_statement(store);
    if (!row_limit_varies(&store->table.format.limit))
        return OK;
    store->length_sql = postgres_table_select_length(&store->table);
    return store->length_sql ? OK : ERROR_MEMORY;
}

static enum error inspect(struct postgres_store *store)
{
    enum error error = postgres_store_inspect(store);
    if (!error && store->store.info.rows == 0)
        error = postgres_store_refuse_empty(store);
    if (!error && !store->table.has_key)
        log_warning("postgresql:%s, table %s has no unique index on %s: each fetch reads all of it",
                    store->place.shown, store->table.name, store->table.format.id);
    return error;
}

static enum error postgres_store_open(struct uri *uri, const struct read_options *options,
                                      struct store **ret_store)
{
    struct column_choice choice;
    struct postgres_store *store = array_new(1, sizeof(*store), "a PostgreSQL store");
    if (!store)
        return ERROR_MEMORY;
    store->keys_only = options->keys_only;
    column_choice_read(&choice, uri, options);
    const char *table = uri_query_get(&uri->query, "table");
    enum error error = element_choice_read(&choice.element, uri);
    if (!error)
        error = row_limit_read(&choice.limit, uri);
    if (!error)
        error = postgres_place_init(&store->place, uri);
    if (!error)
        error = uri_query_finish(&uri->query);
    if (!error)
        error = open_table(store, table, &choice);
    if (!error && cell_plan_learns(&store->table.plan))
        error = postgres_store_learn(store);
    else if (!error && !options->keys_only)
        error = inspect(store);
    if (!error && store->table.format.blob && !store->length_sql) {
        store->numbers = column_numbers_new(store->table.format.features);
        error = store->numbers ? OK : ERROR_MEMORY;
    }
    if (!error)
        error = describe(store, &choice);
    if (error) {
        postgres_store_close(&store->store);
        return error;
    }
    *ret_store = &store->store;
    return OK;
}

const struct store_ops store_postgres_ops = {
    .scheme = "postgresql",
    .takes_recipe = true,
    .open = postgres_store_open,
    .close = postgres_store_close,
    .scan = postgres_store_scan,
    .reader_open = postgres_reader_open,
    .reader_close = postgres_reader_close,
    .fetch = postgres_reader_fetch,
    .measure = postgres_reader_measure,
};
