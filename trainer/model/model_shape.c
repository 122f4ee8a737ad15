/* SPDX-License-Identifier: MIT */
#include "trainer/model/model_shape.h"

#include <stdio.h>
#include <string.h>

#include "common/text.h"

static const char *const kinds[] = {
    [MODEL_LINEAR] = "linear",
    [MODEL_SOFTMAX] = "softmax",
    [MODEL_MLP] = "mlp",
};

enum error model_kind_by_name(const char *name, enum model_kind *ret_kind)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (!strcmp(name, kinds[i])) {
            *ret_kind = (enum model_kind)i;
            return OK;
        }
    }
    return error_set(ERROR_USAGE, "model \"%.60s\" is unknown; it must be linear, softmax or mlp",
                     name);
}

const char *model_kind_name(enum model_kind kind)
{
    return kinds[kind];
}

enum error model_parse_hidden(const char *text, struct model_shape *shape)
{
    size_t hidden[MODEL_HIDDEN_LIMIT], count = 0;
    for (const char *part = text;; part++) {
        size_t length = strcspn(part, ",");
        int64_t units;
        char quoted[128];
        if (!text_parse_integer(part, length, 1, MODEL_WIDTH_LIMIT, &units))
            return error_set(ERROR_USAGE,
                             "hidden units %s: must be a number from 1 to %d for each layer, "
                             "separated by commas (100 or 100,50)",
                             text_quote(quoted, sizeof(quoted), text, strlen(text)),
                             MODEL_WIDTH_LIMIT);
        if (count == MODEL_HIDDEN_LIMIT)
            return error_set(ERROR_USAGE, "hidden units: more than %d layers", MODEL_HIDDEN_LIMIT);
        hidden[count++] = (size_t)units;
        part += length;
        if (!*part)
            break;
    }
    memcpy(shape->hidden, hidden, count * sizeof(*hidden));
    shape->hidden_count = count;
    return OK;
}

enum error model_choose_loss(enum model_kind kind, const char *text, enum loss *ret_loss)
{
    if (!text)
        text = kind == MODEL_MLP ? "sum" : "mean";
    bool sum = !strcmp(text, "sum");
    if (!sum && strcmp(text, "mean") != 0)
        return error_set(ERROR_USAGE, "loss \"%.60s\" is unknown; it must be mean or sum", text);
    if (kind == MODEL_LINEAR)
        *ret_loss = sum ? LOSS_SQUARED_SUM : LOSS_SQUARED_MEAN;
    else
        *ret_loss = sum ? LOSS_CLIPPED_SUM : LOSS_MEAN;
    return OK;
}

static enum error check_width(const char *what, size_t width, size_t minimum)
{
    if (width >= minimum && width <= MODEL_WIDTH_LIMIT)
        return OK;
    return error_set(ERROR_USAGE, "a model with %zu %s; it must be %zu to %d", width, what, minimum,
                     MODEL_WIDTH_LIMIT);
}

enum error model_shape_check(const struct model_shape *shape)
{
    enum error error = check_width("features", shape->features, 1);
    if (!error && shape->kind == MODEL_LINEAR && shape->outputs != 1)
        return error_set(ERROR_USAGE, "a linear model has 1 output, not %zu", shape->outputs);
    if (!error && shape->kind != MODEL_LINEAR)
        error = check_width("classes", shape->outputs, 2);
    if (error)
        return error;
    if (shape->kind != MODEL_MLP)
        return shape->hidden_count == 0
                   ? OK
                   : error_set(ERROR_USAGE, "a %s model has no hidden layers; mlp has",
                               model_kind_name(shape->kind));
    if (shape->hidden_count < 1 || shape->hidden_count > MODEL_HIDDEN_LIMIT)
        return error_set(ERROR_USAGE, "an mlp with %zu hidden layers; it must be 1 to %d",
                         shape->hidden_count, MODEL_HIDDEN_LIMIT);
    for (size_t i = 0; i < shape->hidden_count && !error; i++)
        error = check_width("hidden units", shape->hidden[i], 1);
    return error;
}

enum error model_options_check(const struct model_options *options)
{
    enum error error = optimizer_check(&options->optimizer);
    if (!error)
        error = gradient_clip_check(&options->clip);
    if (error || options->dropout == 0)
        return error;
    if (!(options->dropout > 0 && options->dropout < 1))
        return error_set(ERROR_USAGE, "dropout is %g; it must be at least 0 and below 1",
                         (double)options->dropout);
    if (options->shape.kind != MODEL_MLP)
        return error_set(ERROR_USAGE, "dropout applies to hidden layers; a %s model has none",
                         model_kind_name(options->shape.kind));
    return OK;
}

/* Appends a tensor. */
static void add_tensor(struct model_layout *layout, const char *layer, const char *part,
                       size_t rows, size_t columns)
{
    struct model_tensor *tensor = &layout->tensors[layout->tensor_count++];
    snprintf(tensor->name, sizeof(tensor->name), "%s%s%s", layer, *layer ? "_" : "", part);
    tensor->dimensions = rows ? 2 : 1;
    tensor->shape[0] = rows ? rows : columns;
    tensor->shape[1] = rows ? columns : 1;
    tensor->count = tensor->shape[0] * tensor->shape[1];
    tensor->offset = layout->state;
    layout->state += tensor->count;
}

static void name_layer(const struct model_shape *shape, size_t layer, char *out, size_t bytes)
{
    if (shape->kind == MODEL_LINEAR)
        snprintf(out, bytes, "%s", "");
    else if (layer == shape->hidden_count)
        snprintf(out, bytes, "sm");
    else if (shape->hidden_count == 1)
        snprintf(out, bytes, "hid");
    else
        snprintf(out, bytes, "hid%zu", layer + 1);
}

static void add_layers(struct model_layout *layout, const struct model_shape *shape)
{
    layout->layer_count = shape->hidden_count + 1;
    for (size_t i = 0; i < layout->layer_count; i++) {
        struct model_layer *layer = &layout->layers[i];
        layer->inputs = i ? shape->hidden[i - 1] : shape->features;
        layer->outputs = i < shape->hidden_count ? shape->hidden[i] : shape->outputs;
        char name[32];
        name_layer(shape, i, name, sizeof(name));
        layer->weights_offset = layout->state;
        add_tensor(layout, name, "w", layer->inputs, layer->outputs);
        layer->bias_offset = layout->state;
        add_tensor(layout, name, "b", 0, layer->outputs);
    }
    layout->parameters = layout->state;
}

static void add_slots(struct model_layout *layout, const struct optimizer *optimizer)
{
    size_t parameters = layout->tensor_count;
    for (size_t slot = 0; slot < optimizer_slots(optimizer); slot++) {
        for (size_t i = 0; i < parameters; i++) {
            struct model_tensor *tensor = &layout->tensors[layout->tensor_count++];
            *tensor = layout->tensors[i];
            tensor->offset = layout->state;
            layout->state += tensor->count;
            size_t length = strlen(tensor->name);
            snprintf(tensor->name + length, sizeof(tensor->name) - length, "/%s",
                     optimizer_slot_name(optimizer, slot));
        }
    }
}

enum error model_layout_init(struct model_layout *layout, const struct model_shape *shape,
                             const struct optimizer *optimizer)
{
    enum error error = model_shape_check(shape);
    if (error)
        return error;
    memset(layout, 0, sizeof(*layout));
    add_layers(layout, shape);
    if (layout->parameters > MODEL_PARAMETERS_LIMIT)
        return error_set(ERROR_USAGE, "a model of %zu parameters; at most %d are possible",
                         layout->parameters, MODEL_PARAMETERS_LIMIT);
    add_slots(layout, optimizer);
    return OK;
}
