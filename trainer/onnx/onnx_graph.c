/* SPDX-License-Identifier: MIT */
#include "trainer/onnx/onnx_graph.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/file.h"
#include "trainer/onnx/onnx.pb-c.h"

#define IR_VERSION 7
#define FILE_LIMIT_BYTES ((size_t)INT32_MAX) /* of a protobuf message */
#define NODES_LIMIT 48
#define TENSORS_LIMIT 48
#define OUTPUTS_LIMIT 2
#define NAME_BYTES 64
#define ATTRIBUTES_LIMIT 2

struct node {
    Onnx__Node message;
    char name[NAME_BYTES]; /* its own, and that of its result unless that is an output */
    char *inputs[3], *output;
    Onnx__Attribute attributes[ATTRIBUTES_LIMIT], *list[ATTRIBUTES_LIMIT];
};

struct tensor {
    Onnx__Tensor message;
    char name[NAME_BYTES];
    int64_t dimensions[2];
};

/* An input or an output: [rows] or [rows, columns]. */
struct value {
    Onnx__ValueInfo message;
    Onnx__Type type;
    Onnx__TensorType tensor;
    Onnx__Shape shape;
    Onnx__Dimension dimensions[2], *list[2];
};

struct onnx_graph {
    Onnx__Graph message;
    struct node nodes[NODES_LIMIT];
    struct tensor tensors[TENSORS_LIMIT];
    struct value input, outputs[OUTPUTS_LIMIT];
    Onnx__Node *node_list[NODES_LIMIT];
    Onnx__Tensor *tensor_list[TENSORS_LIMIT];
    Onnx__ValueInfo *input_list[1], *output_list[OUTPUTS_LIMIT];
    char *latest; /* the name of the last node's result; initially the input's */
};

static char rows_name[] = "rows"; /* of any number */

static void describe(struct value *value, const char *name, enum onnx_element element,
                     size_t columns)
{
    onnx__value_info__init(&value->message);
    onnx__type__init(&value->type);
    onnx__tensor_type__init(&value->tensor);
    onnx__shape__init(&value->shape);
    for (size_t i = 0; i < 2; i++) {
        onnx__dimension__init(&value->dimensions[i]);
        value->list[i] = &value->dimensions[i];
    }
    value->dimensions[0].value_case = ONNX__DIMENSION__VALUE_DIM_PARAM;
    value->dimensions[0].dim_param = rows_name;
    value->dimensions[1].value_case = ONNX__DIMENSION__VALUE_DIM_VALUE;
    value->dimensions[1].dim_value = (int64_t)columns;
    value->shape.n_dim = columns > 0 ? 2 : 1;
    value->shape.dim = value->list;
    value->tensor.has_elem_type = true;
    value->tensor.elem_type = (Onnx__Element)element;
    value->tensor.shape = &value->shape;
    value->type.tensor_type = &value->tensor;
    value->message.name = (char *)name;
    value->message.type = &value->type;
}

enum error onnx_graph_new(const char *name, const char *input, size_t columns,
                          struct onnx_graph **ret_graph)
{
    struct onnx_graph *graph = array_new(1, sizeof(*graph), "a graph");
    if (!graph)
        return ERROR_MEMORY;
    onnx__graph__init(&graph->message);
    graph->message.name = (char *)name;
    graph->message.node = graph->node_list;
    graph->message.initializer = graph->tensor_list;
    graph->message.input = graph->input_list;
    graph->message.output = graph->output_list;
    describe(&graph->input, input, ONNX_FLOAT, columns);
    graph->input_list[0] = &graph->input.message;
    graph->message.n_input = 1;
    graph->latest = (char *)input;
    *ret_graph = graph;
    return OK;
}

void onnx_graph_free(struct onnx_graph *graph)
{
    free(graph);
}

const char *onnx_graph_tensor(struct onnx_graph *graph, const char *name, const float *values,
                              size_t rows, size_t columns)
{
    size_t number = graph->message.n_initializer++;
    assert(number < TENSORS_LIMIT);
    struct tensor *tensor = &graph->tensors[number];
    onnx__tensor__init(&tensor->message);
    snprintf(tensor->name, sizeof(tensor->name), "%s", name);
    tensor->dimensions[0] = (int64_t)(rows > 0 ? rows : columns);
    tensor->dimensions[1] = (int64_t)columns;
    tensor->message.n_dims = rows > 0 ? 2 : 1;
    tensor->message.dims = tensor->dimensions;
    tensor->message.has_data_type = true;
    tensor->message.data_type = ONNX__ELEMENT__FLOAT;
    tensor->message.name = tensor->name;
    tensor->message.has_raw_data = true;
    tensor->message.raw_data.data = (uint8_t *)values;
    tensor->message.raw_data.len = (rows > 0 ? rows : 1) * columns * sizeof(*values);
    graph->tensor_list[number] = &tensor->message;
    return tensor->name;
}

void onnx_graph_node(struct onnx_graph *graph, const char *operation, const char *a, const char *b)
{
    size_t number = graph->message.n_node++;
    assert(number < NODES_LIMIT);
    struct node *node = &graph->nodes[number];
    onnx__node__init(&node->message);
    snprintf(node->name, sizeof(node->name), "%s_%zu", operation, number);
    node->inputs[0] = graph->latest;
    node->inputs[1] = (char *)a;
    node->inputs[2] = (char *)b;
    node->output = node->name;
    node->message.n_input = b ? 3 : a ? 2 : 1;
    node->message.input = node->inputs;
    node->message.n_output = 1;
    node->message.output = &node->output;
    node->message.name = node->name;
    node->message.op_type = (char *)operation;
    node->message.attribute = node->list;
    graph->node_list[number] = &node->message;
    graph->latest = node->output;
}

void onnx_graph_attribute(struct onnx_graph *graph, const char *name, int64_t value)
{
    struct node *node = &graph->nodes[graph->message.n_node - 1];
    size_t number = node->message.n_attribute++;
    assert(number < ATTRIBUTES_LIMIT);
    Onnx__Attribute *attribute = &node->attributes[number];
    onnx__attribute__init(attribute);
    attribute->name = (char *)name;
    attribute->has_i = attribute->has_type = true;
    attribute->i = value;
    attribute->type = ONNX__ATTRIBUTE__KIND__INT;
    node->list[number] = attribute;
}

void onnx_graph_output(struct onnx_graph *graph, const char *name, enum onnx_element element,
                       size_t columns)
{
    size_t number = graph->message.n_output++;
    assert(number < OUTPUTS_LIMIT);
    describe(&graph->outputs[number], name, element, columns);
    graph->output_list[number] = &graph->outputs[number].message;
    graph->nodes[graph->message.n_node - 1].output = graph->latest = (char *)name;
}

/* ---- the file ----------------------------------------------------------- */

struct sink {
    ProtobufCBuffer base;
    struct file_writer *writer;
    enum error error;
};

static void append(ProtobufCBuffer *base, size_t length, const uint8_t *bytes)
{
    struct sink *sink = (struct sink *)base;
    if (!sink->error)
        sink->error = file_writer_add(sink->writer, bytes, length);
}

static enum error write_file(const Onnx__Model *model, const char *path)
{
    size_t bytes = onnx__model__get_packed_size(model);
    if (bytes > FILE_LIMIT_BYTES)
        return error_set(ERROR_INPUT,
                         "%s would have %zu bytes; a single ONNX file holds at most %zu", path,
                         bytes, FILE_LIMIT_BYTES);
    struct sink sink = {.base = {.append = append}};
    enum error error = file_writer_open(path, &sink.writer);
    if (error)
        return error;
    onnx__model__pack_to_buffer(model, &sink.base);
    error = sink.error ? sink.error : file_writer_commit(sink.writer);
    file_writer_close(sink.writer);
    return error;
}

enum error onnx_graph_write(const struct onnx_graph *graph, int64_t version,
                            const struct safetensors_pair metadata[], size_t count,
                            const char *path)
{
    Onnx__Model model = ONNX__MODEL__INIT;
    Onnx__OperatorSet operators = ONNX__OPERATOR_SET__INIT, *operator_list[] = {&operators};
    Onnx__Entry *entries = array_new(count, sizeof(*entries), "metadata");
    Onnx__Entry **entry_list = array_new(count, sizeof(void *), "metadata");
    for (size_t i = 0; entries && entry_list && i < count; i++) {
        onnx__entry__init(&entries[i]);
        entries[i].key = (char *)metadata[i].key;
        entries[i].value = (char *)metadata[i].value;
        entry_list[i] = &entries[i];
    }
    operators.domain = (char[]){""};
    operators.has_version = model.has_ir_version = model.has_model_version = true;
    operators.version = ONNX_OPERATORS;
    model.ir_version = IR_VERSION;
    model.producer_name = (char[]){"tombola-trainer"};
    model.model_version = version;
    model.graph = (Onnx__Graph *)&graph->message;
    model.n_opset_import = 1;
    model.opset_import = operator_list;
    model.n_metadata_props = count;
    model.metadata_props = entry_list;
    enum error error = entries && entry_list ? write_file(&model, path) : ERROR_MEMORY;
    free(entries);
    free(entry_list);
    return error;
}
