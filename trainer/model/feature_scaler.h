/* SPDX-License-Identifier: MIT */
/*
 * A feature scaler: rows as a store keeps them (u8 or f32) become floats in device memory,
 * multiplied with the model's feature scale. For rows that come from a scan or lie on the device;
 * training batches are scaled by the feed.
 */
#ifndef TRAINER_MODEL_FEATURE_SCALER_H
#define TRAINER_MODEL_FEATURE_SCALER_H

#include <stddef.h>

#include "common/error.h"
#include "loader/store/store.h"
#include "trainer/compute/engine.h"

struct feature_scaler;

/* Room for `rows` rows of `features` values of `element`. The engine is borrowed. */
enum error feature_scaler_new(const struct engine *engine, enum element element, size_t features,
                              size_t rows, float scale,
                              struct feature_scaler **ret_scaler) MUST_CHECK;
void feature_scaler_free(struct feature_scaler *scaler);

/* `rows` rows from host or device memory -> *ret_values[rows, F] in device memory, valid until the
 * next call. Host memory must stay as it is until device_queue_wait(). */
enum error feature_scaler_from_host(struct feature_scaler *scaler, const void *features,
                                    size_t rows, const float **ret_values) MUST_CHECK;
enum error feature_scaler_from_device(struct feature_scaler *scaler, const void *features,
                                      size_t rows, const float **ret_values) MUST_CHECK;

#endif
