/* SPDX-License-Identifier: MIT */
/*
 * Normalization: the mean and the standard deviation of each feature, and of a regression's
 * target, over the units that a training will draw: the stream's first epoch, or the first million
 * of it, which a shuffled order makes a sample of the whole. Units that the stream does not draw,
 * such as those of a test split, have no part in it.
 */
#ifndef TRAINER_RUN_NORMALIZATION_H
#define TRAINER_RUN_NORMALIZATION_H

#include "common/error.h"
#include "loader/feed/feed.h"
#include "trainer/model/feature_norm.h"

struct normalization {
    struct feature_norm norm;            /* of features times the feed's scale */
    float target_mean, target_deviation; /* more than 0 */
    int64_t rows;                        /* that they are of */
};

/* Draws and reads those units as `feed` says, but on the CPU, from the first batch on; M is
 * `epoch_draws`. A deviation of 0 becomes 1. ERROR_INPUT when there is no row. The caller frees
 * *ret_normalization's norm in any case. */
enum error normalization_measure(const struct feed_options *feed, int64_t epoch_draws,
                                 struct normalization *ret_normalization) MUST_CHECK;

#endif
