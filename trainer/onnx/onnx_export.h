/* SPDX-License-Identifier: MIT */
/*
 * Exports a trained model as an ONNX file, for other programs: from a row as in its store to
 * probabilities or a number.
 *
 *   input    features       float [rows, F], as the store has them, or what its recipe makes of a
 *                           row: scaling and --normalize are nodes of the graph
 *   outputs  probabilities  float [rows, L]   of a classifier, in the order of its classes
 *            class          int64 [rows]      the number of the most probable, the first of equals
 *            prediction     float [rows, 1]   of a regression, in the unit of its targets
 *
 * The metadata are the checkpoint's (`classes`, a JSON list, `feature_names`, `feature_recipe`,
 * ...); the model's version is its step. The same checkpoint gives the same bytes.
 */
#ifndef TRAINER_ONNX_ONNX_EXPORT_H
#define TRAINER_ONNX_ONNX_EXPORT_H

#include "common/error.h"
#include "trainer/checkpoint/checkpoint.h"

/* Written aside and renamed. ERROR_INPUT: larger than the format's limit of 2 GiB. */
enum error onnx_export(const struct checkpoint *checkpoint, const char *path) MUST_CHECK;

#endif
