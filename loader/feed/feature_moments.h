/* SPDX-License-Identifier: MIT */
/* Mean and deviation of each feature in device memory, for the copier to normalize with. */
#ifndef LOADER_FEED_FEATURE_MOMENTS_H
#define LOADER_FEED_FEATURE_MOMENTS_H

#include <stddef.h>

#include "common/error.h"
#include "loader/device/device.h"

/* As given: a row is `channels` runs of equally many features (1: all share them, F: each its own),
 * each with its mean and deviation. Borrowed. */
struct feature_moments {
    size_t channels;        /* 0: features are not normalized */
    const float *mean;      /* [channels]; NULL: 0 */
    const float *deviation; /* [channels]; NULL: 1 */
};

struct device_moments {
    float *mean, *deviation; /* owned; [F], in device memory; NULL: features are not normalized */
};

/* ERROR_USAGE: channels do not divide F, a mean is not finite, a deviation is not finite and above
 * 0; says which. */
enum error feature_moments_check(const struct feature_moments *moments, size_t features) MUST_CHECK;

/* `moments` has been checked. Waits for the queue. Call device_moments_release() even on error. */
enum error device_moments_init(struct device_moments *copy, const struct feature_moments *moments,
                               size_t features, struct device *device,
                               struct device_queue *queue) MUST_CHECK;
/* Legal on a zeroed struct. */
void device_moments_release(struct device_moments *copy, struct device *device);

#endif
