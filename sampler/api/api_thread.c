/* SPDX-License-Identifier: MIT */
#include "sampler/api/api_thread.h"

#include <stdlib.h>

#include "common/array.h"

void api_thread_release(struct api_thread *thread)
{
    free(thread->ids);
    free(thread->labels);
    free(thread->scratch_ids);
    free(thread->scratch_labels);
    free(thread->rows);
    free(thread->probabilities);
}

static void *grow(void *old, size_t count, size_t element_bytes)
{
    free(old); /* its content belongs to an answered request */
    return array_new(count, element_bytes, "the units of a batch");
}

static size_t doubled(size_t capacity, size_t size)
{
    capacity = capacity ? capacity : 1024;
    while (capacity < size)
        capacity *= 2;
    return capacity;
}

static enum error reserve_weights(struct api_thread *thread, size_t size)
{
    if (size <= thread->weights_capacity)
        return OK;
    size_t capacity = doubled(thread->weights_capacity, size);
    thread->weights_capacity = 0;
    thread->rows = grow(thread->rows, capacity, sizeof(*thread->rows));
    thread->probabilities = grow(thread->probabilities, capacity, sizeof(*thread->probabilities));
    if (!thread->rows || !thread->probabilities)
        return ERROR_MEMORY;
    thread->weights_capacity = capacity;
    return OK;
}

enum error api_thread_reserve(struct api_thread *thread, size_t size, bool weights)
{
    if (size <= thread->capacity)
        return weights ? reserve_weights(thread, size) : OK;
    size_t capacity = doubled(thread->capacity, size);
    thread->capacity = 0;
    thread->ids = grow(thread->ids, capacity, sizeof(*thread->ids));
    thread->labels = grow(thread->labels, capacity, sizeof(*thread->labels));
    thread->scratch_ids = grow(thread->scratch_ids, capacity, sizeof(*thread->scratch_ids));
    thread->scratch_labels =
        grow(thread->scratch_labels, capacity, sizeof(*thread->scratch_labels));
    if (!thread->ids || !thread->labels || !thread->scratch_ids || !thread->scratch_labels)
        return ERROR_MEMORY;
    thread->capacity = capacity;
    return weights ? reserve_weights(thread, size) : OK;
}
