/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/onnx/onnx_export: what an export does without memory, without room on the disk and
 * for models that no file holds. What such a file computes test_trainer_export.py asks onnxruntime.
 */
#include "tests/unit/folder_unit.h"

#include <signal.h>
#include <sys/resource.h>

#include "common/file.h"
#include "common/log.h"
#include "tests/unit/checkpoint_unit.h"
#include "tests/unit/failing_allocator.h"
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

static void begin_classifier(size_t features, size_t hidden)
{
    static const char labels[] = "[0,5,10]";
    cJSON *json = NULL;
    struct checkpoint_facts facts = small_facts();
    facts.model.shape = (struct model_shape){.kind = MODEL_MLP,
                                             .features = features,
                                             .outputs = 3,
                                             .hidden = {hidden},
                                             .hidden_count = 1};
    facts.model.loss = LOSS_CLIPPED_SUM;
    facts.feature_scale = 0.5F;
    assert_ok(json_parse(labels, sizeof(labels) - 1, "the labels", &json));
    assert_ok(classes_new(json, "the labels", &facts.classes));
    cJSON_Delete(json);
    assert_ok(feature_norm_init(&facts.norm, features));
    begin(&facts);
    classes_free(facts.classes);
    feature_norm_release(&facts.norm);
}

/* ---- tests --------------------------------------------------------------- */

static enum error export_it(void)
{
    return onnx_export(checkpoint, path);
}

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
                 "an ONNX file without others beside it holds 2147483647");
    onnx_graph_free(graph);
    assert_int_equal(access(path, F_OK), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

static const struct CMUnitTest tests[] = {
    TEST(test_without_memory),
    TEST(test_without_room),
    TEST(test_a_folder_that_is_not_there),
    TEST(test_a_model_that_no_file_holds),
};

UNIT_MAIN(tests)
