/* SPDX-License-Identifier: MIT */
#include "loader/store/fetch_call.h"

#include <stdbool.h>
#include <string.h>

void fetch_call_init(struct fetch_call *call, const struct reader *reader, const int64_t *ids,
                     void *features, size_t stride_bytes, double *labels, enum row_status *status)
{
    const struct store_info *info = &reader->store->info;
    call->lengths = reader->lengths;
    call->ids = ids;
    call->features = features;
    call->unit_bytes = element_bytes(info->element);
    call->row_bytes = info->features * call->unit_bytes;
    call->stride_bytes = stride_bytes;
    call->labels = labels;
    call->status = status;
    call->worst = SIZE_MAX;
}

uint8_t *fetch_call_slot(const struct fetch_call *call, size_t index)
{
    return call->features + index * call->stride_bytes;
}

void fetch_call_length(struct fetch_call *call, size_t index, size_t length)
{
    size_t bytes = length * call->unit_bytes;
    if (call->lengths)
        call->lengths[index] = (int64_t)length;
    else if (call->row_bytes > bytes)
        memset(fetch_call_slot(call, index) + bytes, 0, call->row_bytes - bytes);
}

void fetch_call_set(struct fetch_call *call, size_t index, enum row_status status, double label)
{
    if (status != ROW_OK && call->lengths)
        call->lengths[index] = 0;
    else if (status != ROW_OK && call->row_bytes > 0)
        memset(fetch_call_slot(call, index), 0, call->row_bytes);
    if (status != ROW_OK && index < call->worst) {
        call->worst = index;
        error_report_take(ERROR_INPUT, &call->report);
    }
    call->status[index] = status;
    if (call->labels)
        call->labels[index] = status == ROW_OK ? label : 0;
}

void fetch_call_miss(struct fetch_call *call, size_t index, const char *store)
{
    error_set(ERROR_INPUT, "%s has no row with the id %lld", store, (long long)call->ids[index]);
    fetch_call_set(call, index, ROW_MISSING, 0);
}

void fetch_call_copy(struct fetch_call *call, size_t from, size_t to)
{
    size_t bytes = call->lengths ? (size_t)call->lengths[from] * call->unit_bytes : call->row_bytes;
    if (call->lengths)
        call->lengths[to] = call->lengths[from];
    if (bytes > 0)
        memcpy(fetch_call_slot(call, to), fetch_call_slot(call, from), bytes);
    call->status[to] = call->status[from];
    if (call->labels)
        call->labels[to] = call->labels[from];
}

enum error fetch_call_finish(const struct fetch_call *call)
{
    if (call->worst != SIZE_MAX)
        error_restore(&call->report);
    return OK;
}

static bool is_behind(const struct fetch_place *a, const struct fetch_place *b)
{
    return a->key > b->key || (a->key == b->key && a->index > b->index);
}

/* Shell sort: a batch has a few hundred rows, often already in order. */
void fetch_places_sort(struct fetch_place *places, size_t count)
{
    for (size_t gap = count / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
        for (size_t i = gap; i < count; i++) {
            struct fetch_place moving = places[i];
            size_t at = i;
            for (; at >= gap && is_behind(&places[at - gap], &moving); at -= gap)
                places[at] = places[at - gap];
            places[at] = moving;
        }
    }
}
