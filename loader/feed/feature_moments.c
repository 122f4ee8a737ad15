/* SPDX-License-Identifier: MIT */
#include "loader/feed/feature_moments.h"

#include <math.h>

static float mean_of(const struct feature_moments *moments, size_t channel)
{
    return moments->mean ? moments->mean[channel] : 0;
}

static float deviation_of(const struct feature_moments *moments, size_t channel)
{
    return moments->deviation ? moments->deviation[channel] : 1;
}

enum error feature_moments_check(const struct feature_moments *moments, size_t features)
{
    size_t channels = moments->channels;
    if (channels == 0 && !moments->mean && !moments->deviation)
        return OK;
    if (channels == 0 || features % channels != 0)
        return error_set(ERROR_USAGE,
                         "mean and deviation of %zu channels; a row has %zu features, which as "
                         "many runs of equal length make, as 1 and %zu would",
                         channels, features, features);
    for (size_t i = 0; i < channels; i++) {
        float mean = mean_of(moments, i), deviation = deviation_of(moments, i);
        if (!isfinite(mean))
            return error_set(ERROR_USAGE, "mean %zu is %g, which is not finite", i, mean);
        if (!isfinite(deviation) || deviation <= 0)
            return error_set(ERROR_USAGE,
                             "deviation %zu is %g; a finite number above 0 is right (1 for a "
                             "feature that never changes)",
                             i, deviation);
    }
    return OK;
}

static enum error fill(struct device_moments *copy, const struct feature_moments *moments,
                       size_t features, struct device *device, struct device_queue *queue,
                       float *host)
{
    size_t run = features / moments->channels, bytes = features * sizeof(float);
    for (size_t i = 0; i < features; i++) {
        host[i] = mean_of(moments, i / run);
        host[features + i] = deviation_of(moments, i / run);
    }
    enum error error = device_copy_in(device, queue, copy->mean, host, bytes);
    if (!error)
        error = device_copy_in(device, queue, copy->deviation, host + features, bytes);
    enum error waited = device_queue_wait(device, queue); /* the first copy may be in progress */
    return error ? error : waited;
}

enum error device_moments_init(struct device_moments *copy, const struct feature_moments *moments,
                               size_t features, struct device *device, struct device_queue *queue)
{
    void *host = NULL;
    *copy = (struct device_moments){.mean = NULL};
    if (moments->channels == 0 || features == 0)
        return OK;
    enum error error = device_floats_new(device, 1, features, &copy->mean);
    if (!error)
        error = device_floats_new(device, 1, features, &copy->deviation);
    if (!error)
        error = device_host_new(device, 2 * features * sizeof(float), &host);
    if (!error)
        error = fill(copy, moments, features, device, queue, host);
    device_host_free(device, host);
    return error;
}

void device_moments_release(struct device_moments *copy, struct device *device)
{
    device_memory_free(device, copy->mean);
    device_memory_free(device, copy->deviation);
}
