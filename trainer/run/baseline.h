/* SPDX-License-Identifier: MIT */
/*
 * A baseline: the loss of a constant answer, the labels' shares or the targets' mean. A model must
 * beat it to have learnt anything; R2 of a regression is 1 - its loss / the baseline's.
 */
#ifndef TRAINER_RUN_BASELINE_H
#define TRAINER_RUN_BASELINE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct baseline {
    int64_t rows;
    size_t classes;       /* L; 0: a regression */
    int64_t *counts;      /* [L], owned */
    double mean, squares; /* of targets: mean so far, and sum of squared differences to it */
};

/* `classes` 0: for a regression. */
enum error baseline_init(struct baseline *baseline, size_t classes) MUST_CHECK;
void baseline_release(struct baseline *baseline);

/* Reads one of the two: class numbers, or a regression's targets. */
void baseline_add(struct baseline *baseline, const int32_t *classes, const float *targets,
                  size_t rows);

/* Loss per row: the entropy of the classes in nats, or the variance of the targets. 0 if there are
 * no rows. */
double baseline_loss(const struct baseline *baseline);

#endif
