/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/feed/pull_bucket: buckets by length, as users of libtombola see them.
 */
#include "tests/unit/fake_sampler.h"

#include <unistd.h>

#include "loader/tombola.h"

#define UNITS 205
#define ROWS 10
#define BATCHES 21 /* an epoch: the last holds 5 */
#define EPOCHS 2

static char folder[256], uri[512];

/* The length of a row is of no order. */
static size_t length_of(int64_t id)
{
    return (size_t)(id * 37 % 101 * (id % 5 == 0 ? 3 : 1)) % 90;
}

static int make_store(void **state)
{
    (void)state;
    unit_folder_make(folder);
    snprintf(uri, sizeof(uri), "%s/rows.csv", folder);
    FILE *file = fopen(uri, "w");
    assert_non_null(file);
    fputs("label\n", file);
    for (int64_t id = 0; id < UNITS; id++) {
        fprintf(file, "%" PRId64, id % 10);
        for (size_t i = 0; i < length_of(id); i++)
            fprintf(file, ",%" PRId64, 1 + id % 200);
        fputs("\n", file);
    }
    assert_int_equal(fclose(file), 0);
    snprintf(uri, sizeof(uri), "csv:%s/rows.csv?longest=any", folder);
    return 0;
}

static int remove_store(void **state)
{
    (void)state;
    unit_folder_remove(folder);
    return 0;
}

static struct tombola_options options_for(const struct fake_sampler *sampler, size_t window)
{
    return (struct tombola_options){.struct_bytes = sizeof(struct tombola_options),
                                    .sampler_url = sampler->url,
                                    .store_uri = uri,
                                    .batch_rows = ROWS,
                                    .pull = TOMBOLA_INDEX,
                                    .bucket_window = window};
}

/* What came: of each epoch how often each id; and batches by their number. */
struct seen {
    int counts[EPOCHS][UNITS];
    int64_t ids[EPOCHS * BATCHES][ROWS];
    size_t rows[EPOCHS * BATCHES];
    uint64_t features, zeros; /* in all batches */
};

static void take_batch(struct seen *seen, const struct tombola_batch *batch)
{
    const uint8_t *features = batch->features;
    size_t longest = 0;
    assert_true(batch->index >= 0 && batch->index < EPOCHS * BATCHES);
    assert_int_equal(batch->epoch, batch->index / BATCHES);
    assert_int_equal(seen->rows[batch->index], 0);
    seen->rows[batch->index] = batch->rows;
    for (size_t i = 0; i < batch->rows; i++) {
        int64_t id = batch->ids[i];
        seen->ids[batch->index][i] = id;
        seen->counts[batch->epoch][id]++;
        assert_true(batch->labels[i] == (double)(id % 10));
        assert_int_equal(batch->lengths[i], length_of(id));
        longest = length_of(id) > longest ? length_of(id) : longest;
        for (size_t j = 0; j < batch->width; j++)
            assert_int_equal(features[i * batch->width + j], j < length_of(id) ? 1 + id % 200 : 0);
        seen->zeros += batch->width - length_of(id);
    }
    assert_int_equal(batch->width, longest);
    seen->features += batch->rows * batch->width;
}

/* `most` batches (< 0: all) of a feed, put back; its state then, to be freed, if it is wanted. */
static void run_feed(struct seen *seen, const struct tombola_options *options, int most,
                     char **ret_state)
{
    struct tombola_feed *feed = NULL;
    const struct tombola_batch *batch;
    const char *text;
    int status = tombola_feed_open(options, &feed);
    while (!status && most-- != 0 &&
           !(status = tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch))) {
        take_batch(seen, batch);
        status = tombola_feed_put(feed, NULL, batch);
    }
    if (status && status != TOMBOLA_END)
        fail_msg("%d, %s", status, tombola_error_message());
    if (ret_state) {
        assert_int_equal(tombola_feed_state(feed, &text), TOMBOLA_OK);
        *ret_state = strdup(text);
    }
    tombola_feed_close(feed);
}

static void check_all_came_once(const struct seen *seen)
{
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int id = 0; id < UNITS; id++)
            assert_int_equal(seen->counts[epoch][id], 1);
    }
}

static const size_t windows[] = {1, 2, 5, 7, 20, 21, 22, 100};
#define WINDOWS (sizeof(windows) / sizeof(windows[0]))

/* A batch holds units of its window alone, and the shorter a window is, the more zeros. */
static void test_each_unit_comes_once_an_epoch(void **state)
{
    static struct seen plain, seen;
    struct fake_sampler sampler = {.units = UNITS, .epochs = EPOCHS};
    (void)state;
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler, 0);
    memset(&plain, 0, sizeof(plain));
    run_feed(&plain, &options, -1, NULL);
    check_all_came_once(&plain);
    for (size_t i = 0; i < WINDOWS; i++) {
        memset(&seen, 0, sizeof(seen));
        options.bucket_window = windows[i];
        options.fetchers = 1 + i % 3;
        run_feed(&seen, &options, -1, NULL);
        check_all_came_once(&seen);
        assert_true(windows[i] == 1 ? seen.zeros == plain.zeros : seen.zeros < plain.zeros);
        for (int64_t index = 0; index < EPOCHS * BATCHES; index++) {
            int64_t k = index % BATCHES, begin = k / (int64_t)windows[i] * (int64_t)windows[i];
            for (size_t j = 0; j < seen.rows[index]; j++) {
                int64_t position = index / BATCHES * UNITS + begin * ROWS, found = 0;
                int64_t end = position + (int64_t)windows[i] * ROWS;
                for (; position < end; position++)
                    found += fake_id(&sampler, position) == seen.ids[index][j];
                assert_true(found >= 1);
            }
        }
    }
    assert_true(seen.zeros * 5 < plain.zeros); /* a whole epoch is one window */
    fake_stop(&sampler);
}

/* Batch K is the same for every world, and whoever asks; a state goes on in the middle of a window
 * with any number of ranks. */
static void test_worlds_and_states(void **state)
{
    static struct seen whole, seen;
    (void)state;
    for (size_t i = 0; i < WINDOWS; i++) {
        struct fake_sampler first = {.units = UNITS, .epochs = EPOCHS};
        fake_start(&first);
        struct tombola_options options = options_for(&first, windows[i]);
        memset(&whole, 0, sizeof(whole));
        run_feed(&whole, &options, -1, NULL);
        fake_stop(&first);
        for (int64_t world = 1; world <= 7; world += 1 + (int64_t)i % 2) {
            struct fake_sampler sampler = {.units = UNITS, .epochs = EPOCHS};
            char *text = NULL;
            fake_start(&sampler);
            options.sampler_url = sampler.url;
            int before = EPOCHS * BATCHES % (int)world + (int)world * 2; /* ranks divide the rest */
            memset(&seen, 0, sizeof(seen));
            options.world = options.rank = 0;
            options.state = NULL;
            run_feed(&seen, &options, before, &text);
            options.state = text;
            options.world = world;
            for (options.rank = 0; options.rank < world; options.rank++)
                run_feed(&seen, &options, -1, NULL);
            check_all_came_once(&seen);
            assert_memory_equal(seen.ids, whole.ids, sizeof(seen.ids));
            free(text);
            fake_stop(&sampler);
        }
    }
}

static void refuse(const struct tombola_options *options, int code, const char *says)
{
    struct tombola_feed *feed = NULL;
    const struct tombola_batch *batch;
    int status = tombola_feed_open(options, &feed);
    if (!status)
        status = tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch);
    assert_int_equal(status, code);
    if (!strstr(tombola_error_message(), says))
        fail_msg("message \"%s\" does not hold \"%s\"", tombola_error_message(), says);
    tombola_feed_close(feed);
}

static void test_what_is_refused(void **state)
{
    static struct seen seen;
    struct fake_sampler sampler = {.units = UNITS, .epochs = EPOCHS};
    char *text = NULL, alike[600];
    (void)state;
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler, 5);
    run_feed(&seen, &options, 3, &text);
    options.state = text;
    options.bucket_window = 4;
    refuse(&options, TOMBOLA_CONFLICT, "bucket window of 5 batches (0: none), this one has 4");
    options.bucket_window = 0;
    refuse(&options, TOMBOLA_CONFLICT, "this one has 0");
    options = options_for(&sampler, 5);
    options.pull = TOMBOLA_LEASE;
    refuse(&options, TOMBOLA_USAGE, "bucket_window is for TOMBOLA_INDEX");
    options = options_for(&sampler, SIZE_MAX / 2);
    refuse(&options, TOMBOLA_USAGE, "1 to 1677721 batches of 10 rows");
    options = options_for(&sampler, 5);
    snprintf(alike, sizeof(alike), "%s/alike.csv", folder);
    FILE *file = fopen(alike, "w");
    fputs("label,a\n1,2\n3,4\n", file);
    fclose(file);
    options.store_uri = alike;
    refuse(&options, TOMBOLA_USAGE, "whose rows have one length");
    free(text);
    fake_stop(&sampler);
}

/* A copy keeps its lengths, also when its feed is closed. */
static void test_a_copy_has_lengths(void **state)
{
    struct fake_sampler sampler = {.units = UNITS, .epochs = EPOCHS};
    struct tombola_description description;
    struct tombola_feed *feed;
    struct tombola_batch *copy;
    const struct tombola_batch *batch;
    (void)state;
    fake_start(&sampler);
    struct tombola_options options = options_for(&sampler, 3);
    options.labels = TOMBOLA_LABELS_ONE_HOT_F32;
    options.expand = 1;
    options.scale = 1;
    assert_int_equal(tombola_feed_open(&options, &feed), TOMBOLA_OK);
    tombola_feed_describe(feed, &description, sizeof(description));
    assert_int_equal(description.lengths, TOMBOLA_LENGTHS_VARY);
    assert_int_equal(description.features, 89);
    assert_null(description.feature_names);
    assert_int_equal(tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch), TOMBOLA_OK);
    assert_int_equal(tombola_batch_copy(feed, NULL, batch, &copy), TOMBOLA_OK);
    assert_ptr_not_equal(copy->lengths, batch->lengths);
    assert_int_equal(copy->width, batch->width);
    assert_memory_equal(copy->lengths, batch->lengths, batch->rows * sizeof(int64_t));
    assert_memory_equal(copy->features, batch->features,
                        batch->rows * batch->width * sizeof(float));
    assert_int_equal(tombola_feed_put(feed, NULL, batch), TOMBOLA_OK);
    tombola_feed_close(feed);
    for (size_t i = 0; i < copy->rows; i++) {
        const float *row = (const float *)copy->features + i * copy->width;
        const float *one_hot = (const float *)copy->device_labels + i * description.classes;
        assert_int_equal(copy->device_lengths[i], length_of(copy->ids[i]));
        assert_true(one_hot[copy->ids[i] % 10] == 1);
        for (size_t j = 0; j < copy->width; j++)
            assert_true(row[j] ==
                        (j < length_of(copy->ids[i]) ? (float)(1 + copy->ids[i] % 200) : 0));
    }
    tombola_batch_free(copy);
    fake_stop(&sampler);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_each_unit_comes_once_an_epoch, make_store, remove_store),
    cmocka_unit_test_setup_teardown(test_worlds_and_states, make_store, remove_store),
    cmocka_unit_test_setup_teardown(test_what_is_refused, make_store, remove_store),
    cmocka_unit_test_setup_teardown(test_a_copy_has_lengths, make_store, remove_store),
};

UNIT_MAIN(tests)
