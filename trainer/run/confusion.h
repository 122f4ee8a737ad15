/* SPDX-License-Identifier: MIT */
/*
 * A confusion matrix: how often rows of one class were predicted as another, and each class's
 * figures.
 *
 *   precision   of the rows that the model gave this class, the share that has it
 *   recall      of the rows that have it, the share that the model gave it
 *   F1          their harmonic mean, 2 hits / (given + had)
 *
 * A share of no rows is 0, and a class that no row has and none was given is not part of the mean,
 * as in scikit-learn.
 */
#ifndef TRAINER_RUN_CONFUSION_H
#define TRAINER_RUN_CONFUSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define CONFUSION_MATRIX_LIMIT 1000 /* classes; beyond, there are only figures */

struct confusion {
    size_t classes; /* L; 0: of nothing */
    int64_t rows;
    int64_t *had, *given, *hits; /* [L] each, owned by `had` */
    int64_t *matrix;             /* [L, L], class of the row and predicted class; NULL: too many */
};

/* `support`: number of rows that have the class. */
struct confusion_figures {
    double precision, recall, f1;
    int64_t support;
};

/* The caller calls confusion_release() in any case. */
enum error confusion_init(struct confusion *confusion, size_t classes) MUST_CHECK;
void confusion_release(struct confusion *confusion);

/* `scores` [rows, L]: the largest (first of equals) is the predicted class. */
void confusion_add(struct confusion *confusion, const int32_t *classes, const float *scores,
                   size_t rows);

struct confusion_figures confusion_class(const struct confusion *confusion, size_t class_number);
/* The mean over classes, weighted by their rows or unweighted; `support` is all rows. */
struct confusion_figures confusion_mean(const struct confusion *confusion, bool weighted);

#endif
