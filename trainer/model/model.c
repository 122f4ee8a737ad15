/* SPDX-License-Identifier: MIT */
#include "trainer/model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "trainer/compute/initializer.h"

/* Batches whose labels may be on their way to the device at once. */
#define LABEL_SLOTS 4

/* One batch's classes or targets in page-locked memory; free again when the event is reached. */
struct label_slot {
    void *memory; /* [B] of int32_t or float */
    struct device_event *copied;
    bool used;
};

struct model {
    struct model_options options;
    struct model_layout layout;
    struct kernel *kernel;      /* borrowed */
    struct device *device;      /* the kernel's */
    struct device_queue *queue; /* the kernel's */
    int64_t step;
    size_t rows; /* of the latest gradient; 0: none yet */

    /* Device memory. Layer i reads outputs[i - 1] (the first: the batch) and writes outputs[i];
     * gradients[i] is the gradient of outputs[i] before the activation, [B, its width] both. */
    float *state, *gradient;
    float *outputs[MODEL_LAYERS_LIMIT], *gradients[MODEL_LAYERS_LIMIT];
    void *labels;                  /* [B] of int32_t or float */
    struct kernel_result *results; /* [2]: of the latest gradient, of the latest evaluation */

    struct kernel_result *host_result; /* page-locked */
    struct label_slot label_slots[LABEL_SLOTS];
    size_t next_label_slot;
};

/* ---- life cycle --------------------------------------------------------- */

static enum error new_floats(struct model *model, size_t rows, size_t columns, float **ret_floats)
{
    size_t bytes;
    void *memory;
    if (__builtin_mul_overflow(rows, columns, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof(float), &bytes))
        return error_set(ERROR_MEMORY, "%zu rows of %zu floats are more than memory can hold", rows,
                         columns);
    enum error error = device_memory_new(model->device, bytes, &memory);
    if (!error)
        *ret_floats = memory;
    return error;
}

static enum error allocate_layers(struct model *model)
{
    enum error error = new_floats(model, 1, model->layout.state, &model->state);
    if (!error)
        error = new_floats(model, 1, model->layout.parameters, &model->gradient);
    for (size_t i = 0; i < model->layout.layer_count && !error; i++) {
        size_t width = model->layout.layers[i].outputs;
        error = new_floats(model, model->options.batch_rows, width, &model->outputs[i]);
        if (!error)
            error = new_floats(model, model->options.batch_rows, width, &model->gradients[i]);
    }
    return error;
}

static enum error allocate_labels(struct model *model)
{
    size_t bytes = model->options.batch_rows * sizeof(int32_t);
    void *memory;
    enum error error = device_memory_new(model->device, bytes, &model->labels);
    for (size_t i = 0; i < LABEL_SLOTS && !error; i++) {
        error = device_host_new(model->device, bytes, &model->label_slots[i].memory);
        if (!error)
            error = device_event_new(model->device, &model->label_slots[i].copied);
    }
    if (!error)
        error = device_memory_new(model->device, 2 * sizeof(*model->results), &memory);
    if (error)
        return error;
    model->results = memory;
    error = device_host_new(model->device, sizeof(*model->host_result), &memory);
    if (!error)
        model->host_result = memory;
    return error;
}

/* The classic start: a multilayer perceptron's weights are random, all else is constant. */
static void initial_state(const struct model *model, float *ret_state)
{
    const struct model_options *options = &model->options;
    size_t parameters = model->layout.parameters;
    initializer_constant(ret_state, parameters, 0);
    for (size_t i = 0; options->shape.kind == MODEL_MLP && i < model->layout.layer_count; i++) {
        const struct model_layer *layer = &model->layout.layers[i];
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
    initial_state(model, state);
    enum error error = model_write(model, state, 0);
    free(state);
    return error;
}

static enum error check_options(const struct model_options *options)
{
    bool squared = loss_is_squared(options->loss);
    if (squared != (options->shape.kind == MODEL_LINEAR))
        return error_set(ERROR_USAGE, "a %s model cannot be trained with the loss %s",
                         model_kind_name(options->shape.kind), loss_name(options->loss));
    if (options->batch_rows < 1 || options->batch_rows > MODEL_ROWS_LIMIT)
        return error_set(ERROR_USAGE, "batches of %zu rows; it must be 1 to %d",
                         options->batch_rows, MODEL_ROWS_LIMIT);
    return optimizer_check(&options->optimizer);
}

enum error model_new(const struct model_options *options, struct kernel *kernel,
                     struct model **ret_model)
{
    enum error error = check_options(options);
    if (error)
        return error;
    struct model *model = array_new(1, sizeof(*model), "a model");
    if (!model)
        return ERROR_MEMORY;
    model->options = *options;
    model->kernel = kernel;
    model->device = kernel->device;
    model->queue = kernel->queue;
    error = model_layout_init(&model->layout, &options->shape, &options->optimizer);
    if (!error)
        error = kernel_reserve(kernel, options->batch_rows, options->shape.features);
    if (!error)
        error = allocate_layers(model);
    if (!error)
        error = allocate_labels(model);
    if (!error)
        error = initialise(model);
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
    struct device *device = model->device;
    device_memory_free(device, model->state);
    device_memory_free(device, model->gradient);
    for (size_t i = 0; i < MODEL_LAYERS_LIMIT; i++) {
        device_memory_free(device, model->outputs[i]);
        device_memory_free(device, model->gradients[i]);
    }
    device_memory_free(device, model->labels);
    device_memory_free(device, model->results);
    device_host_free(device, model->host_result);
    for (size_t i = 0; i < LABEL_SLOTS; i++) {
        device_host_free(device, model->label_slots[i].memory);
        device_event_free(device, model->label_slots[i].copied);
    }
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

size_t model_tensors(const struct model *model)
{
    return model->layout.tensor_count;
}

const struct model_tensor *model_tensor(const struct model *model, size_t index)
{
    return &model->layout.tensors[index];
}

int64_t model_get_step(const struct model *model)
{
    return model->step;
}

static enum error read_floats(struct model *model, const float *from, size_t count, float *ret_to)
{
    enum error error =
        device_copy_out(model->device, model->queue, ret_to, from, count * sizeof(*from));
    return error ? error : device_queue_wait(model->device, model->queue);
}

enum error model_read(struct model *model, float *ret_state)
{
    return read_floats(model, model->state, model->layout.state, ret_state);
}

enum error model_write(struct model *model, const float *state, int64_t step)
{
    enum error error = device_copy_in(model->device, model->queue, model->state, state,
                                      model->layout.state * sizeof(*state));
    if (!error)
        error = device_queue_wait(model->device, model->queue);
    if (!error)
        model->step = step;
    return error;
}

/* ---- one batch ---------------------------------------------------------- */

static enum error check_rows(const struct model *model, size_t rows)
{
    if (rows >= 1 && rows <= model->options.batch_rows)
        return OK;
    return error_set(ERROR_INPUT, "a batch of %zu %s; this model was made for 1 to %zu", rows,
                     text_plural(rows, "row", "rows"), model->options.batch_rows);
}

static enum error check_classes(const struct model *model, const struct model_batch *batch)
{
    int32_t classes = (int32_t)model->options.shape.outputs;
    for (size_t i = 0; i < batch->rows; i++) {
        if (batch->classes[i] < 0 || batch->classes[i] >= classes)
            return error_set(ERROR_INPUT,
                             "row %zu of the batch has class number %d; the model has 0 to %d", i,
                             (int)batch->classes[i], (int)classes - 1);
    }
    return OK;
}

/* The batch's labels as the kernels take them. */
static void fill_labels(const struct model *model, const struct model_batch *batch,
                        void *ret_labels)
{
    const struct model_options *options = &model->options;
    float *targets = ret_labels;
    if (!loss_is_squared(options->loss))
        memcpy(ret_labels, batch->classes, batch->rows * sizeof(*batch->classes));
    else if (options->target_deviation == 0)
        memcpy(ret_labels, batch->targets, batch->rows * sizeof(*batch->targets));
    else
        for (size_t i = 0; i < batch->rows; i++)
            targets[i] = (batch->targets[i] - options->target_mean) / options->target_deviation;
}

/* Copies the batch's labels to the device by way of the slot that was used longest ago. */
static enum error send_labels(struct model *model, const struct model_batch *batch)
{
    size_t bytes = batch->rows * sizeof(int32_t);
    enum error error = check_rows(model, batch->rows);
    if (!error && !loss_is_squared(model->options.loss))
        error = check_classes(model, batch);
    struct label_slot *slot = &model->label_slots[model->next_label_slot];
    if (!error && slot->used)
        error = device_event_wait(model->device, slot->copied);
    if (error)
        return error;
    fill_labels(model, batch, slot->memory);
    error = device_copy_in(model->device, model->queue, model->labels, slot->memory, bytes);
    if (!error)
        error = device_event_record(model->device, slot->copied, model->queue);
    if (error)
        return error;
    slot->used = true;
    model->next_label_slot = (model->next_label_slot + 1) % LABEL_SLOTS;
    return OK;
}

/* What layer `index` reads; the first reads the batch. */
static struct kernel_input layer_input(const struct model *model, size_t index,
                                       const struct kernel_input *batch)
{
    if (index == 0)
        return *batch;
    return (struct kernel_input){.values = model->outputs[index - 1],
                                 .rows = batch->rows,
                                 .columns = model->layout.layers[index].inputs};
}

static enum error forward(struct model *model, const float *features, size_t rows,
                          struct kernel_input *ret_batch)
{
    enum error error =
        kernel_input(model->kernel, features, rows, model->options.shape.features, ret_batch);
    size_t last = model->layout.layer_count - 1;
    for (size_t i = 0; i <= last && !error; i++) {
        const struct model_layer *layer = &model->layout.layers[i];
        struct kernel_input input = layer_input(model, i, ret_batch);
        error = kernel_forward(model->kernel, &input, model->state + layer->weights_offset,
                               model->state + layer->bias_offset, layer->outputs,
                               i < last ? ACTIVATION_RELU : ACTIVATION_NONE, model->outputs[i]);
    }
    return error;
}

/* Loss, number correct, and the gradient of the last layer's outputs. */
static enum error compare(struct model *model, size_t rows, struct kernel_result *ret_result)
{
    size_t last = model->layout.layer_count - 1;
    if (loss_is_squared(model->options.loss))
        return kernel_squared_error(model->kernel, model->options.loss, model->outputs[last],
                                    model->labels, rows, model->gradients[last], ret_result);
    return kernel_cross_entropy(model->kernel, model->options.loss, model->outputs[last],
                                model->labels, rows, model->options.shape.outputs,
                                model->gradients[last], ret_result);
}

static enum error backward(struct model *model, const struct kernel_input *batch)
{
    enum error error = OK;
    for (size_t i = model->layout.layer_count; i-- > 0 && !error;) {
        const struct model_layer *layer = &model->layout.layers[i];
        struct kernel_input input = layer_input(model, i, batch);
        error = kernel_backward(model->kernel, &input, model->gradients[i], layer->outputs,
                                model->gradient + layer->weights_offset,
                                model->gradient + layer->bias_offset);
        if (!error && i > 0)
            error = kernel_backward_input(model->kernel, &input, model->gradients[i],
                                          model->state + layer->weights_offset, layer->outputs,
                                          model->gradients[i - 1]);
    }
    return error;
}

enum error model_gradient(struct model *model, const struct model_batch *batch)
{
    struct kernel_input input;
    enum error error = send_labels(model, batch);
    if (!error)
        error = forward(model, batch->features, batch->rows, &input);
    if (!error)
        error = compare(model, batch->rows, &model->results[0]);
    if (!error)
        error = backward(model, &input);
    if (!error)
        model->rows = batch->rows;
    return error;
}

enum error model_apply(struct model *model)
{
    struct kernel_update update = {
        .count = model->layout.parameters, .gradient = model->gradient, .parameters = model->state};
    for (size_t i = 0; i < optimizer_slots(&model->options.optimizer); i++)
        update.slots[i] = model->state + (1 + i) * model->layout.parameters;
    enum error error =
        kernel_update(model->kernel, &model->options.optimizer, model->step + 1, &update);
    if (!error)
        model->step++;
    return error;
}

enum error model_step(struct model *model, const struct model_batch *batch)
{
    enum error error = model_gradient(model, batch);
    return error ? error : model_apply(model);
}

/* ---- results ------------------------------------------------------------ */

static enum error read_result(struct model *model, const struct kernel_result *from,
                              struct kernel_result *ret_result)
{
    enum error error =
        device_copy_out(model->device, model->queue, model->host_result, from, sizeof(*from));
    if (!error)
        error = device_queue_wait(model->device, model->queue);
    if (error)
        return error;
    double deviation = (double)model->options.target_deviation;
    *ret_result = *model->host_result;
    if (deviation != 0)
        ret_result->loss_sum *= deviation * deviation;
    return OK;
}

enum error model_loss(struct model *model, double *ret_loss)
{
    if (model->rows == 0)
        return error_set(ERROR_NOT_FOUND, "the model has no loss before its first batch");
    struct kernel_result result;
    enum error error = read_result(model, &model->results[0], &result);
    if (!error)
        *ret_loss = loss_is_mean(model->options.loss) ? result.loss_sum / (double)model->rows
                                                      : result.loss_sum;
    return error;
}

enum error model_gradient_is_zero(struct model *model, bool *ret_zero)
{
    float part[256];
    size_t last = model->layout.layer_count - 1;
    size_t count = model->rows * model->layout.layers[last].outputs;
    size_t room = sizeof(part) / sizeof(*part);
    for (size_t at = 0; at < count; at += room) {
        size_t some = count - at < room ? count - at : room;
        enum error error = read_floats(model, model->gradients[last] + at, some, part);
        if (error)
            return error;
        for (size_t i = 0; i < some; i++) {
            if (part[i] != 0) {
                *ret_zero = false;
                return OK;
            }
        }
    }
    *ret_zero = true;
    return OK;
}

enum error model_read_gradient(struct model *model, float *ret_gradient)
{
    return read_floats(model, model->gradient, model->layout.parameters, ret_gradient);
}

enum error model_evaluate(struct model *model, const struct model_batch *batch,
                          struct model_score *score)
{
    struct kernel_input input;
    enum error error = send_labels(model, batch);
    if (!error)
        error = forward(model, batch->features, batch->rows, &input);
    if (!error)
        error = compare(model, batch->rows, &model->results[1]);
    struct kernel_result result;
    if (!error)
        error = read_result(model, &model->results[1], &result);
    if (error)
        return error;
    score->rows += (int64_t)batch->rows;
    score->correct += result.correct;
    score->loss_sum += result.loss_sum;
    return OK;
}

double model_score_loss(const struct model *model, const struct model_score *score)
{
    if (!loss_is_mean(model->options.loss) || score->rows == 0)
        return score->loss_sum;
    return score->loss_sum / (double)score->rows;
}

enum error model_predict(struct model *model, const float *features, size_t rows, float *ret_output)
{
    struct kernel_input input;
    size_t last = model->layout.layer_count - 1, outputs = model->options.shape.outputs;
    float *result = model->outputs[last];
    enum error error = check_rows(model, rows);
    if (!error)
        error = forward(model, features, rows, &input);
    if (!error && !loss_is_squared(model->options.loss))
        error = kernel_softmax(model->kernel, result, rows, outputs, result);
    if (!error)
        error = read_floats(model, result, rows * outputs, ret_output);
    if (error || model->options.target_deviation == 0)
        return error;
    for (size_t i = 0; i < rows; i++)
        ret_output[i] =
            ret_output[i] * model->options.target_deviation + model->options.target_mean;
    return OK;
}
