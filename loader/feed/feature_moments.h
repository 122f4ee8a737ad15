/* SPDX-License-Identifier: MIT */
/* Mean and deviation of each feature in a device's memory, by which the copier normalizes. */
#ifndef LOADER_FEED_FEATURE_MOMENTS_H
#define LOADER_FEED_FEATURE_MOMENTS_H

#include <stddef.h>

#include "common/error.h"
#include "loader/device/device.h"

/* As it is given: a row is `channels` runs of equally many features (1: all alike, F: each its
 * own), each with its mean and deviation. Borrowed. */
struct feature_moments {
    size_t channels;        /* 0: features stay as they are */
    const float *mean;      /* [channels]; NULL: 0 */
    const float *deviation; /* [channels]; NULL: 1 */
};

struct device_moments {
    float *mean, *deviation; /* owned; [F], in device memory; NULL: features stay as they are */
};

/* ERROR_USAGE: channels that do not divide F, a mean that is not finite, a deviation that is not
 * finite and above 0; says which. */
enum error feature_moments_check(const struct feature_moments *moments, size_t features) MUST_CHECK;

/* Waits for the queue. Checked before. device_moments_release() in any case. */
enum error device_moments_init(struct device_moments *copy, const struct feature_moments *moments,
                               size_t features, struct device *device,
                               struct device_queue *queue) MUST_CHECK;
/* Legal when it is zeroed. */
void device_moments_release(struct device_moments *copy, struct device *device);

#endif
