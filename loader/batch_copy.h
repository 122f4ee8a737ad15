/* SPDX-License-Identifier: MIT */
/* A copy of a batch in its own memory, independent of the batch's slot. */
#ifndef LOADER_BATCH_COPY_H
#define LOADER_BATCH_COPY_H

#include <stddef.h>

#include "common/error.h"
#include "loader/device/device.h"
#include "loader/tombola.h"

/* Bytes per row of each part of a batch; 0: absent. */
struct batch_form {
    size_t features, device_labels, weights;
};

/* Copies after the work now in `queue`, and waits for it. One block: free() it. */
enum error batch_copy(const struct batch_form *form, struct device *device,
                      struct device_queue *queue, const struct tombola_batch *batch,
                      struct tombola_batch **ret_copy) MUST_CHECK;

#endif
