/* SPDX-License-Identifier: MIT */
#include "loader/batch_copy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* A copy, followed by its arrays. */
struct owned_batch {
    struct tombola_batch batch; /* first */
    _Alignas(16) char memory[];
};

/* One array of a batch. */
struct array {
    size_t member; /* where struct tombola_batch has the pointer */
    size_t row_bytes;
    bool on_device;
};

static size_t aligned(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static const void *data_of(const struct tombola_batch *batch, const struct array *array)
{
    const void *data;
    memcpy(&data, (const char *)batch + array->member, sizeof(data));
    return data;
}

/* Advances in `memory` and in the struct. */
static enum error copy_array(const struct array *array, struct device *device,
                             struct device_queue *queue, struct tombola_batch *copy, char **memory)
{
    const void *from = data_of(copy, array);
    char *to = *memory;
    size_t bytes = copy->rows * array->row_bytes;
    enum error error = OK;
    if (!from)
        return OK;
    if (array->on_device)
        error = device_copy_out(device, queue, to, from, bytes);
    else
        memcpy(to, from, bytes);
    memcpy((char *)copy + array->member, &to, sizeof(to));
    *memory += aligned(bytes);
    return error;
}

#define MEMBER(name) offsetof(struct tombola_batch, name)

enum error batch_copy(const struct batch_form *form, struct device *device,
                      struct device_queue *queue, const struct tombola_batch *batch,
                      struct tombola_batch **ret_copy)
{
    const struct array arrays[] = {
        {MEMBER(ids), sizeof(*batch->ids), false},
        {MEMBER(labels), sizeof(*batch->labels), false},
        {MEMBER(features), form->features, true},
        {MEMBER(device_labels), form->device_labels, true},
        {MEMBER(weights), form->weights, false},
        {MEMBER(groups), sizeof(*batch->groups), false},
        {MEMBER(lengths), sizeof(*batch->lengths), false},
    };
    const size_t count = sizeof(arrays) / sizeof(arrays[0]);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += aligned(batch->rows * arrays[i].row_bytes);
    struct owned_batch *copy = array_new(1, sizeof(*copy) + bytes + 1, "a copy of a batch");
    if (!copy)
        return ERROR_MEMORY;
    char *memory = copy->memory;
    enum error error = OK;
    copy->batch = *batch;
    for (size_t i = 0; i < count && !error; i++)
        error = copy_array(&arrays[i], device, queue, &copy->batch, &memory);
    copy->batch.device_weights = copy->batch.weights;
    copy->batch.device_groups = copy->batch.groups;
    copy->batch.device_lengths = copy->batch.lengths;
    enum error waited = device_queue_wait(device, queue);
    if (!error)
        error = waited;
    if (error)
        free(copy);
    else
        *ret_copy = &copy->batch;
    return error;
}
