/* SPDX-License-Identifier: MIT */
/*
 * Prints an evaluation as text, whose last line is the model's main figure ("accuracy: 0.9655",
 * "mean squared error: ..."), or as one JSON object for scripts.
 */
#ifndef TRAINER_RUN_EVALUATION_PRINT_H
#define TRAINER_RUN_EVALUATION_PRINT_H

#include "common/buffer.h"
#include "trainer/model/classes.h"
#include "trainer/run/evaluation.h"

#define EVALUATION_CLASSES_SHOWN 100 /* in text; the JSON object has all */
#define EVALUATION_MATRIX_SHOWN 20   /* likewise */
#define EVALUATION_TEXT_LIMIT ((size_t)1 << 30)

/* `classes` NULL: a regression. Appends lines to `out`, whose error says whether they fit. */
void evaluation_print_text(const struct evaluation *evaluation, const struct classes *classes,
                           struct buffer *out);
void evaluation_print_json(const struct evaluation *evaluation, const struct classes *classes,
                           struct buffer *out);

#endif
