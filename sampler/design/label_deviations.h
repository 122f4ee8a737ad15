/* SPDX-License-Identifier: MIT */
/*
 * The standard deviation of a numeric column within each label, for neyman's shares.
 *
 * Dimensions: L labels of the frame.
 */
#ifndef SAMPLER_DESIGN_LABEL_DEVIATIONS_H
#define SAMPLER_DESIGN_LABEL_DEVIATIONS_H

#include "common/error.h"
#include "sampler/frame/frame.h"

/* One pass over the store at `store_uri`, restricted to the units of `frame` (found by id), by
 * Welford's recurrence: sqrt(sum of squared differences / (n - 1)); 0 for a label of one unit.
 * `column` is the name of a feature or of the weight, and the only one read; ERROR_USAGE naming the
 * existing features, or a value that is not a finite number. ERROR_CONFLICT if the store lacks a
 * unit of the frame. Memory: 56 bytes per label. The caller frees *ret_deviations [L]. */
enum error label_deviations(const struct frame *frame, const char *store_uri, const char *column,
                            double **ret_deviations) MUST_CHECK;

#endif
