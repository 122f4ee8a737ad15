/* SPDX-License-Identifier: MIT */
/*
 * A feature input: converts rows as a store keeps them (C columns of u8 or f32) to the floats in
 * device memory that a model reads (F features): selects the model's columns, by name if both sides
 * have names, multiplies by its feature scale and normalizes if the model was trained so.
 */
#ifndef TRAINER_MODEL_FEATURE_INPUT_H
#define TRAINER_MODEL_FEATURE_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "loader/store/store.h"
#include "trainer/compute/engine.h"
#include "trainer/model/feature_names.h"
#include "trainer/model/feature_norm.h"

/* What the model needs. All borrowed for the duration of the call. */
struct feature_input_options {
    const char *called; /* the model, for messages: a checkpoint's path */
    size_t features;    /* F */
    const struct feature_names *names;
    const struct feature_norm *norm;
    float scale;
};

/* Where rows come from. */
enum feature_source {
    FEATURES_ON_HOST,   /* a scan */
    FEATURES_ON_DEVICE, /* as the store keeps them */
    FEATURES_FROM_FEED  /* f32 on the device, scaled if the store holds u8; or bytes, see below */
};

struct feature_input;

/* ERROR_INPUT: rows of the store differ in length, or are 32-bit integers, which no model here
 * supports. */
enum error feature_input_check_rows(const struct store_info *info) MUST_CHECK;
/* ERROR_INPUT or ERROR_CONFLICT if the store lacks a column that the model needs, naming one. Other
 * names are no error, of which feature_input_new() warns. */
enum error feature_input_check(const struct feature_input_options *options,
                               const struct store_info *info) MUST_CHECK;

/* For up to `rows` rows per call. The engine is borrowed. Errors as feature_input_check(). */
enum error feature_input_new(const struct engine *engine,
                             const struct feature_input_options *options,
                             const struct store_info *info, enum feature_source source, size_t rows,
                             struct feature_input **ret_input) MUST_CHECK;
void feature_input_free(struct feature_input *input);

/* FEATURES_FROM_FEED: can the model use the store's bytes directly (struct model_batch), so that
 * the feed leaves them unchanged and feature_input_take() is not called? */
bool feature_input_is_bytes(const struct feature_input *input);

/* Converts `rows` rows [rows, C] from the given source to *ret_values[rows, F] in device memory,
 * valid until the next call; it may be `features` itself. Host memory must stay unchanged until
 * device_queue_wait(). */
enum error feature_input_take(struct feature_input *input, const void *features, size_t rows,
                              const float **ret_values) MUST_CHECK;

#endif
