/*
 * An expander: rows as a store keeps them (u8 or f32) become floats in device memory, multiplied
 * with the model's feature scale. For rows that come from a scan or lie on the device; training
 * batches are expanded by the feed.
 */
#ifndef TRAINER_MODEL_FEATURE_SCALER_H
#define TRAINER_MODEL_FEATURE_SCALER_H

#include <stddef.h>

#include "common/error.h"
#include "loader/store/store.h"
#include "trainer/compute/engine.h"

struct expander;

/* Room for `rows` rows of `features` values of `element`. The engine is borrowed. */
enum error expander_new(const struct engine *engine, enum element element, size_t features,
                        size_t rows, float scale, struct expander **ret_expander) MUST_CHECK;
void expander_free(struct expander *expander);

/* `rows` rows from host or device memory -> *ret_values[rows, F] in device memory, valid until the
 * next call. Host memory must stay as it is until the queue was waited for. */
enum error expander_from_host(struct expander *expander, const void *features, size_t rows,
                              const float **ret_values) MUST_CHECK;
enum error expander_from_device(struct expander *expander, const void *features, size_t rows,
                                const float **ret_values) MUST_CHECK;

#endif
