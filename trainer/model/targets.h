/* SPDX-License-Identifier: MIT */
/*
 * Targets: a store's labels in the form that a model needs. For a classifier class numbers, looked
 * up in the model's list of classes: numbers by value, however they are written ("1.0" and 1 are
 * equal), texts by their bytes. For a regression the labels as numbers. Immutable; any thread.
 */
#ifndef TRAINER_MODEL_TARGETS_H
#define TRAINER_MODEL_TARGETS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"
#include "trainer/model/classes.h"

struct targets;

/* `classes` NULL: a regression. Both are borrowed until targets_free(). ERROR_INPUT if the store
 * has no labels, or not of the kind that the model needs, or has numbers while two classes are the
 * same number ("7" and "007"). */
enum error targets_new(const struct classes *classes, const struct store *store,
                       struct targets **ret_targets) MUST_CHECK;
void targets_free(struct targets *targets);

/* The class of a label in the store's form; -1: none. Not for a regression. O(log L). */
int32_t targets_find(const struct targets *targets, double label);

/* Converts the labels of `rows` rows, in the form of reader_fetch(), to ret_classes[rows] or, for a
 * regression, ret_numbers[rows]; the other may be NULL. status[rows]: a row that is not ROW_OK was
 * replaced by zeros, and is of the first class unless 0 is a label itself; NULL: all are. If one is
 * not a class, or not a finite float, ERROR_INPUT naming store, id and label of the first. */
enum error targets_convert(const struct targets *targets, const int64_t *ids, const double *labels,
                           const enum row_status *status, size_t rows, int32_t *ret_classes,
                           float *ret_numbers) MUST_CHECK;

#endif
