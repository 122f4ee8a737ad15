/* SPDX-License-Identifier: MIT */
#include "trainer/onnx/onnx_export.h"

#include <stdlib.h>

#include "common/array.h"
#include "trainer/checkpoint/checkpoint_facts.h"
#include "trainer/onnx/onnx_graph.h"

/* Data borrowed by the graph. */
struct exported {
    const struct checkpoint_facts *facts;
    struct model_layout layout;
    float *state;   /* [P] */
    float *factors; /* [F], 1 / deviation; NULL: not normalized */
    struct checkpoint_metadata metadata;
    struct onnx_graph *graph;
};

/* ---- the graph ---------------------------------------------------------- */

/* The same operations in the same order as in feature_input.c and the kernels. */
static void add_scaling(struct exported *exported)
{
    struct onnx_graph *graph = exported->graph;
    const struct checkpoint_facts *facts = exported->facts;
    const struct feature_norm *norm = &facts->norm;
    if (facts->feature_scale != 1) {
        const char *scale = onnx_graph_tensor(graph, "feature_scale", &facts->feature_scale, 0, 1);
        onnx_graph_node(graph, "Mul", scale, NULL);
    }
    if (norm->features == 0)
        return;
    const char *mean = onnx_graph_tensor(graph, "feature_mean", norm->mean, 0, norm->features);
    onnx_graph_node(graph, "Sub", mean, NULL);
    const char *factor =
        onnx_graph_tensor(graph, "feature_factor", exported->factors, 0, norm->features);
    onnx_graph_node(graph, "Mul", factor, NULL);
}

static void add_layers(struct exported *exported)
{
    struct onnx_graph *graph = exported->graph;
    const struct model_layout *layout = &exported->layout;
    for (size_t i = 0; i < layout->layer_count; i++) {
        const struct model_layer *layer = &layout->layers[i];
        const char *weights = onnx_graph_tensor(graph, layout->tensors[2 * i].name,
                                                exported->state + layer->weights_offset,
                                                layer->inputs, layer->outputs);
        const char *bias =
            onnx_graph_tensor(graph, layout->tensors[2 * i + 1].name,
                              exported->state + layer->bias_offset, 0, layer->outputs);
        onnx_graph_node(graph, "Gemm", weights, bias);
        if (i + 1 < layout->layer_count)
            onnx_graph_node(graph, "Relu", NULL, NULL);
    }
}

static void add_prediction(struct exported *exported)
{
    struct onnx_graph *graph = exported->graph;
    const struct model_options *model = &exported->facts->model;
    if (model->target_deviation != 0) {
        const char *deviation =
            onnx_graph_tensor(graph, "target_deviation", &model->target_deviation, 0, 1);
        onnx_graph_node(graph, "Mul", deviation, NULL);
        const char *mean = onnx_graph_tensor(graph, "target_mean", &model->target_mean, 0, 1);
        onnx_graph_node(graph, "Add", mean, NULL);
    }
    onnx_graph_output(graph, "prediction", ONNX_FLOAT, 1);
}

static void add_classes(struct exported *exported)
{
    struct onnx_graph *graph = exported->graph;
    onnx_graph_node(graph, "Softmax", NULL, NULL);
    onnx_graph_attribute(graph, "axis", 1);
    onnx_graph_output(graph, "probabilities", ONNX_FLOAT, exported->facts->model.shape.outputs);
    onnx_graph_node(graph, "ArgMax", NULL, NULL);
    onnx_graph_attribute(graph, "axis", 1);
    onnx_graph_attribute(graph, "keepdims", 0);
    onnx_graph_output(graph, "class", ONNX_INT64, 0);
}

static enum error build(struct exported *exported)
{
    const struct model_shape *shape = &exported->facts->model.shape;
    enum error error =
        onnx_graph_new(model_kind_name(shape->kind), "features", shape->features, &exported->graph);
    if (error)
        return error;
    add_scaling(exported);
    add_layers(exported);
    if (shape->kind == MODEL_LINEAR)
        add_prediction(exported);
    else
        add_classes(exported);
    return OK;
}

/* ---- what it borrows ---------------------------------------------------- */

static enum error find_factors(struct exported *exported)
{
    const struct feature_norm *norm = &exported->facts->norm;
    if (norm->features == 0)
        return OK;
    exported->factors = array_new(norm->features, sizeof(*exported->factors), "factors");
    for (size_t i = 0; exported->factors && i < norm->features; i++)
        exported->factors[i] = 1 / norm->deviation[i];
    return exported->factors ? OK : ERROR_MEMORY;
}

/* Only of the parameters: plain SGD has no slots. */
static enum error read_state(struct exported *exported, const struct checkpoint *checkpoint)
{
    struct optimizer optimizer;
    enum error error = optimizer_init(&optimizer, "sgd", 1.0);
    if (!error)
        error = model_layout_init(&exported->layout, &exported->facts->model.shape, &optimizer);
    if (error)
        return error;
    exported->state = array_new(exported->layout.state, sizeof(*exported->state), "a model");
    return exported->state ? checkpoint_read_state(checkpoint, &exported->layout, exported->state)
                           : ERROR_MEMORY;
}

enum error onnx_export(const struct checkpoint *checkpoint, const char *path)
{
    struct exported *exported = array_new(1, sizeof(*exported), "an exported model");
    if (!exported)
        return ERROR_MEMORY;
    exported->facts = checkpoint_get_facts(checkpoint);
    enum error error = read_state(exported, checkpoint);
    if (!error)
        error = find_factors(exported);
    if (!error)
        error = checkpoint_facts_print(exported->facts, &exported->metadata);
    if (!error)
        error = build(exported);
    if (!error)
        error = onnx_graph_write(exported->graph, checkpoint_step(checkpoint),
                                 exported->metadata.pairs, exported->metadata.count, path);
    onnx_graph_free(exported->graph);
    checkpoint_metadata_release(&exported->metadata);
    free(exported->state);
    free(exported->factors);
    free(exported);
    return error;
}
