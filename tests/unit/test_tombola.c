/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/tombola: libtombola as its users see it: linked against the library and nothing
 * else of ours.
 */
#include "tests/unit/fake_sampler.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/tombola.h"

#define FEATURES 5

static char folder[256], uri[512];

static int make_store(void **state)
{
    (void)state;
    unit_folder_make(folder);
    snprintf(uri, sizeof(uri), "%s/rows.csv", folder);
    FILE *file = fopen(uri, "w");
    assert_non_null(file);
    fputs("a,b,label,c,d,e\n", file);
    for (int row = 0; row < 250; row++)
        fprintf(file, "%d,%d,%s,%d,%d,%d\n", row, 255 - row, row % 2 ? "odd" : "even", row, 0, 9);
    assert_int_equal(fclose(file), 0);
    snprintf(uri, sizeof(uri), "csv:%s/rows.csv?label=label", folder);
    return 0;
}

static int remove_store(void **state)
{
    (void)state;
    unit_folder_remove(folder);
    return 0;
}

static struct tombola_options options_for(const struct fake_sampler *sampler)
{
    return (struct tombola_options){.struct_bytes = sizeof(struct tombola_options),
                                    .sampler_url = sampler->url,
                                    .store_uri = uri,
                                    .pull = TOMBOLA_DRAW};
}

static void assert_refused(int status, int right, const char *text)
{
    assert_int_equal(status, right);
    if (!strstr(tombola_error_message(), text))
        fail_msg("message \"%s\" does not hold \"%s\"", tombola_error_message(), text);
}

static void check_rows(const struct fake_sampler *sampler, const struct tombola_batch *batch)
{
    const float *features = batch->features;
    for (size_t i = 0; i < batch->rows; i++) {
        int64_t id = fake_id(sampler, batch->first + (int64_t)i);
        assert_int_equal(batch->ids[i], id);
        assert_true(batch->labels[i] == (double)(id % 2)); /* "even" sorts before "odd" */
        assert_true(features[i * FEATURES] == (float)id * (1.0f / 255));
        assert_true(features[i * FEATURES + 1] == (float)(255 - id) * (1.0f / 255));
        assert_true(features[i * FEATURES + 4] == 9 * (1.0f / 255));
    }
}

static void test_an_epoch(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250, .epochs = 2};
    struct tombola_feed *feed;
    const struct tombola_batch *batch;
    int64_t rows = 0;
    int status;
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler);
    options.pull = TOMBOLA_INDEX;
    options.expand = 1;
    options.cache_bytes = 1 << 20;
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    while ((status = tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch)) == TOMBOLA_OK) {
        assert_int_equal(batch->first, rows);
        check_rows(&sampler, batch);
        rows += (int64_t)batch->rows;
        /* On the CPU the stream is ignored, whatever it is. */
        assert_int_equal(tombola_feed_put(feed, &sampler, batch), TOMBOLA_OK);
    }
    assert_int_equal(status, TOMBOLA_END);
    assert_int_equal(rows, 500);
    struct tombola_stats stats;
    tombola_feed_stats(feed, &stats, sizeof(stats));
    assert_int_equal(stats.batches, 6); /* 100, 100, 50 twice: 100 is the default */
    assert_int_equal(stats.rows, 500);
    assert_int_equal(stats.bytes, 500 * FEATURES * 4);
    tombola_feed_close(feed);
    fake_stop(&sampler);
}

#define PAIR(first, second) "{\"label\":\"" first "\"},{\"label\":\"" second "\"}"
#define LABELS(pair) "{\"labels\":[" pair "," pair "," pair "," pair "," pair "]}"

/* What comes first from a sampler that says these ten labels. */
static int first_batch(const char *labels, int trust_labels)
{
    struct fake_sampler sampler = {.units = 250, .epochs = 1, .labels = labels};
    struct tombola_feed *feed;
    const struct tombola_batch *batch;
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler);
    options.trust_labels = trust_labels;
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    int status = tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch);
    if (!status)
        assert_int_equal(tombola_feed_put(feed, NULL, batch), TOMBOLA_OK);
    tombola_feed_close(feed);
    fake_stop(&sampler);
    return status;
}

static void test_labels_are_compared_unless_they_are_trusted(void **state)
{
    (void)state;
    static const char right[] = LABELS(PAIR("even", "odd")), wrong[] = LABELS(PAIR("odd", "even"));
    assert_int_equal(first_batch(right, 0), TOMBOLA_OK);
    assert_refused(first_batch(wrong, 0), TOMBOLA_INPUT, "the sampler says its label is");
    assert_int_equal(first_batch(wrong, 1), TOMBOLA_OK);
}

static void test_a_feed_of_one_batch(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250};
    struct tombola_feed *feed;
    const struct tombola_batch *batch;
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler);
    options.batches = 1;
    options.expand = 1;
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    assert_int_equal(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_OK);
    check_rows(&sampler, batch);
    assert_int_equal(tombola_feed_put(feed, NULL, batch), TOMBOLA_OK);
    assert_int_equal(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_END);
    tombola_feed_close(feed);
    fake_stop(&sampler);
}

/* What is asked for besides the features as they are. */
static void test_features_and_labels_as_they_are_asked_for(void **state)
{
    static const float mean[FEATURES] = {1, 2, 3, 4, 5}, deviation[FEATURES] = {2, 4, 8, 16, 32};
    struct fake_sampler sampler = {.units = 250, .epochs = 1};
    struct tombola_feed *feed;
    const struct tombola_batch *batch;
    struct tombola_batch *copies[3] = {NULL, NULL, NULL};
    struct tombola_description description;
    (void)state;
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler);
    options.labels = TOMBOLA_LABELS_BY_KIND;
    options.channels = FEATURES;
    options.mean = mean;
    options.deviation = deviation;
    options.scale = 2;
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    tombola_feed_describe(feed, &description, sizeof(description));
    assert_int_equal(description.element, TOMBOLA_F32);
    assert_int_equal(description.labels, TOMBOLA_LABELS_I64);
    assert_int_equal(description.dimensions, 1);
    assert_int_equal(description.shape[0], FEATURES);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_OK);
        assert_int_equal(tombola_batch_copy(feed, NULL, batch, &copies[i]), TOMBOLA_OK);
        assert_int_equal(tombola_feed_put(feed, NULL, batch), TOMBOLA_OK);
        assert_refused(tombola_batch_copy(feed, NULL, batch, &copies[i]), TOMBOLA_USAGE,
                       "tombola_batch_copy: ");
    }
    assert_int_equal(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_END);
    tombola_feed_close(feed);
    for (size_t i = 0; i < 3; i++) {
        for (size_t row = 0; row < copies[i]->rows; row++) {
            int64_t id = fake_id(&sampler, copies[i]->first + (int64_t)row);
            const float *x = (const float *)copies[i]->features + row * FEATURES;
            assert_int_equal(copies[i]->ids[row], id);
            assert_true(copies[i]->labels[row] == (double)(id % 2));
            assert_int_equal(((const int64_t *)copies[i]->device_labels)[row], id % 2);
            assert_true(x[0] == ((float)id * 2 - 1) / 2 && x[4] == (9.0f * 2 - 5) / 32);
        }
        tombola_batch_free(copies[i]);
    }
    tombola_batch_free(NULL);
    fake_stop(&sampler);
}

/* A store with weights, groups and ids of its own: what batches and copies of them say. */
static void test_weights_and_groups(void **state)
{
    struct fake_sampler sampler = {.units = 250, .epochs = 1};
    struct tombola_feed *feed;
    const struct tombola_batch *batch;
    struct tombola_batch *copy;
    struct tombola_description description;
    char path[512], named[1024];
    (void)state;
    snprintf(path, sizeof(path), "%s/weighted.csv", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("id,a,w,label,who,n\n", file);
    for (int row = 249; row >= 0; row--)
        fprintf(file, "%d,%d,%d.5,%s,p%d,%d\n", row, row, row, row % 2 ? "odd" : "even", row % 11,
                row % 5 - 2);
    assert_int_equal(fclose(file), 0);
    fake_start(&sampler);
    for (int form = 1; form <= 2; form++) {
        struct tombola_options options = options_for(&sampler);
        snprintf(named, sizeof(named), "csv:%s?weight=w&group=%s&features=a", path,
                 form == 1 ? "who" : "n");
        options.pull = TOMBOLA_INDEX;
        options.store_uri = named;
        options.weights = form;
        options.groups = 1;
        assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
        tombola_feed_describe(feed, &description, sizeof(description));
        assert_int_equal(description.weights, form);
        assert_int_equal(description.groups, 1);
        assert_int_equal(description.group_text_count, form == 1 ? 11 : 0);
        if (form == 1)
            assert_string_equal(description.group_texts[2], "p10"); /* sorted by bytes */
        else
            assert_null(description.group_texts);
        for (int64_t rows = 0; rows < 250; rows += (int64_t)copy->rows, tombola_batch_free(copy)) {
            assert_int_equal(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_OK);
            assert_ptr_equal(batch->device_weights, batch->weights);
            assert_ptr_equal(batch->device_groups, batch->groups);
            assert_int_equal(tombola_batch_copy(feed, NULL, batch, &copy), TOMBOLA_OK);
            assert_int_equal(tombola_feed_put(feed, NULL, batch), TOMBOLA_OK);
            for (size_t i = 0; i < copy->rows; i++) {
                int64_t id = copy->ids[i];
                char who[16];
                snprintf(who, sizeof(who), "p%d", (int)(id % 11));
                double weight = form == 1 ? (double)((const float *)copy->weights)[i]
                                          : ((const double *)copy->device_weights)[i];
                assert_true(weight == (double)id + 0.5);
                if (form == 1)
                    assert_string_equal(description.group_texts[copy->groups[i]], who);
                else
                    assert_int_equal(copy->groups[i], id % 5 - 2);
            }
        }
        tombola_feed_close(feed);
    }
    struct tombola_options options = options_for(&sampler);
    options.weights = 1;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "no column of weights");
    options.weights = 0;
    options.groups = 1;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "group=NAME in the URI");
    options.weights = 3;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "weights is 3");
    fake_stop(&sampler);
}

/* A store of one feature whose labels are given by their number, with `count` of them in turn. */
static void write_labels(const char *const *labels, size_t count, char *named, size_t named_bytes)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/labels.csv", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("a,label\n", file);
    for (size_t row = 0; row < 250; row++)
        fprintf(file, "1,%s\n", labels[row % count]);
    assert_int_equal(fclose(file), 0);
    snprintf(named, named_bytes, "csv:%s", path);
}

/* In batches and in copies of them: row `id` has its one at `codes[id % count]`. */
static void check_one_hot(const struct tombola_options *options, const size_t *codes, size_t count,
                          size_t classes)
{
    struct tombola_feed *feed;
    const struct tombola_batch *batch;
    struct tombola_batch *copy;
    struct tombola_description description;
    assert_int_equal(tombola_feed_open(options, &feed), TOMBOLA_OK);
    tombola_feed_describe(feed, &description, sizeof(description));
    assert_int_equal(description.labels, options->labels);
    assert_int_equal(description.classes, classes);
    for (size_t rows = 0; rows < 250; rows += copy->rows, tombola_batch_free(copy)) {
        assert_int_equal(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_OK);
        assert_int_equal(tombola_batch_copy(feed, NULL, batch, &copy), TOMBOLA_OK);
        size_t bytes =
            batch->rows * classes * (options->labels == TOMBOLA_LABELS_ONE_HOT_U8 ? 1 : 4);
        assert_memory_equal(copy->device_labels, batch->device_labels, bytes);
        for (size_t i = 0; i < batch->rows * classes; i++) {
            bool hot = i % classes == codes[(size_t)batch->ids[i / classes] % count];
            if (options->labels == TOMBOLA_LABELS_ONE_HOT_U8)
                assert_int_equal(((const uint8_t *)batch->device_labels)[i], hot);
            else
                assert_true(((const float *)batch->device_labels)[i] == (hot ? 1.0f : 0.0f));
        }
        assert_int_equal(tombola_feed_put(feed, NULL, batch), TOMBOLA_OK);
    }
    tombola_feed_close(feed);
}

static void test_one_hot_labels(void **state)
{
    static const char *const integers[] = {"3", "0", "6"}, *const texts[] = {"ox", "ant", "cat"};
    static const size_t integer_codes[] = {3, 0, 6}, text_codes[] = {2, 0, 1};
    char named[1024];
    (void)state;
    for (int form = TOMBOLA_LABELS_ONE_HOT_F32; form <= TOMBOLA_LABELS_ONE_HOT_U8; form++) {
        struct fake_sampler sampler = {.units = 250, .epochs = 1};
        fake_start(&sampler);
        struct tombola_options options = options_for(&sampler);
        options.store_uri = named;
        options.trust_labels = 1;
        options.pull = TOMBOLA_INDEX;
        options.labels = form;
        options.classes = 0;
        write_labels(integers, 3, named, sizeof(named));
        check_one_hot(&options, integer_codes, 3, 7);
        options.classes = 20;
        check_one_hot(&options, integer_codes, 3, 20);
        options.classes = 0;
        write_labels(texts, 3, named, sizeof(named));
        check_one_hot(&options, text_codes, 3, 3);
        options.classes = 4;
        check_one_hot(&options, text_codes, 3, 4);
        fake_stop(&sampler);
    }
}

static void refuse_one_hot(const struct fake_sampler *sampler, const char *label, size_t classes,
                           const char *says)
{
    const char *labels[] = {"1", label};
    char named[1024];
    struct tombola_feed *feed = NULL;
    struct tombola_options options = options_for(sampler);
    write_labels(labels, 2, named, sizeof(named));
    options.store_uri = named;
    options.labels = TOMBOLA_LABELS_ONE_HOT_F32;
    options.classes = classes;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, says);
}

static void test_labels_that_are_no_codes(void **state)
{
    static const char *const labels[] = {"0", "3"};
    struct fake_sampler sampler = {.units = 250, .epochs = 1};
    struct tombola_feed *feed;
    const struct tombola_batch *batch;
    char named[1024];
    int status = TOMBOLA_OK;
    (void)state;
    fake_start(&sampler);
    refuse_one_hot(&sampler, "-4", 0, "a label is -4; integers from 0 on are codes");
    refuse_one_hot(&sampler, "1048576", 0, "a label is 1048576; integers from 0 to 1048575");
    refuse_one_hot(&sampler, "0.5", 0, "whose labels are real numbers");
    refuse_one_hot(&sampler, "0.5", 3, "whose labels are real numbers");
    refuse_one_hot(&sampler, "ox", 1, "1 classes, but ");
    refuse_one_hot(&sampler, "3", 1048577, "of 1048577 classes; at most 1048576");
    struct tombola_options options = options_for(&sampler);
    options.labels = TOMBOLA_LABELS_ONE_HOT_U8;
    options.store_uri = named;
    snprintf(named, sizeof(named), "csv:%s/labels.csv?label=", folder);
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "which has no labels");
    write_labels(labels, 2, named, sizeof(named));
    options.classes = 3;
    options.trust_labels = 1;
    options.pull = TOMBOLA_INDEX;
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    while (!(status = tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch)))
        assert_int_equal(tombola_feed_put(feed, NULL, batch), TOMBOLA_OK);
    assert_refused(status, TOMBOLA_INPUT,
                   "has the label 3, which is not one of the codes of 3 classes, 0 to 2");
    tombola_feed_close(feed);
    fake_stop(&sampler);
}

static void test_description(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250};
    struct tombola_feed *feed;
    struct tombola_description description, cut;
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler);
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    tombola_feed_describe(feed, &description, sizeof(description));
    assert_int_equal(description.rows, 250);
    assert_int_equal(description.features, FEATURES);
    assert_int_equal(description.element, TOMBOLA_U8);
    assert_int_equal(description.label_kind, TOMBOLA_LABEL_TEXT);
    assert_int_equal(description.device_is_cuda, 0);
    assert_string_equal(description.device, "CPU");
    assert_string_equal(description.feature_names[2], "c");
    assert_int_equal(description.label_text_count, 2);
    assert_string_equal(description.label_texts[1], "odd");
    memset(&cut, 0x5a, sizeof(cut)); /* a caller with an older header */
    tombola_feed_describe(feed, &cut, offsetof(struct tombola_description, element));
    assert_int_equal(cut.features, FEATURES);
    assert_int_equal(cut.element, 0x5a5a5a5a);
    tombola_feed_close(feed);
    fake_stop(&sampler);
}

static void test_close_with_batches_out(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250};
    struct tombola_feed *feed;
    const struct tombola_batch *batches[3];
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler);
    options.batch_rows = 7;
    options.expand = 1;
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batches[i]), TOMBOLA_OK);
    tombola_feed_close(feed);
    for (size_t i = 3; i-- > 0;) {
        check_rows(&sampler, batches[i]);
        assert_int_equal(tombola_feed_put(feed, NULL, batches[i]), TOMBOLA_OK);
    }
    tombola_feed_close(NULL);
    fake_stop(&sampler);
}

/* ---- a GPU that fails ---------------------------------------------------- */

static void open_emulated(struct fake_sampler *sampler, const struct tombola_options *options,
                          struct tombola_feed **ret_feed)
{
    struct tombola_description description = {.device = ""};
    int status = tombola_feed_open(options, ret_feed);
    if (status != TOMBOLA_UNAVAILABLE) {
        assert_int_equal(status, TOMBOLA_OK);
        tombola_feed_describe(*ret_feed, &description, sizeof(description));
    }
    if (strstr(description.device, "emulated"))
        return;
    if (!status)
        tombola_feed_close(*ret_feed);
    fake_stop(sampler);
    print_message("# skipped: no emulated GPU\n");
    skip();
}

/* The CUDA call of this number in the put of a feed's only batch fails; true: so did the put. The
 * batch is back, was not trained, and nothing comes after it. */
static bool put_with_failing_call(struct fake_sampler *sampler, int pull, int call)
{
    struct tombola_feed *feed;
    const struct tombola_batch *batch;
    const char *text;
    char plan[32], state[4096] = "";
    struct tombola_options options = options_for(sampler);
    options.device = "cuda";
    options.pull = pull;
    options.batches = 1;
    open_emulated(sampler, &options, &feed);
    assert_int_equal(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_OK);
    if (pull == TOMBOLA_INDEX) {
        assert_int_equal(tombola_feed_state(feed, &text), TOMBOLA_OK);
        snprintf(state, sizeof(state), "%s", text);
    }
    snprintf(plan, sizeof(plan), "call:%d", call);
    setenv("EMULATED_GPU_FAILS", plan, 1);
    int status = tombola_feed_put(feed, NULL, batch);
    unsetenv("EMULATED_GPU_FAILS");
    if (status) {
        assert_refused(status, TOMBOLA_IO, "cuda:0");
        assert_refused(tombola_feed_put(feed, NULL, batch), TOMBOLA_USAGE, "not out");
        assert_refused(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_IO,
                       "cuda:0");
    }
    if (pull == TOMBOLA_INDEX) {
        assert_int_equal(tombola_feed_state(feed, &text), TOMBOLA_OK);
        assert_int_equal(strcmp(text, state) == 0, status != TOMBOLA_OK);
    }
    tombola_feed_close(feed);
    return status != TOMBOLA_OK;
}

/* The emulated GPU ends a program that leaves memory, streams or events. */
static void test_a_failed_put_on_an_emulated_GPU(void **state)
{
    (void)state;
    static const int pulls[] = {TOMBOLA_LEASE, TOMBOLA_INDEX, TOMBOLA_DRAW};
    for (size_t i = 0; i < sizeof(pulls) / sizeof(pulls[0]); i++) {
        int failed = 0;
        for (int call = 1; call < 8; call++) {
            struct fake_sampler sampler = {.units = 250};
            fake_start(&sampler);
            bool fails = put_with_failing_call(&sampler, pulls[i], call);
            if (fails)
                assert_int_equal(atomic_load(&sampler.acked), 0);
            failed += fails;
            fake_stop(&sampler);
        }
        assert_true(failed > 0);
    }
}

static enum fake_answer stay_silent(int64_t request, void *context)
{
    (void)request;
    (void)context;
    return FAKE_SILENT;
}

static void test_a_wait_ends_in_time_and_when_interrupted(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250, .script = stay_silent};
    struct tombola_feed *feed;
    const struct tombola_batch *batch = NULL;
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler);
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    assert_refused(tombola_feed_next(feed, NULL, 0, &batch), TOMBOLA_NOT_YET, "no batch was ready");
    assert_refused(tombola_feed_next(feed, NULL, 5, &batch), TOMBOLA_NOT_YET, "no batch was ready");
    tombola_feed_interrupt(feed);
    assert_refused(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_CANCELLED,
                   "interrupted");
    assert_null(batch);
    tombola_feed_interrupt(NULL);
    tombola_feed_close(feed);
    fake_stop(&sampler);
}

/* ---- batches that another thread puts back ------------------------------ */

struct handover {
    struct tombola_feed *feed;
    int descriptors[2]; /* a pipe of batches */
};

static void *put_back(void *context)
{
    const struct handover *handover = context;
    const struct tombola_batch *batch;
    while (read(handover->descriptors[0], &batch, sizeof(batch)) == sizeof(batch))
        if (tombola_feed_put(handover->feed, NULL, batch))
            abort();
    return NULL;
}

/* The last of them after the feed was closed. */
static void test_batches_are_put_back_from_any_thread(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250, .epochs = 1};
    struct handover handover;
    pthread_t threads[2];
    const struct tombola_batch *batch;
    int64_t rows = 0;
    int status = TOMBOLA_OK;
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler);
    options.batch_rows = 2;
    options.expand = 1;
    assert_int_equal(tombola_feed_open(&options, &handover.feed), TOMBOLA_OK);
    assert_int_equal(pipe(handover.descriptors), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_back, &handover), 0);
    while (status != TOMBOLA_END) {
        status = tombola_feed_next(handover.feed, NULL, 1, &batch);
        if (status)
            continue; /* all are out, or none is ready: it is asked again */
        check_rows(&sampler, batch);
        rows += (int64_t)batch->rows;
        assert_int_equal(write(handover.descriptors[1], &batch, sizeof(batch)), sizeof(batch));
    }
    assert_int_equal(rows, 250);
    tombola_feed_close(handover.feed);
    close(handover.descriptors[1]);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    close(handover.descriptors[0]);
    fake_stop(&sampler);
}

static void test_refusals(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250, .port = 1, .url = "http://127.0.0.1:1"};
    struct tombola_feed *feed;
    struct tombola_options options = options_for(&sampler);
    struct {
        struct tombola_options options;
        char more[8];
    } newer = {.options = options};
    assert_refused(tombola_feed_open(NULL, &feed), TOMBOLA_USAGE, "struct_bytes is 0");
    assert_refused(tombola_feed_open(&options, NULL), TOMBOLA_USAGE, "ret_feed is NULL");
    options.struct_bytes = 0;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "struct_bytes is 0");
    options.struct_bytes = 8;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "struct_bytes is 8");
    options = options_for(&sampler);
    options.sampler_url = NULL;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "sampler_url");
    options = options_for(&sampler);
    options.store_uri = NULL;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "store_uri");
    options = options_for(&sampler);
    options.pull = 7;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "pull is 7");
    options = options_for(&sampler);
    char texts[600];
    snprintf(texts, sizeof(texts), "csv:%s/rows.csv?label=a&features=label,b", folder);
    options.store_uri = texts;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_INPUT, "no row of the store");
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_INPUT,
                   "column \"label\" is \"even\"");
    options.bad_rows = TOMBOLA_BAD_ROWS_REPLACE;
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    tombola_feed_close(feed);
    options = options_for(&sampler);
    options.bad_rows = -1;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "bad_rows is -1");
    options = options_for(&sampler);
    options.batches = -1;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "batches is -1");
    options = options_for(&sampler);
    options.scale = NAN;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "scale is nan");
    options.scale = -INFINITY;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "scale is -inf");
    options = options_for(&sampler);
    options.pull = TOMBOLA_LEASE;
    options.first_index = 5;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE,
                   "first_index is for TOMBOLA_INDEX");
    options = options_for(&sampler);
    options.labels = 7;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "labels is 7");
    options.labels = TOMBOLA_LABELS_F32;
    options.classes = 10;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE,
                   "10 classes are given for labels that are not one-hot");
    options = options_for(&sampler);
    options.channels = 2;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "of 2 channels; a row has 5");
    options.channels = 1;
    options.mean = &(const float){NAN};
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "mean 0 is nan");
    options.mean = NULL;
    options.deviation = &(const float){0};
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "deviation 0 is 0");
    options.channels = 0;
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "of 0 channels");
    options = options_for(&sampler);
    options.store_uri = "/nowhere/at/all.csv";
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_NOT_FOUND, "/nowhere/at/all.csv");
    options = options_for(&sampler);
    options.device = "abacus";
    assert_refused(tombola_feed_open(&options, &feed), TOMBOLA_USAGE, "abacus");
    newer.options.struct_bytes = sizeof(newer);
    newer.more[3] = 1;
    assert_refused(tombola_feed_open(&newer.options, &feed), TOMBOLA_USAGE, "more than this");
    newer.more[3] = 0;
    newer.options.store_uri = "/nowhere/at/all.csv"; /* all there is to refuse */
    assert_refused(tombola_feed_open(&newer.options, &feed), TOMBOLA_NOT_FOUND, "all.csv");
}

/* What comes at the wrong time is refused, and all goes on. */
static void test_wrong_calls(void **state)
{
    struct fake_sampler sampler = {.units = 250, .epochs = 1}, second = {.units = 250, .epochs = 1};
    struct tombola_feed *feed = NULL, *other = NULL;
    const struct tombola_batch *batch, *theirs;
    struct tombola_batch copy;
    struct tombola_description description = {.rows = 1};
    struct tombola_stats stats = {.rows = 1};
    size_t rows = 0;
    (void)state;
    fake_start(&sampler);
    fake_start(&second);
    struct tombola_options options = options_for(&sampler), others = options_for(&second);
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    assert_int_equal(tombola_feed_open(&others, &other), TOMBOLA_OK);
    assert_refused(tombola_feed_put(feed, NULL, NULL), TOMBOLA_USAGE, "tombola_feed_put: ");
    assert_refused(tombola_feed_put(feed, NULL, NULL), TOMBOLA_USAGE, "not one that this feed");
    assert_int_equal(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_OK);
    assert_int_equal(tombola_feed_next(other, NULL, TOMBOLA_FOREVER, &theirs), TOMBOLA_OK);
    copy = *batch;
    assert_refused(tombola_feed_put(feed, NULL, &copy), TOMBOLA_USAGE, "not one that this feed");
    assert_refused(tombola_feed_put(feed, NULL, theirs), TOMBOLA_USAGE, "not one that this feed");
    assert_refused(
        tombola_feed_put(feed, NULL, (const void *)((const char *)batch + sizeof(size_t))),
        TOMBOLA_USAGE, "not one that this feed");
    assert_refused(tombola_feed_put(NULL, NULL, batch), TOMBOLA_USAGE, "the feed is NULL");
    assert_refused(tombola_feed_settle(NULL, batch, 1), TOMBOLA_USAGE, "the feed is NULL");
    assert_refused(tombola_feed_settle(feed, theirs, 1), TOMBOLA_USAGE, "not one that this feed");
    assert_refused(tombola_feed_next(NULL, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_USAGE,
                   "the feed is NULL");
    assert_refused(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, NULL), TOMBOLA_USAGE,
                   "ret_batch is NULL");
    tombola_feed_describe(NULL, &description, sizeof(description));
    tombola_feed_stats(NULL, &stats, sizeof(stats));
    assert_int_equal(description.rows + stats.rows, 0);
    for (int status = TOMBOLA_OK; !status;
         status = tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch)) {
        rows += batch->rows;
        assert_int_equal(tombola_feed_settle(feed, batch, 1), TOMBOLA_OK);
        assert_int_equal(tombola_feed_settle(feed, batch, 0), TOMBOLA_OK);
        assert_int_equal(tombola_feed_put(feed, NULL, batch), TOMBOLA_OK);
        assert_refused(tombola_feed_put(feed, NULL, batch), TOMBOLA_USAGE, "is not out");
        assert_refused(tombola_feed_settle(feed, batch, 1), TOMBOLA_USAGE, "is not out");
    }
    assert_int_equal(rows, 250);
    assert_int_equal(tombola_feed_put(other, NULL, theirs), TOMBOLA_OK);
    tombola_feed_close(feed);
    tombola_feed_close(other);
    fake_stop(&sampler);
    fake_stop(&second);
}

/* LeakSanitizer asks at exit. What only the parent's threads held is lost to a child, which has none
 * of them: libcurl's memory, if the fork came while a header was read. */
static bool is_child;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_child;
}

/* As DataLoader's workers come to be. The child's calls say what is wrong, a feed of its own works,
 * and it exits as programs do; the parent's feed goes on. */
static void use_in_child(const struct fake_sampler *sampler, struct tombola_feed *feed,
                         const struct tombola_batch *batch)
{
    struct tombola_options options = options_for(sampler);
    struct tombola_feed *own = NULL;
    struct tombola_stats stats;
    options.expand = 1;
    assert_refused(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_USAGE,
                   "tombola_feed_next: this process was forked after the feed was opened");
    assert_refused(tombola_feed_put(feed, NULL, batch), TOMBOLA_USAGE,
                   "tombola_feed_put: this process");
    tombola_feed_stats(feed, &stats, sizeof(stats));
    tombola_feed_close(feed);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    /* The one ends a child that starts threads; to the other's allocator a lock that a thread of
     * the parent held at the fork is locked in the child for ever. */
    (void)options;
    (void)own;
    _exit(0);
#else
    assert_int_equal(tombola_feed_open(&options, &own), TOMBOLA_OK);
    assert_int_equal(tombola_feed_next(own, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_OK);
    check_rows(sampler, batch);
    assert_int_equal(tombola_feed_put(own, NULL, batch), TOMBOLA_OK);
    tombola_feed_close(own);
#endif
}

static void test_a_child_has_no_part_in_its_parents_feed(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250};
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler);
    options.expand = 1;
    options.batch_rows = 10;
    options.pull = TOMBOLA_INDEX;
    struct tombola_feed *feed = NULL;
    const struct tombola_batch *batch;
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    assert_int_equal(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_OK);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        is_child = true;
        use_in_child(&sampler, feed, batch);
        exit(0);
    }
    int status, batches = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_rows(&sampler, batch);
    assert_int_equal(tombola_feed_put(feed, NULL, batch), TOMBOLA_OK);
    for (; batches < 25 && !tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch); batches++) {
        check_rows(&sampler, batch);
        assert_int_equal(tombola_feed_put(feed, NULL, batch), TOMBOLA_OK);
    }
    assert_int_equal(batches, 25);
    tombola_feed_close(feed);
    fake_stop(&sampler);
}

static void test_no_sampler(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250};
    struct tombola_feed *feed;
    const struct tombola_batch *batch;
    fake_bind(&sampler); /* and nobody listens */
    struct tombola_options options = options_for(&sampler);
    options.patience_ms = 50;
    tombola_log_level(3);
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    assert_refused(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_NETWORK,
                   sampler.url);
    tombola_feed_close(feed);
    close(sampler.listener);
}

static void test_version(void **state)
{
    (void)state;
    assert_true(tombola_version()[0] >= '0' && tombola_version()[0] <= '9');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_epoch),
        cmocka_unit_test(test_labels_are_compared_unless_they_are_trusted),
        cmocka_unit_test(test_a_feed_of_one_batch),
        cmocka_unit_test(test_features_and_labels_as_they_are_asked_for),
        cmocka_unit_test(test_weights_and_groups),
        cmocka_unit_test(test_one_hot_labels),
        cmocka_unit_test(test_labels_that_are_no_codes),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_close_with_batches_out),
        cmocka_unit_test(test_a_failed_put_on_an_emulated_GPU),
        cmocka_unit_test(test_a_wait_ends_in_time_and_when_interrupted),
        cmocka_unit_test(test_batches_are_put_back_from_any_thread),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_a_child_has_no_part_in_its_parents_feed),
        cmocka_unit_test(test_no_sampler),
        cmocka_unit_test(test_version),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_store, remove_store);
}
