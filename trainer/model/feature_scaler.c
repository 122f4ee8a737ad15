/* SPDX-License-Identifier: MIT */
#include "trainer/model/feature_scaler.h"

#include <assert.h>
#include <stdlib.h>

#include "common/array.h"

struct feature_scaler {
    const struct engine *engine;
    enum element element;
    size_t features, rows;
    float scale;
    void *raw;     /* device, [rows, F] of element */
    float *values; /* device, [rows, F] */
};

enum error feature_scaler_new(const struct engine *engine, enum element element, size_t features,
                              size_t rows, float scale, struct feature_scaler **ret_scaler)
{
    struct feature_scaler *scaler = array_new(1, sizeof(*scaler), "a feature scaler");
    void *values;
    if (!scaler)
        return ERROR_MEMORY;
    *scaler = (struct feature_scaler){
        .engine = engine, .element = element, .features = features, .rows = rows, .scale = scale};
    enum error error =
        device_memory_new(engine->device, rows * features * element_bytes(element), &scaler->raw);
    if (!error)
        error = device_memory_new(engine->device, rows * features * sizeof(float), &values);
    if (error) {
        feature_scaler_free(scaler);
        return error;
    }
    scaler->values = values;
    *ret_scaler = scaler;
    return OK;
}

void feature_scaler_free(struct feature_scaler *scaler)
{
    if (!scaler)
        return;
    if (scaler->raw)
        device_memory_free(scaler->engine->device, scaler->raw);
    if (scaler->values)
        device_memory_free(scaler->engine->device, scaler->values);
    free(scaler);
}

enum error feature_scaler_from_device(struct feature_scaler *scaler, const void *features,
                                      size_t rows, const float **ret_values)
{
    const struct engine *engine = scaler->engine;
    size_t count = rows * scaler->features;
    assert(rows <= scaler->rows);
    enum error error;
    if (scaler->element == ELEMENT_U8)
        error = device_u8_to_f32(engine->device, engine->queue, scaler->values, features, count,
                                 scaler->scale);
    else
        error = device_scale_f32(engine->device, engine->queue, scaler->values, features, count,
                                 scaler->scale);
    if (!error)
        *ret_values = scaler->values;
    return error;
}

enum error feature_scaler_from_host(struct feature_scaler *scaler, const void *features,
                                    size_t rows, const float **ret_values)
{
    const struct engine *engine = scaler->engine;
    size_t bytes = rows * scaler->features * element_bytes(scaler->element);
    assert(rows <= scaler->rows);
    enum error error = device_copy_in(engine->device, engine->queue, scaler->raw, features, bytes);
    return error ? error : feature_scaler_from_device(scaler, scaler->raw, rows, ret_values);
}
