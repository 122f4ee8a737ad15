/* SPDX-License-Identifier: MIT */
#include "trainer/model/feature_norm.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

enum error feature_norm_init(struct feature_norm *norm, size_t features)
{
    *norm = (struct feature_norm){.features = 0};
    if (features == 0)
        return OK;
    *norm = (struct feature_norm){
        .features = features,
        .mean = array_new(features, sizeof(*norm->mean), "the features' means"),
        .deviation = array_new(features, sizeof(*norm->deviation), "the features' deviations")};
    if (!norm->mean || !norm->deviation)
        return ERROR_MEMORY;
    for (size_t i = 0; i < features; i++)
        norm->deviation[i] = 1;
    return OK;
}

enum error feature_norm_copy(struct feature_norm *norm, const struct feature_norm *from)
{
    enum error error = feature_norm_init(norm, from->features);
    if (error || from->features == 0)
        return error;
    memcpy(norm->mean, from->mean, from->features * sizeof(*from->mean));
    memcpy(norm->deviation, from->deviation, from->features * sizeof(*from->deviation));
    return OK;
}

void feature_norm_release(struct feature_norm *norm)
{
    free(norm->mean);
    free(norm->deviation);
    *norm = (struct feature_norm){.features = 0};
}
