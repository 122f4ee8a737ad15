/* SPDX-License-Identifier: MIT */
#include "trainer/model/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "trainer/compute/dropout.h"
#include "trainer/model/gradient_graphs.h"

/* The data of a batch besides its features: a mask for each layer with dropout, then [B] classes
 * (int32_t) or targets (float). */
struct batch_facts {
    struct dropout_mask *masks;
    void *labels;
};

/* The same in page-locked memory; reusable once the event is reached. */
struct facts_slot {
    void *memory;
    struct device_event *copied;
    bool used;
};

/* A batch's result on its way to the host. */
struct sent_result {
    struct kernel_result *memory; /* page-locked */
    struct device_event *there;
    size_t rows;
};

struct network {
    struct model_options options;
    const struct model_layout *layout; /* borrowed */
    struct kernel *kernel;             /* borrowed */
    size_t rows;                       /* of the latest gradient; 0: none yet */

    /* Device memory. Layer i reads outputs[i - 1] (the first: the batch) and writes outputs[i];
     * gradients[i] is the gradient of outputs[i] before the activation; both [B, its width]. */
    float *outputs[MODEL_LAYERS_LIMIT], *gradients[MODEL_LAYERS_LIMIT];
    void *facts;                   /* facts_of() are those of the latest batch */
    float *features;               /* [B,F], from which graphs read a batch; NULL: no graphs */
    struct kernel_result *results; /* [2]: of the latest gradient, of the latest evaluation */

    struct gradient_graphs graphs;
    struct sent_result sent[2]; /* likewise */
    struct facts_slot facts_slots[NETWORK_AHEAD];
    size_t next_facts_slot;
};

/* ---- what a batch brings besides its features ---------------------------- */

static size_t mask_count(const struct network *network)
{
    return network->options.dropout > 0 ? network->layout->layer_count - 1 : 0;
}

static size_t facts_bytes(const struct network *network, size_t rows)
{
    return mask_count(network) * sizeof(struct dropout_mask) + rows * sizeof(int32_t);
}

static struct batch_facts facts_of(const struct network *network, void *memory)
{
    struct dropout_mask *masks = memory;
    return (struct batch_facts){.masks = masks, .labels = masks + mask_count(network)};
}

/* ---- life cycle --------------------------------------------------------- */

static enum error allocate_layers(struct network *network)
{
    struct device *device = network->kernel->device;
    enum error error = OK;
    for (size_t i = 0; i < network->layout->layer_count && !error; i++) {
        size_t width = network->layout->layers[i].outputs;
        error = device_floats_new(device, network->options.batch_rows, width, &network->outputs[i]);
        if (!error)
            error = device_floats_new(device, network->options.batch_rows, width,
                                      &network->gradients[i]);
    }
    if (!error && network->graphs.on)
        error = device_floats_new(device, network->options.batch_rows,
                                  network->options.shape.features, &network->features);
    return error;
}

static enum error allocate_facts(struct network *network)
{
    size_t bytes = facts_bytes(network, network->options.batch_rows);
    enum error error = device_memory_new(network->kernel->device, bytes, &network->facts);
    for (size_t i = 0; i < NETWORK_AHEAD && !error; i++) {
        error = device_host_new(network->kernel->device, bytes, &network->facts_slots[i].memory);
        if (!error)
            error = device_event_new(network->kernel->device, &network->facts_slots[i].copied);
    }
    return error;
}

static enum error allocate_results(struct network *network)
{
    void *memory;
    enum error error =
        device_memory_new(network->kernel->device, 2 * sizeof(*network->results), &memory);
    if (error)
        return error;
    network->results = memory;
    for (size_t i = 0; i < 2 && !error; i++) {
        struct sent_result *sent = &network->sent[i];
        error = device_host_new(network->kernel->device, sizeof(*sent->memory), &memory);
        if (!error)
            sent->memory = memory;
        if (!error)
            error = device_event_new(network->kernel->device, &sent->there);
    }
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
    return OK;
}

enum error network_new(const struct model_options *options, const struct model_layout *layout,
                       struct kernel *kernel, struct network **ret_network)
{
    enum error error = check_options(options);
    if (error)
        return error;
    struct network *network = array_new(1, sizeof(*network), "a network");
    if (!network)
        return ERROR_MEMORY;
    network->options = *options;
    network->layout = layout;
    network->kernel = kernel;
    gradient_graphs_init(&network->graphs, kernel);
    error = kernel_reserve(kernel, options->batch_rows, options->shape.features);
    if (!error)
        error = allocate_layers(network);
    if (!error)
        error = allocate_facts(network);
    if (!error)
        error = allocate_results(network);
    if (error) {
        network_free(network);
        return error;
    }
    *ret_network = network;
    return OK;
}

void network_free(struct network *network)
{
    if (!network)
        return;
    struct device *device = network->kernel->device;
    gradient_graphs_release(&network->graphs);
    device_memory_free(device, network->features);
    for (size_t i = 0; i < MODEL_LAYERS_LIMIT; i++) {
        device_memory_free(device, network->outputs[i]);
        device_memory_free(device, network->gradients[i]);
    }
    device_memory_free(device, network->facts);
    device_memory_free(device, network->results);
    for (size_t i = 0; i < 2; i++) {
        device_host_free(device, network->sent[i].memory);
        device_event_free(device, network->sent[i].there);
    }
    for (size_t i = 0; i < NETWORK_AHEAD; i++) {
        device_host_free(device, network->facts_slots[i].memory);
        device_event_free(device, network->facts_slots[i].copied);
    }
    free(network);
}

/* ---- one batch ---------------------------------------------------------- */

static enum error check_rows(const struct network *network, size_t rows)
{
    if (rows >= 1 && rows <= network->options.batch_rows)
        return OK;
    return error_set(ERROR_INPUT, "a batch of %zu %s; this model was made for 1 to %zu", rows,
                     text_plural(rows, "row", "rows"), network->options.batch_rows);
}

static enum error check_classes(const struct network *network, const struct model_batch *batch)
{
    int32_t classes = (int32_t)network->options.shape.outputs;
    for (size_t i = 0; i < batch->rows; i++) {
        if (batch->classes[i] < 0 || batch->classes[i] >= classes)
            return error_set(ERROR_INPUT,
                             "row %zu of the batch has class number %d; the model has 0 to %d", i,
                             (int)batch->classes[i], (int)classes - 1);
    }
    return OK;
}

/* The batch's labels in the kernels' form. */
static void fill_labels(const struct network *network, const struct model_batch *batch,
                        void *ret_labels)
{
    const struct model_options *options = &network->options;
    float *targets = ret_labels;
    if (!loss_is_squared(options->loss))
        memcpy(ret_labels, batch->classes, batch->rows * sizeof(*batch->classes));
    else if (options->target_deviation == 0)
        memcpy(ret_labels, batch->targets, batch->rows * sizeof(*batch->targets));
    else
        for (size_t i = 0; i < batch->rows; i++)
            targets[i] = (batch->targets[i] - options->target_mean) / options->target_deviation;
}

static void fill_masks(const struct network *network, const struct model_batch *batch,
                       struct dropout_mask *ret_masks)
{
    for (size_t i = 0; i < mask_count(network); i++)
        dropout_mask_init(&ret_masks[i], network->options.dropout, network->options.seed,
                          batch->index, (uint32_t)i);
}

/* Copies the batch's data besides its features to the device, through the least recently used
 * slot. */
static enum error send_facts(struct network *network, const struct model_batch *batch)
{
    size_t bytes = facts_bytes(network, batch->rows);
    enum error error = check_rows(network, batch->rows);
    if (!error && !loss_is_squared(network->options.loss))
        error = check_classes(network, batch);
    struct facts_slot *slot = &network->facts_slots[network->next_facts_slot];
    if (!error && slot->used)
        error = device_event_wait(network->kernel->device, slot->copied);
    if (error)
        return error;
    struct batch_facts facts = facts_of(network, slot->memory);
    fill_masks(network, batch, facts.masks);
    fill_labels(network, batch, facts.labels);
    error = device_copy_in(network->kernel->device, network->kernel->queue, network->facts,
                           slot->memory, bytes);
    if (!error)
        error = device_event_record(network->kernel->device, slot->copied, network->kernel->queue);
    if (error)
        return error;
    slot->used = true;
    network->next_facts_slot = (network->next_facts_slot + 1) % NETWORK_AHEAD;
    return OK;
}

/* The input of layer `index`; the first reads the batch. */
static struct kernel_input layer_input(const struct network *network, size_t index,
                                       const struct kernel_input *batch)
{
    if (index == 0)
        return *batch;
    return (struct kernel_input){.values = network->outputs[index - 1],
                                 .rows = batch->rows,
                                 .columns = network->layout->layers[index].inputs};
}

static enum error drop(struct network *network, size_t rows, size_t index)
{
    return kernel_dropout(network->kernel, &facts_of(network, network->facts).masks[index],
                          network->outputs[index], rows * network->layout->layers[index].outputs);
}

/* `drops`: with dropout in hidden layers. */
static enum error forward(struct network *network, const float *values,
                          const struct model_batch *batch, bool drops,
                          struct kernel_input *ret_batch)
{
    size_t features = network->options.shape.features;
    enum error error =
        batch->features
            ? kernel_input(network->kernel, batch->features, batch->rows, features, ret_batch)
            : kernel_input_bytes(network->kernel, batch->bytes, batch->scale, batch->rows, features,
                                 ret_batch);
    size_t last = network->layout->layer_count - 1;
    for (size_t i = 0; i <= last && !error; i++) {
        const struct model_layer *layer = &network->layout->layers[i];
        struct kernel_input input = layer_input(network, i, ret_batch);
        error = kernel_forward(network->kernel, &input, values + layer->weights_offset,
                               values + layer->bias_offset, layer->outputs,
                               i < last ? ACTIVATION_RELU : ACTIVATION_NONE, network->outputs[i]);
        if (!error && drops && i < last)
            error = drop(network, batch->rows, i);
    }
    return error;
}

/* Loss, number correct, and the gradient of the last layer's outputs. */
static enum error compare(struct network *network, size_t rows, struct kernel_result *ret_result)
{
    size_t last = network->layout->layer_count - 1;
    const void *labels = facts_of(network, network->facts).labels;
    if (loss_is_squared(network->options.loss))
        return kernel_squared_error(network->kernel, network->options.loss, network->outputs[last],
                                    labels, rows, network->gradients[last], ret_result);
    return kernel_cross_entropy(network->kernel, network->options.loss, network->outputs[last],
                                labels, rows, network->options.shape.outputs,
                                network->gradients[last], ret_result);
}

/* A dropped value is not positive, and so has no gradient, as if the ReLU had stopped it; the
 * others were scaled after the ReLU. */
static enum error scale_kept(struct network *network, size_t rows, size_t index)
{
    return kernel_scale(network->kernel, network->gradients[index],
                        rows * network->layout->layers[index].outputs,
                        dropout_scale(network->options.dropout));
}

static enum error backward(struct network *network, const float *values,
                           const struct kernel_input *batch, float *ret_gradient)
{
    enum error error = OK;
    for (size_t i = network->layout->layer_count; i-- > 0 && !error;) {
        const struct model_layer *layer = &network->layout->layers[i];
        struct kernel_input input = layer_input(network, i, batch);
        error = kernel_backward(network->kernel, &input, network->gradients[i], layer->outputs,
                                ret_gradient + layer->weights_offset,
                                ret_gradient + layer->bias_offset);
        if (!error && i > 0)
            error = kernel_backward_input(network->kernel, &input, network->gradients[i],
                                          values + layer->weights_offset, layer->outputs,
                                          network->gradients[i - 1]);
        if (!error && i > 0 && network->options.dropout > 0)
            error = scale_kept(network, batch->rows, i - 1);
    }
    return error;
}

/* The arguments of network_gradient(). */
struct gradient_work {
    struct network *network;
    const float *values;
    struct model_batch batch;
    float *gradient;
};

/* Depends only on the batch's number of rows and on addresses: the data there may change until it
 * runs, from one launch of a graph to the next. */
static enum error enqueue_gradient(void *context)
{
    const struct gradient_work *work = context;
    struct network *network = work->network;
    struct kernel_input input;
    enum error error =
        forward(network, work->values, &work->batch, network->options.dropout > 0, &input);
    if (!error)
        error = compare(network, work->batch.rows, &network->results[0]);
    if (!error)
        error = backward(network, work->values, &input, work->gradient);
    if (!error && gradient_clip_is_on(&network->options.clip))
        error = kernel_clip(network->kernel, &network->options.clip, work->gradient,
                            network->layout->parameters);
    return error;
}

enum error network_gradient(struct network *network, const float *values,
                            const struct model_batch *batch, float *ret_gradient)
{
    struct gradient_work work = {network, values, *batch, ret_gradient};
    struct gradient_key key = {batch->rows, values, ret_gradient};
    enum error error = send_facts(network, batch);
    if (!error && network->graphs.on) {
        error = kernel_copy(network->kernel, batch->features,
                            batch->rows * network->options.shape.features, network->features);
        work.batch.features = network->features;
    }
    if (!error)
        error = gradient_graphs_run(&network->graphs, &key, enqueue_gradient, &work);
    if (!error)
        network->rows = batch->rows;
    return error;
}

/* ---- results ------------------------------------------------------------ */

static enum error send_result(struct network *network, const struct kernel_result *result,
                              struct sent_result *sent, size_t rows)
{
    struct device *device = network->kernel->device;
    struct device_queue *queue = network->kernel->queue;
    enum error error = device_copy_out(device, queue, sent->memory, result, sizeof(*result));
    if (!error)
        error = device_event_record(device, sent->there, queue);
    if (!error)
        sent->rows = rows;
    return error;
}

static enum error take_result(struct network *network, const struct sent_result *sent,
                              struct model_score *ret_score)
{
    enum error error = device_event_wait(network->kernel->device, sent->there);
    if (error)
        return error;
    const struct kernel_result *result = sent->memory;
    double deviation = (double)network->options.target_deviation;
    *ret_score = (struct model_score){.rows = (int64_t)sent->rows,
                                      .correct = result->correct,
                                      .moving = result->moving,
                                      .loss_sum = result->loss_sum};
    if (deviation != 0)
        ret_score->loss_sum *= deviation * deviation;
    if (isnan(ret_score->loss_sum))
        ret_score->loss_sum = NAN; /* without a sign, which would be printed */
    return OK;
}

enum error network_send_score(struct network *network)
{
    if (network->rows == 0)
        return error_set(ERROR_NOT_FOUND, "the model has no loss before its first batch");
    return send_result(network, &network->results[0], &network->sent[0], network->rows);
}

enum error network_take_score(struct network *network, struct model_score *ret_score)
{
    return take_result(network, &network->sent[0], ret_score);
}

enum error network_evaluate(struct network *network, const float *values,
                            const struct model_batch *batch, struct model_score *score)
{
    struct kernel_input input;
    enum error error = send_facts(network, batch);
    if (!error)
        error = forward(network, values, batch, false, &input);
    if (!error)
        error = compare(network, batch->rows, &network->results[1]);
    if (!error)
        error = send_result(network, &network->results[1], &network->sent[1], batch->rows);
    struct model_score one;
    if (!error)
        error = take_result(network, &network->sent[1], &one);
    if (error)
        return error;
    score->rows += one.rows;
    score->correct += one.correct;
    score->moving += one.moving;
    score->loss_sum += one.loss_sum;
    return OK;
}

enum error network_read_outputs(struct network *network, size_t rows, float *ret_outputs)
{
    size_t last = network->layout->layer_count - 1;
    return kernel_read(network->kernel, network->outputs[last],
                       rows * network->layout->layers[last].outputs, ret_outputs);
}

double network_score_loss(const struct network *network, const struct model_score *score)
{
    if (!loss_is_mean(network->options.loss) || score->rows == 0)
        return score->loss_sum;
    return score->loss_sum / (double)score->rows;
}

enum error network_predict(struct network *network, const float *values, const float *features,
                           size_t rows, float *ret_output)
{
    struct kernel_input input;
    size_t last = network->layout->layer_count - 1, outputs = network->options.shape.outputs;
    float *result = network->outputs[last];
    struct model_batch batch = {.rows = rows, .features = features};
    enum error error = check_rows(network, rows);
    if (!error)
        error = forward(network, values, &batch, false, &input);
    if (!error && !loss_is_squared(network->options.loss))
        error = kernel_softmax(network->kernel, result, rows, outputs, result);
    if (!error)
        error = kernel_read(network->kernel, result, rows * outputs, ret_output);
    if (error || network->options.target_deviation == 0)
        return error;
    for (size_t i = 0; i < rows; i++)
        ret_output[i] =
            ret_output[i] * network->options.target_deviation + network->options.target_mean;
    return OK;
}
