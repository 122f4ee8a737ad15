/* SPDX-License-Identifier: MIT */
#include "trainer/model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trainer/compute/initializer.h"
#include "trainer/model/parameters.h"

struct model {
    struct model_options options;
    struct model_layout layout;
    struct kernel *kernel; /* borrowed */
    struct parameters parameters;
    struct network *network;
    float *own_gradient;      /* [P], device memory */
    float *values, *gradient; /* [P]: its own, or what it was moved to */
};

/* ---- life cycle --------------------------------------------------------- */

/* The classic initialization: a multilayer perceptron's weights are random, all else is
 * constant. */
void model_initial_state(const struct model_options *options, const struct model_layout *layout,
                         float *ret_state)
{
    size_t parameters = layout->parameters;
    initializer_constant(ret_state, parameters, 0);
    for (size_t i = 0; options->shape.kind == MODEL_MLP && i < layout->layer_count; i++) {
        const struct model_layer *layer = &layout->layers[i];
        initializer_truncated_normal(ret_state + layer->weights_offset,
                                     layer->inputs * layer->outputs,
                                     1 / sqrtf((float)layer->inputs), options->seed, (uint32_t)i);
    }
    for (size_t slot = 0; slot < optimizer_slots(&options->optimizer); slot++)
        initializer_constant(ret_state + (1 + slot) * parameters, parameters,
                             optimizer_slot_initial(&options->optimizer, slot));
}

static enum error initialise(struct model *model)
{
    float *state = array_new(model->layout.state, sizeof(*state), "the model's initial state");
    if (!state)
        return ERROR_MEMORY;
    model_initial_state(&model->options, &model->layout, state);
    enum error error = model_write(model, state, 0);
    free(state);
    return error;
}

static enum error make_parts(struct model *model)
{
    const struct model_options *options = &model->options;
    enum error error = model_layout_init(&model->layout, &options->shape, &options->optimizer);
    if (!error)
        error = network_new(options, &model->layout, model->kernel, &model->network);
    if (!error)
        error = parameters_init(&model->parameters, model->layout.parameters, &options->optimizer,
                                model->kernel);
    if (!error)
        error = device_floats_new(model->kernel->device, 1, model->layout.parameters,
                                  &model->own_gradient);
    model->values = model->parameters.state;
    model->gradient = model->own_gradient;
    return error ? error : initialise(model);
}

enum error model_new(const struct model_options *options, struct kernel *kernel,
                     struct model **ret_model)
{
    enum error error = model_options_check(options);
    if (error)
        return error;
    struct model *model = array_new(1, sizeof(*model), "a model");
    if (!model)
        return ERROR_MEMORY;
    model->options = *options;
    model->kernel = kernel;
    error = make_parts(model);
    if (error) {
        model_free(model);
        return error;
    }
    *ret_model = model;
    return OK;
}

void model_free(struct model *model)
{
    if (!model)
        return;
    network_free(model->network);
    parameters_release(&model->parameters);
    device_memory_free(model->kernel->device, model->own_gradient);
    free(model);
}

/* ---- what it is --------------------------------------------------------- */

const struct model_options *model_get_options(const struct model *model)
{
    return &model->options;
}

size_t model_parameters(const struct model *model)
{
    return model->layout.parameters;
}

size_t model_state_count(const struct model *model)
{
    return model->layout.state;
}

const struct model_layout *model_get_layout(const struct model *model)
{
    return &model->layout;
}

int64_t model_get_step(const struct model *model)
{
    return model->parameters.step;
}

float *model_values(struct model *model)
{
    return model->values;
}

float *model_gradient_values(struct model *model)
{
    return model->gradient;
}

void model_move(struct model *model, float *values, float *gradient)
{
    size_t bytes = model->layout.parameters * sizeof(float);
    float *new_values = values ? values : model->parameters.state;
    float *new_gradient = gradient ? gradient : model->own_gradient;
    if (new_values != model->values)
        memcpy(new_values, model->values, bytes);
    if (new_gradient != model->gradient)
        memcpy(new_gradient, model->gradient, bytes);
    model->values = new_values;
    model->gradient = new_gradient;
}

void model_set_step(struct model *model, int64_t step)
{
    model->parameters.step = step;
}

enum error model_read(struct model *model, float *ret_state)
{
    return parameters_read(&model->parameters, ret_state);
}

enum error model_write(struct model *model, const float *state, int64_t step)
{
    return parameters_write(&model->parameters, state, step);
}

/* ---- one batch ---------------------------------------------------------- */

enum error model_gradient(struct model *model, const struct model_batch *batch)
{
    return network_gradient(model->network, model->values, batch, model->gradient);
}

enum error model_apply(struct model *model)
{
    return parameters_update(&model->parameters, model->gradient);
}

enum error model_apply_if(struct model *model, const float *gradient, const int32_t *only_if)
{
    return parameters_update_if(&model->parameters, gradient, only_if);
}

enum error model_step(struct model *model, const struct model_batch *batch)
{
    enum error error = model_gradient(model, batch);
    return error ? error : model_apply(model);
}

/* ---- results ------------------------------------------------------------ */

enum error model_send_score(struct model *model)
{
    return network_send_score(model->network);
}

enum error model_take_score(struct model *model, struct model_score *ret_score)
{
    return network_take_score(model->network, ret_score);
}

enum error model_loss(struct model *model, double *ret_loss)
{
    struct model_score score;
    enum error error = model_send_score(model);
    if (!error)
        error = model_take_score(model, &score);
    if (!error)
        *ret_loss = model_score_loss(model, &score);
    return error;
}

enum error model_read_gradient(struct model *model, float *ret_gradient)
{
    return kernel_read(model->kernel, model->gradient, model->layout.parameters, ret_gradient);
}

enum error model_evaluate(struct model *model, const struct model_batch *batch,
                          struct model_score *score)
{
    return network_evaluate(model->network, model->values, batch, score);
}

enum error model_read_outputs(struct model *model, size_t rows, float *ret_outputs)
{
    return network_read_outputs(model->network, rows, ret_outputs);
}

double model_score_loss(const struct model *model, const struct model_score *score)
{
    return network_score_loss(model->network, score);
}

enum error model_predict(struct model *model, const float *features, size_t rows, float *ret_output)
{
    return network_predict(model->network, model->values, features, rows, ret_output);
}
