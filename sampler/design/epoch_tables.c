/* SPDX-License-Identifier: MIT */
#include "sampler/design/epoch_tables.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/array.h"

struct table {
    int64_t epoch; /* -1: none */
    bool ready;
    unsigned users;
    uint64_t used_at; /* by the clock of struct epoch_tables */
    int64_t *values;  /* [V] owned */
};

struct epoch_tables {
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    uint64_t clock;
    struct table tables[EPOCH_TABLES];
};

enum error epoch_tables_new(size_t values, const char *what, struct epoch_tables **ret_tables)
{
    struct epoch_tables *tables = array_new(1, sizeof(*tables), what);
    if (!tables)
        return ERROR_MEMORY;
    pthread_mutex_init(&tables->mutex, NULL);
    pthread_cond_init(&tables->changed, NULL);
    for (size_t i = 0; i < EPOCH_TABLES; i++) {
        tables->tables[i].epoch = -1;
        tables->tables[i].values = array_new(values, sizeof(int64_t), what);
        if (!tables->tables[i].values) {
            epoch_tables_free(tables);
            return ERROR_MEMORY;
        }
    }
    *ret_tables = tables;
    return OK;
}

void epoch_tables_free(struct epoch_tables *tables)
{
    if (!tables)
        return;
    for (size_t i = 0; i < EPOCH_TABLES; i++)
        free(tables->tables[i].values);
    pthread_cond_destroy(&tables->changed);
    pthread_mutex_destroy(&tables->mutex);
    free(tables);
}

/* The epoch's table; else the least recently used one that is not in use; else NULL. */
static struct table *choose(struct epoch_tables *tables, int64_t epoch)
{
    struct table *oldest = NULL;
    for (size_t i = 0; i < EPOCH_TABLES; i++) {
        struct table *table = &tables->tables[i];
        if (table->epoch == epoch)
            return table;
        if (table->users == 0 && (!oldest || table->used_at < oldest->used_at))
            oldest = table;
    }
    return oldest;
}

const int64_t *epoch_tables_borrow(struct epoch_tables *tables, const struct order *order,
                                   const struct epoch *epoch, epoch_table_fill *fill)
{
    struct table *table;
    pthread_mutex_lock(&tables->mutex);
    while (!(table = choose(tables, epoch->number)) ||
           (table->epoch == epoch->number && !table->ready))
        pthread_cond_wait(&tables->changed, &tables->mutex);
    table->users++;
    table->used_at = ++tables->clock;
    if (table->epoch != epoch->number) {
        table->epoch = epoch->number;
        table->ready = false;
        pthread_mutex_unlock(&tables->mutex);
        fill(order, epoch, table->values);
        pthread_mutex_lock(&tables->mutex);
        table->ready = true;
        pthread_cond_broadcast(&tables->changed);
    }
    pthread_mutex_unlock(&tables->mutex);
    return table->values;
}

void epoch_tables_put(struct epoch_tables *tables, const int64_t *values)
{
    pthread_mutex_lock(&tables->mutex);
    for (size_t i = 0; i < EPOCH_TABLES; i++) {
        struct table *table = &tables->tables[i];
        if (table->values == values && --table->users == 0)
            pthread_cond_broadcast(&tables->changed);
    }
    pthread_mutex_unlock(&tables->mutex);
}
