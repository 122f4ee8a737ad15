/* SPDX-License-Identifier: MIT */
/*
 * A feature norm: the mean and the standard deviation of each feature, with which a model trained
 * with --normalize standardizes its features. F features.
 */
#ifndef TRAINER_MODEL_FEATURE_NORM_H
#define TRAINER_MODEL_FEATURE_NORM_H

#include <stddef.h>

#include "common/error.h"

struct feature_norm {
    size_t features;  /* F; 0: the model uses features unchanged */
    float *mean;      /* [F], owned */
    float *deviation; /* [F], owned; above 0; 1 if a feature is constant */
};

/* Means 0 and deviations 1. The caller calls feature_norm_release() in any case. */
enum error feature_norm_init(struct feature_norm *norm, size_t features) MUST_CHECK;
enum error feature_norm_copy(struct feature_norm *norm, const struct feature_norm *from) MUST_CHECK;
/* Legal for all zeros. */
void feature_norm_release(struct feature_norm *norm);

#endif
