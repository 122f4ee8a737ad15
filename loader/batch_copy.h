/* SPDX-License-Identifier: MIT */
/* A batch in memory of its own, whatever becomes of the slot that it was in. */
#ifndef LOADER_BATCH_COPY_H
#define LOADER_BATCH_COPY_H

#include <stddef.h>

#include "common/error.h"
#include "loader/device/device.h"
#include "loader/tombola.h"

/* Bytes a row of what batches have; 0: they have none of it. */
struct batch_form {
    size_t features, device_labels, weights;
};

/* Behind what is in `queue`, for which it waits. One block: free() it. */
enum error batch_copy(const struct batch_form *form, struct device *device,
                      struct device_queue *queue, const struct tombola_batch *batch,
                      struct tombola_batch **ret_copy) MUST_CHECK;

#endif
