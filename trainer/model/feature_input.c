/* SPDX-License-Identifier: MIT */
#include "trainer/model/feature_input.h"

#include <assert.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/log.h"
#include "common/text.h"

struct feature_input {
    const struct engine *engine;
    enum feature_source source;
    enum element element;
    size_t columns, features, rows; /* C, F, most rows per call */
    float scale;
    void *raw;            /* device, [rows, C] of element; NULL: not from the host */
    float *scaled;        /* device, [rows, C]; NULL: scaled already */
    float *standardized;  /* device, [rows, F]; NULL: all columns unchanged */
    int32_t *picked;      /* device, [F]; NULL: all columns in order */
    float *mean, *factor; /* device, [F]; NULL: not normalized */
};

/* `count` numbers of four bytes, copied to the device. */
static enum error send(const struct feature_input *input, const void *numbers, size_t count,
                       void **ret_memory)
{
    const struct engine *engine = input->engine;
    enum error error = device_memory_new(engine->device, count * sizeof(float), ret_memory);
    if (!error)
        error = device_copy_in(engine->device, engine->queue, *ret_memory, numbers,
                               count * sizeof(float));
    return error ? error : device_queue_wait(engine->device, engine->queue);
}

static enum error send_norm(struct feature_input *input, const struct feature_norm *norm)
{
    float *factors = array_new(norm->features, sizeof(*factors), "factors of features");
    void *mean = NULL, *factor = NULL;
    if (!factors)
        return ERROR_MEMORY;
    for (size_t i = 0; i < norm->features; i++)
        factors[i] = 1 / norm->deviation[i];
    enum error error = send(input, norm->mean, norm->features, &mean);
    input->mean = mean;
    if (!error)
        error = send(input, factors, norm->features, &factor);
    input->factor = factor;
    free(factors);
    return error;
}

/* A surplus column is usually the label, read as a feature. */
static enum error refuse_count(const struct feature_input_options *options,
                               const struct store_info *info)
{
    bool label = info->features == options->features + 1 && info->label_kind == LABEL_NONE;
    return error_set(ERROR_INPUT, "%s has %zu %s, the model of %s takes %zu%s", info->uri,
                     info->features, text_plural((int64_t)info->features, "feature", "features"),
                     options->called, options->features,
                     label ? "; if one of its columns is the label, the URI lacks label=COLUMN"
                           : "");
}

enum error feature_input_check_rows(const struct store_info *info)
{
    if (info->element == ELEMENT_I32)
        return error_set(ERROR_INPUT,
                         "%s has features that are 32-bit integers, and the models here take bytes "
                         "or floats: a store without element=i32 in its URI, and not imported from "
                         "one",
                         info->uri);
    if (info->lengths == LENGTHS_ALIKE)
        return OK;
    return error_set(ERROR_INPUT,
                     "%s has rows that differ in length, and the models here take rows of one "
                     "length: a store without longest= in its URI, and not imported from one",
                     info->uri);
}

/* The columns of the store that are the features; NULL: all of them in order. */
static enum error find_columns(const struct feature_input_options *options,
                               const struct store_info *info, bool warns, int32_t **ret_columns)
{
    enum error error = feature_input_check_rows(info);
    if (!error)
        error = feature_names_match(options->names, options->called, info, warns, ret_columns);
    if (error || *ret_columns || info->features == options->features)
        return error;
    return refuse_count(options, info);
}

enum error feature_input_check(const struct feature_input_options *options,
                               const struct store_info *info)
{
    int32_t *columns = NULL;
    enum error error = find_columns(options, info, false, &columns);
    free(columns);
    return error;
}

static enum error choose_columns(struct feature_input *input,
                                 const struct feature_input_options *options,
                                 const struct store_info *info)
{
    int32_t *columns = NULL;
    enum error error = find_columns(options, info, true, &columns);
    if (error || !columns)
        return error;
    log_info("%s: the %zu features of %s are found by name among its %zu columns", info->uri,
             options->features, options->called, info->features);
    void *memory = NULL;
    error = send(input, columns, options->features, &memory);
    input->picked = memory;
    free(columns);
    return error;
}

static enum error prepare(struct feature_input *input, const struct feature_input_options *options,
                          const struct store_info *info)
{
    struct device *device = input->engine->device;
    bool scaled =
        input->source == FEATURES_FROM_FEED && (input->element == ELEMENT_U8 || input->scale == 1);
    enum error error = choose_columns(input, options, info);
    if (!error && options->norm->features > 0)
        error = send_norm(input, options->norm);
    if (!error && (input->picked || input->mean))
        error = device_floats_new(device, input->rows, input->features, &input->standardized);
    if (!error && !scaled)
        error = device_floats_new(device, input->rows, input->columns, &input->scaled);
    if (!error && input->source == FEATURES_ON_HOST)
        error = device_memory_new(
            device, input->rows * input->columns * element_bytes(input->element), &input->raw);
    return error;
}

enum error feature_input_new(const struct engine *engine,
                             const struct feature_input_options *options,
                             const struct store_info *info, enum feature_source source, size_t rows,
                             struct feature_input **ret_input)
{
    struct feature_input *input = array_new(1, sizeof(*input), "a feature input");
    if (!input)
        return ERROR_MEMORY;
    *input = (struct feature_input){.engine = engine,
                                    .source = source,
                                    .element = info->element,
                                    .columns = info->features,
                                    .features = options->features,
                                    .rows = rows,
                                    .scale = options->scale};
    enum error error = prepare(input, options, info);
    if (error) {
        feature_input_free(input);
        return error;
    }
    *ret_input = input;
    return OK;
}

void feature_input_free(struct feature_input *input)
{
    if (!input)
        return;
    struct device *device = input->engine->device;
    device_memory_free(device, input->raw);
    device_memory_free(device, input->scaled);
    device_memory_free(device, input->standardized);
    device_memory_free(device, input->picked);
    device_memory_free(device, input->mean);
    device_memory_free(device, input->factor);
    free(input);
}

static enum error scale(struct feature_input *input, const void *features, size_t count,
                        const float **ret_values)
{
    const struct engine *engine = input->engine;
    bool bytes = input->element == ELEMENT_U8 && input->source != FEATURES_FROM_FEED;
    *ret_values = input->scaled;
    return bytes ? device_u8_to_f32(engine->device, engine->queue, input->scaled, features, count,
                                    input->scale)
                 : device_scale_f32(engine->device, engine->queue, input->scaled, features, count,
                                    input->scale);
}

bool feature_input_is_bytes(const struct feature_input *input)
{
    return input->source == FEATURES_FROM_FEED && input->element == ELEMENT_U8 &&
           !input->standardized && kernel_takes_bytes(input->engine->kernel, input->scale);
}

enum error feature_input_take(struct feature_input *input, const void *features, size_t rows,
                              const float **ret_values)
{
    const struct engine *engine = input->engine;
    size_t count = rows * input->columns;
    enum error error = OK;
    assert(rows <= input->rows);
    if (input->raw) {
        error = device_copy_in(engine->device, engine->queue, input->raw, features,
                               count * element_bytes(input->element));
        features = input->raw;
    }
    *ret_values = features;
    if (!error && input->scaled)
        error = scale(input, features, count, ret_values);
    if (error || !input->standardized)
        return error;
    struct kernel_features wanted = {.count = input->features,
                                     .columns = input->picked,
                                     .mean = input->mean,
                                     .factor = input->factor};
    error = kernel_standardize(engine->kernel, &wanted, *ret_values, rows, input->columns,
                               input->standardized);
    *ret_values = input->standardized;
    return error;
}
