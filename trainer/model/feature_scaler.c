#include "trainer/model/feature_scaler.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/array.h"

struct expander {
    const struct engine *engine;
    enum element element;
    size_t features, rows;
    float scale;
    void *raw;     /* device, [rows, F] of element */
    float *values; /* device, [rows, F] */
};

enum error expander_new(const struct engine *engine, enum element element, size_t features,
                        size_t rows, float scale, struct expander **ret_expander)
{
    struct expander *expander = array_new(1, sizeof(*expander), "an expander");
    void *values;
    enum error error;

    if (!expander)
        return ERROR_MEMORY;
    *expander = (struct expander){
        .engine = engine, .element = element, .features = features, .rows = rows, .scale = scale};
    error =
        device_memory_new(engine->device, rows * features * element_bytes(element), &expander->raw);
    if (error)
        goto fail;
    error = device_memory_new(engine->device, rows * features * sizeof(float), &values);
    if (error)
        goto fail;
    expander->values = values;
    *ret_expander = expander;
    return OK;
fail:
    expander_free(expander);
    return error;
}

void expander_free(struct expander *expander)
{
    if (!expander)
        return;
    if (expander->raw)
        device_memory_free(expander->engine->device, expander->raw);
    if (expander->values)
        device_memory_free(expander->engine->device, expander->values);
    free(expander);
}

enum error expander_from_device(struct expander *expander, const void *features, size_t rows,
                                const float **ret_values)
{
    const struct engine *engine = expander->engine;
    size_t count = rows * expander->features;
    enum error error;

    assert(rows <= expander->rows);
    if (expander->element == ELEMENT_U8)
        error = device_expand_u8(engine->device, engine->queue, expander->values, features, count,
                                 expander->scale);
    else
        error = device_scale_f32(engine->device, engine->queue, expander->values, features, count,
                                 expander->scale);
    if (!error)
        *ret_values = expander->values;
    return error;
}

enum error expander_from_host(struct expander *expander, const void *features, size_t rows,
                              const float **ret_values)
{
    const struct engine *engine = expander->engine;
    size_t bytes = rows * expander->features * element_bytes(expander->element);
    enum error error;

    assert(rows <= expander->rows);
    error = device_copy_in(engine->device, engine->queue, expander->raw, features, bytes);
    return error ? error : expander_from_device(expander, expander->raw, rows, ret_values);
}
