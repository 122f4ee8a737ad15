/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/onnx/onnx_export: the graph of each kind of model, and what an export does without
 * memory, without room on the disk and for models that no file holds. What such a file computes
 * test_trainer_export.py asks onnxruntime.
 */
#include "tests/unit/folder_unit.h"

#include <signal.h>
#include <sys/resource.h>

#include "common/file.h"
#include "common/log.h"
#include "tests/unit/checkpoint_unit.h"
#include "tests/unit/failing_allocator.h"
#include "trainer/onnx/onnx.pb-c.h"
#include "trainer/onnx/onnx_export.h"
#include "trainer/onnx/onnx_graph.h"

static struct engine engine;
static struct checkpoint *checkpoint;
static char path[300];
static struct buffer whole; /* the file, as it must be */

/* ---- checkpoints --------------------------------------------------------- */

static void begin(const struct checkpoint_facts *facts)
{
    const struct engine_options options = {.device = "cpu", .blas = "plain", .threads = 1};
    struct model *model;
    char from[300];
    log_set_level((enum log_level)(LOG_ERROR + 1));
    snprintf(from, sizeof(from), "%s/model.safetensors", folder);
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    assert_ok(engine_open(&options, &engine));
    assert_ok(model_new(&facts->model, engine.kernel, &model));
    assert_ok(write_checkpoint(from, model, facts));
    model_free(model);
    assert_ok(checkpoint_open(from, &checkpoint));
}

static void end(void)
{
    checkpoint_close(checkpoint);
    engine_close(&engine);
    buffer_release(&whole);
}

static void read_file(struct buffer *ret_bytes)
{
    *ret_bytes = (struct buffer)BUFFER_INIT((int64_t)1 << 30);
    assert_ok(file_read_whole(path, ret_bytes));
}

static void begin_regression(void)
{
    struct checkpoint_facts facts = small_facts();
    facts.model.target_mean = 3;
    facts.model.target_deviation = 2;
    begin(&facts);
}

/* Of three classes, by so many features. */
static void begin_with(struct checkpoint_facts *facts, size_t features)
{
    static const char labels[] = "[0,5,10]";
    cJSON *json = NULL;
    facts->model.shape.features = features;
    if (facts->model.shape.kind != MODEL_LINEAR) {
        facts->model.shape.outputs = 3;
        facts->model.loss = LOSS_CLIPPED_SUM;
        assert_ok(json_parse(labels, sizeof(labels) - 1, "the labels", &json));
        assert_ok(classes_new(json, "the labels", &facts->classes));
        cJSON_Delete(json);
    }
    begin(facts);
    classes_free(facts->classes);
    feature_norm_release(&facts->norm);
}

static void begin_classifier(size_t features, size_t hidden)
{
    struct checkpoint_facts facts = small_facts();
    facts.model.shape =
        (struct model_shape){.kind = MODEL_MLP, .hidden = {hidden}, .hidden_count = 1};
    facts.feature_scale = 0.5F;
    assert_ok(feature_norm_init(&facts.norm, features));
    begin_with(&facts, features);
}

/* ---- tests --------------------------------------------------------------- */

static enum error export_it(void)
{
    return onnx_export(checkpoint, path);
}

/* ---- what the file holds ------------------------------------------------- */

struct form {
    enum model_kind kind;
    size_t hidden;
    float scale, deviation; /* of targets; 0: they are as they were */
    bool is_normalized;
    const char *operations; /* as they follow each other */
};

/* A name stands for one tensor of the size that it says. */
static const Onnx__Tensor *find_tensor(const Onnx__Graph *graph, const char *name)
{
    const Onnx__Tensor *found = NULL;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        if (strcmp(graph->initializer[i]->name, name) == 0) {
            assert_null(found);
            found = graph->initializer[i];
        }
    }
    assert_non_null(found);
    int64_t floats = found->dims[0] * (found->n_dims == 2 ? found->dims[1] : 1);
    assert_true(found->n_dims <= 2);
    assert_int_equal(found->raw_data.len, (size_t)floats * sizeof(float));
    return found;
}

/* Each node takes what the one before it gave, of as many columns, and constants of its own. */
static int64_t check_nodes(const Onnx__Graph *graph, const char *operations, int64_t columns)
{
    const char *latest = "features";
    char names[1000] = "";
    size_t tensors = 0;
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__Node *node = graph->node[i];
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i > 0 ? " " : "",
                 node->op_type);
        assert_string_equal(node->input[0], latest);
        assert_int_equal(node->n_output, 1);
        latest = node->output[0];
        for (size_t j = 1; j < node->n_input; j++, tensors++) {
            const Onnx__Tensor *tensor = find_tensor(graph, node->input[j]);
            assert_true(tensor->dims[0] == columns ||
                        (tensor->n_dims == 1 && tensor->dims[0] == 1));
            columns = tensor->n_dims == 2 ? tensor->dims[1] : columns;
        }
    }
    assert_string_equal(names, operations);
    assert_int_equal(tensors, graph->n_initializer);
    assert_string_equal(latest, graph->output[graph->n_output - 1]->name);
    return columns;
}

static void check_output(const Onnx__ValueInfo *output, const char *name, int64_t columns)
{
    const Onnx__Shape *shape = output->type->tensor_type->shape;
    assert_string_equal(output->name, name);
    assert_string_equal(shape->dim[0]->dim_param, "rows");
    assert_int_equal(shape->n_dim, columns > 0 ? 2 : 1);
    if (columns > 0)
        assert_int_equal(shape->dim[1]->dim_value, columns);
    assert_int_equal(output->type->tensor_type->elem_type,
                     columns > 0 ? ONNX__ELEMENT__FLOAT : ONNX__ELEMENT__INT64);
}

static void check_form(const struct form *form)
{
    struct checkpoint_facts facts = small_facts();
    facts.model.shape.kind = form->kind;
    facts.model.shape.hidden_count = form->hidden;
    for (size_t i = 0; i < form->hidden; i++)
        facts.model.shape.hidden[i] = 2 + i % 4;
    facts.feature_scale = form->scale;
    facts.model.target_deviation = form->deviation;
    if (form->is_normalized)
        assert_ok(feature_norm_init(&facts.norm, 5));
    begin_with(&facts, 5);
    assert_ok(onnx_export(checkpoint, path));
    read_file(&whole);
    Onnx__Model *model = onnx__model__unpack(NULL, whole.length, (const uint8_t *)whole.data);
    assert_non_null(model);
    const Onnx__Graph *graph = model->graph;
    check_output(graph->input[0], "features", 5);
    int64_t columns = check_nodes(graph, form->operations, 5);
    if (form->kind == MODEL_LINEAR) {
        assert_int_equal(graph->n_output, 1);
        check_output(graph->output[0], "prediction", columns);
    } else {
        assert_int_equal(graph->n_output, 2);
        check_output(graph->output[0], "probabilities", columns);
        check_output(graph->output[1], "class", 0);
    }
    assert_int_equal(columns, form->kind == MODEL_LINEAR ? 1 : 3);
    onnx__model__free_unpacked(model, NULL);
    end();
}

static void test_each_kind_of_model(void **state)
{
    static const struct form forms[] = {
        {.kind = MODEL_LINEAR, .scale = 1, .operations = "Gemm"},
        {.kind = MODEL_LINEAR, .scale = 1, .deviation = 2, .operations = "Gemm Mul Add"},
        {.kind = MODEL_LINEAR, .scale = 0.5F, .operations = "Mul Gemm"},
        {.kind = MODEL_SOFTMAX,
         .scale = 1,
         .is_normalized = true,
         .operations = "Sub Mul Gemm Softmax ArgMax"},
        {.kind = MODEL_MLP,
         .hidden = 2,
         .scale = 0.5F,
         .operations = "Mul Gemm Relu Gemm Relu Gemm Softmax ArgMax"},
        {.kind = MODEL_MLP,
         .hidden = MODEL_HIDDEN_LIMIT,
         .scale = 0.5F,
         .is_normalized = true,
         .operations = "Mul Sub Mul Gemm Relu Gemm Relu Gemm Relu Gemm Relu Gemm Relu Gemm Relu "
                       "Gemm Relu Gemm Relu Gemm Relu Gemm Relu Gemm Relu Gemm Relu Gemm Relu Gemm "
                       "Relu Gemm Relu Gemm Relu Gemm Softmax ArgMax"}};
    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        check_form(&forms[i]);
}

/* ---- what goes wrong ----------------------------------------------------- */

/* The file of before is there to the last byte. */
static void check(long nth, enum error error)
{
    struct buffer bytes;
    if (error && error != ERROR_MEMORY)
        fail_msg("allocation %ld failed and the answer was %d, %s", nth, error, error_message());
    read_file(&bytes);
    assert_int_equal(bytes.length, whole.length);
    assert_memory_equal(bytes.data, whole.data, whole.length);
    buffer_release(&bytes);
}

static void test_without_memory(void **state)
{
    (void)state;
    begin_regression();
    assert_ok(export_it());
    read_file(&whole);
    fail_each(export_it, check);
    end();
    begin_classifier(4, 2);
    assert_ok(export_it());
    read_file(&whole);
    fail_each(export_it, check);
    end();
}

/* At every megabyte of the file. */
static void test_without_room(void **state)
{
    struct rlimit limit, less;
    (void)state;
    begin_classifier(4000, 200);
    assert_ok(export_it());
    read_file(&whole);
    assert_true(whole.length > 3 << 20);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    for (less = limit, less.rlim_cur = 0; less.rlim_cur < whole.length; less.rlim_cur += 1 << 20) {
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
        enum error error = export_it();
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(error, ERROR_IO);
        check(0, OK);
    }
    end();
}

static void test_a_folder_that_is_not_there(void **state)
{
    (void)state;
    begin_regression();
    snprintf(path, sizeof(path), "%s/nowhere/model.onnx", folder);
    assert_int_equal(export_it(), ERROR_NOT_FOUND);
    end();
}

/* 4 GiB of weights, of which nothing is read. */
static void test_a_model_that_no_file_holds(void **state)
{
    static const float weights[1];
    struct onnx_graph *graph;
    (void)state;
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    assert_ok(onnx_graph_new("linear", "features", 1 << 20, &graph));
    onnx_graph_node(graph, "Gemm", onnx_graph_tensor(graph, "w", weights, 1 << 20, 1 << 10), NULL);
    onnx_graph_output(graph, "prediction", ONNX_FLOAT, 1 << 10);
    assert_fails(onnx_graph_write(graph, 1, NULL, 0, path), ERROR_INPUT,
                 "a single ONNX file holds at most 2147483647");
    onnx_graph_free(graph);
    assert_int_equal(access(path, F_OK), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

static const struct CMUnitTest tests[] = {
    TEST(test_each_kind_of_model),
    TEST(test_without_memory),
    TEST(test_without_room),
    TEST(test_a_folder_that_is_not_there),
    TEST(test_a_model_that_no_file_holds),
};

UNIT_MAIN(tests)
