/* SPDX-License-Identifier: MIT */
/*
 * Normalization: the mean and the standard deviation of each feature, and of a regression's target,
 * over the units that a training will draw: the stream's first epoch, or its first million, which
 * is a random sample if the order is shuffled. Excludes units that the stream does not draw, such
 * as those of a test split.
 */
#ifndef TRAINER_RUN_NORMALIZATION_H
#define TRAINER_RUN_NORMALIZATION_H

#include "common/error.h"
#include "loader/feed/feed.h"
#include "trainer/model/feature_norm.h"

struct normalization {
    struct feature_norm norm;            /* of features times the feed's scale */
    float target_mean, target_deviation; /* more than 0 */
    int64_t rows;                        /* on which they are based */
};

/* Draws and reads those units as in `feed`, but on the CPU, from the first batch on; M is
 * `epoch_draws`. A deviation of 0 becomes 1. ERROR_INPUT if there are no rows. The caller frees
 * *ret_normalization's norm in any case. */
enum error normalization_measure(const struct feed_options *feed, int64_t epoch_draws,
                                 struct normalization *ret_normalization) MUST_CHECK;

#endif
