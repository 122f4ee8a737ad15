/* SPDX-License-Identifier: MIT */
/* Covers trainer/model/feature_input: rows of every source; trainer/model/feature_norm. */
#include "tests/unit/kernel_unit.h"

#include "trainer/model/feature_input.h"

#define ROWS 3

static const char *const abc[] = {"a", "b", "c"}, *const shuffled[] = {"z", "c", "a", "b"};
static const float raw[ROWS * 4] = {9, 3, 1, 2, 9, 6, 4, 5, 9, 9, 7, 8}; /* z c a b */

static struct engine engine;
static struct feature_names names;
static struct feature_norm norm;
static struct feature_input_options options;

static void open_all(void **state)
{
    struct store_info info = {.uri = "csv:abc.csv", .features = 3, .feature_names = abc};
    open_kernel(state);
    engine = (struct engine){.device = device, .queue = queue, .kernel = kernel};
    assert_ok(feature_names_init(&names, &info));
    norm = (struct feature_norm){.features = 0};
    options = (struct feature_input_options){
        .called = "model.ckpt", .features = 3, .names = &names, .norm = &norm, .scale = 0.5f};
}

static void close_all(void)
{
    feature_names_release(&names);
    feature_norm_release(&norm);
    close_kernel();
}

/* What becomes of `raw`, or of it as bytes, must be `wanted`. */
static void check(const struct store_info *info, enum feature_source source,
                  const float wanted[ROWS * 3])
{
    struct feature_input *input;
    uint8_t bytes[ROWS * 4];
    float found[ROWS * 3];
    const float *values;
    void *there = NULL;
    bool is_bytes = info->element == ELEMENT_U8 && source != FEATURES_FROM_FEED;
    size_t count = ROWS * info->features, size = count * (is_bytes ? 1 : sizeof(float));
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)raw[i];
    const void *from = is_bytes ? (const void *)bytes : raw;
    assert_ok(feature_input_new(&engine, &options, info, source, ROWS, &input));
    if (source != FEATURES_ON_HOST) {
        assert_ok(device_memory_new(device, size, &there));
        assert_ok(device_copy_in(device, queue, there, from, size));
        from = there;
    }
    assert_ok(feature_input_take(input, from, ROWS, &values));
    assert_ok(device_copy_out(device, queue, found, values, sizeof(found)));
    assert_ok(device_queue_wait(device, queue));
    assert_memory_equal(found, wanted, sizeof(found));
    device_memory_free(device, there);
    feature_input_free(input);
}

static void test_columns_are_found_scaled_and_normalized(void **state)
{
    static const float halves[ROWS * 3] = {0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f, 4, 4.5f};
    static const float whole[ROWS * 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const float normal[ROWS * 3] = {0.5f, 0, 1.5f, 2, 6, 3, 3.5f, 12, 4.5f};
    open_all(state);
    struct store_info info = {.uri = "csv:x.csv", .features = 4, .feature_names = shuffled};
    for (int element = 0; element < 2; element++) {
        info.element = element ? ELEMENT_F32 : ELEMENT_U8;
        check(&info, FEATURES_ON_HOST, halves);
        check(&info, FEATURES_ON_DEVICE, halves);
        check(&info, FEATURES_FROM_FEED, element ? halves : whole); /* the feed scaled bytes */
    }
    assert_ok(feature_norm_init(&norm, 3));
    norm.mean[1] = 1;
    norm.deviation[1] = 0.25f;
    check(&info, FEATURES_ON_HOST, normal);
    close_all();
}

/* As a model that was trained on MNIST gets its rows: where nothing is to do, nothing is done. */
static void test_what_comes_right_is_passed_on(void **state)
{
    open_all(state);
    struct store_info info = {
        .uri = "csv:x.csv", .features = 3, .element = ELEMENT_U8, .feature_names = abc};
    struct feature_input *input;
    const float *values = NULL;
    assert_ok(feature_input_new(&engine, &options, &info, FEATURES_FROM_FEED, ROWS, &input));
    assert_ok(feature_input_take(input, raw, ROWS, &values));
    assert_ptr_equal(values, raw);
    feature_input_free(input);
    close_all();
}

static void test_stores_without_the_columns_are_refused(void **state)
{
    static const char *const two[] = {"p0", "p1"}, *const four[] = {"p0", "p1", "p2", "p3"};
    open_all(state);
    struct feature_input *input = NULL;
    struct store_info info = {.uri = "csv:x.csv", .features = 2, .feature_names = two};
    assert_fails(feature_input_check(&options, &info), ERROR_INPUT,
                 "csv:x.csv has 2 features, the model of model.ckpt takes 3");
    assert_fails(feature_input_new(&engine, &options, &info, FEATURES_ON_HOST, ROWS, &input),
                 ERROR_INPUT, "takes 3");
    info = (struct store_info){.uri = "csv:x.csv", .features = 4, .feature_names = four};
    assert_fails(feature_input_check(&options, &info), ERROR_INPUT,
                 "takes 3; if one of its columns is the label, the URI lacks label=COLUMN");
    info = (struct store_info){.uri = "csv:x.csv", .features = 3, .feature_names = shuffled};
    assert_fails(feature_input_check(&options, &info), ERROR_CONFLICT, "has no column \"b\"");
    info = (struct store_info){
        .uri = "csv:x.csv", .features = 3, .element = ELEMENT_I32, .feature_names = abc};
    assert_fails(feature_input_check(&options, &info), ERROR_INPUT,
                 "csv:x.csv has features that are 32-bit integers, and the models here take bytes");
    close_all();
}

static const struct CMUnitTest tests[] = {
    ON_EACH_DEVICE(test_columns_are_found_scaled_and_normalized),
    ON_EACH_DEVICE(test_what_comes_right_is_passed_on),
    ON_EACH_DEVICE(test_stores_without_the_columns_are_refused),
};

UNIT_MAIN(tests)
