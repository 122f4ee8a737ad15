/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/feed/feed: What a feed delivers when nothing fails: the right rows in the right
 * order, whatever the threads do. Covers grant_queue too. test_feed_failures.c has the rest.
 */
/*
 * Covers loader/feed/feed, loader/feed/grant_queue: What a feed delivers when nothing fails: the right rows in the right
 * order, whatever the threads do. test_feed_failures.c has the rest.
 */
#include "tests/unit/feed_unit.h"

#include "loader/feed/grant_queue.h"
#include "loader/feed/stream_check.h"

/* ---- FEED_INDEX --------------------------------------------------------- */

static void test_one_epoch(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 1003, 100);
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 11);
    struct feed_stats stats;
    feed_get_stats(setting.feed, &stats);
    assert_int_equal(stats.batches, 11);
    assert_int_equal(stats.rows, 1003);
    assert_int_equal(stats.bytes, 1003 * FEATURES);
    assert_int_equal(stats.bad_rows, 0);
    assert_true(stats.first_ns > 0 && stats.fetch_ns > 0 && stats.pull_ns > 0);
    setting_close(&setting);
}

static void test_epochs_follow_each_other(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 77, 10);
    setting.sampler.epochs = 5;
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 40);
    setting_close(&setting);
}

static void test_expanded_to_floats(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 1000, 64);
    setting.options.expand = true;
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 16);
    struct feed_stats stats;
    feed_get_stats(setting.feed, &stats);
    assert_int_equal(stats.bytes, 1000 * FEATURES * 4);
    setting_close(&setting);
}

/* From the store until all rows are in memory, from there then. */
static void run_cached(int64_t units, size_t batch_rows, const struct feature_moments *moments)
{
    const struct feed_batch *batch;
    struct setting setting;
    int64_t batches = 0;
    setting_init(&setting, units, batch_rows);
    setting.sampler.epochs = 100000;
    setting.options.expand = true;
    setting.options.cache_bytes = 2 << 20;
    setting.options.moments = *moments;
    setting.store.gives_features = true;
    setting.store.bad_id = 502; /* its batch comes by the store for ever */
    setting.options.bad_rows = BAD_ROWS_SKIP;
    setting_open(&setting);
    while (batches < 20 + atomic_load(&setting.store.fetches)) {
        assert_ok(feed_next(setting.feed, NULL, &batch));
        for (size_t i = 0; i < batch->rows; i++) {
            assert_true(batch->labels[i] == (double)(batch->ids[i] % 10));
            assert_int_not_equal(batch->ids[i], 502);
            for (size_t j = 0; j < FEATURES; j++) {
                float right = (float)fake_feature(batch->ids[i], j) * setting.options.scale;
                if (moments->channels > 0)
                    right = (right - moments->mean[j]) / moments->deviation[j];
                assert_true(((const float *)batch->features)[i * FEATURES + j] == right);
            }
        }
        batches++;
        assert_ok(feed_put(setting.feed, NULL, batch));
    }
    setting_close(&setting);
}

static void test_rows_in_memory_become_floats(void **state)
{
    float mean[FEATURES], deviation[FEATURES];
    struct feature_moments none = {.channels = 0};
    struct feature_moments moments = {.channels = FEATURES, .mean = mean, .deviation = deviation};
    (void)state;
    for (size_t i = 0; i < FEATURES; i++) {
        mean[i] = 0.1f * (float)i;
        deviation[i] = 0.5f + (float)i;
    }
    run_cached(503, 7, &none);
    run_cached(503, 100, &none);
    run_cached(503, 64, &moments);
    run_cached(20003, 8000, &none); /* more than whoever asks for a batch copies itself */
}

static void test_floats_stay_as_they_are(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 500, 64);
    fake_store_init(&setting.store, 500, FEATURES, ELEMENT_F32);
    setting.options.expand = true;
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 8);
    setting_close(&setting);
}

static void test_integers_are_not_made_floats(void **state)
{
    static const float mean[] = {1};
    (void)state;
    struct setting setting;
    setting_init(&setting, 500, 64);
    fake_store_init(&setting.store, 500, FEATURES, ELEMENT_I32);
    setting.options.sampler_url = "http://127.0.0.1:1";
    setting.options.expand = true;
    assert_fails(feed_open(&setting.options, &setting.feed), ERROR_USAGE,
                 "are 32-bit integers, which come as they are");
    setting.options.expand = false;
    setting.options.moments.channels = 1;
    setting.options.moments.mean = mean;
    assert_fails(feed_open(&setting.options, &setting.feed), ERROR_USAGE,
                 "are 32-bit integers, which come as they are");
    setting.options.moments = (struct feature_moments){.channels = 0};
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 8);
    setting_close(&setting);
}

static void test_no_features(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 20, 10);
    fake_store_init(&setting.store, 20, 0, ELEMENT_U8);
    setting.options.expand = true;
    setting_open(&setting);
    const struct feed_batch *batch;
    assert_ok(feed_next(setting.feed, NULL, &batch));
    assert_int_equal(batch->rows, 10);
    assert_int_equal(batch->ids[1], fake_id(&setting.sampler, 1));
    setting_close(&setting);
}

static void test_starts_at_an_index(void **state)
{
    (void)state;
    static const int64_t starts[] = {1, 7, 10, 11, 12, 54};
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        struct setting setting;
        setting_init(&setting, 1003, 100); /* 11 batches an epoch */
        setting.sampler.epochs = 5;
        setting.options.first_index = starts[i];
        setting_open(&setting);
        int64_t position = starts[i] / 11 * 1003 + starts[i] % 11 * 100;
        const struct feed_batch *batch;
        assert_ok(feed_next(setting.feed, NULL, &batch));
        assert_int_equal(batch->index, starts[i]);
        check_batch(&setting, batch, position, starts[i] % 11 == 10 ? 3 : 100);
        assert_ok(feed_put(setting.feed, NULL, batch));
        position += (int64_t)batch->rows;
        assert_int_equal(check_to_the_end(&setting, position), 54 - starts[i]);
        setting_close(&setting);
    }
}

/* Ranks would take no step at all, without a word. */
static void test_no_batch_is_ever_complete(void **state)
{
    (void)state;
    for (int64_t world = 1; world <= 2; world++) {
        const struct feed_batch *batch;
        struct setting setting;
        setting_init(&setting, 10, 20);
        setting.sampler.tail = "drop";
        setting.options.world = world;
        setting_open(&setting);
        assert_fails(feed_next(setting.feed, NULL, &batch), ERROR_USAGE,
                     "batches of 20 rows are larger than an epoch, which has 10: with tail=drop");
        setting_close(&setting);
    }
}

static void test_starts_beyond_the_end(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 100, 10);
    setting.options.first_index = 10;
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 100), 0);
    setting_close(&setting);
}

static void test_many_batches_a_request(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 100000, 100);
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 1000);
    assert_true(atomic_load(&setting.sampler.batch_requests) < 100);
    setting_close(&setting);
}

static void test_a_sampler_that_gives_small_batches_only(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 3000, 100);
    setting.sampler.max_size = 100;
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 30);
    setting_close(&setting);
}

static void test_ends_after_so_many_batches(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 3000, 100);
    setting.options.batches = 7;
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 7);
    setting_close(&setting);
}

/* ---- FEED_DRAW ---------------------------------------------------------- */

static void draw_epoch(size_t draws_ahead, int delay_us)
{
    struct setting setting;
    setting_init(&setting, 2003, 20);
    setting.sampler.epochs = 2;
    setting.sampler.delay_us = delay_us;
    setting.options.pull = FEED_DRAW;
    setting.options.draws_ahead = draws_ahead;
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 202);
    setting_close(&setting);
}

static void test_draws_come_in_order(void **state)
{
    (void)state;
    draw_epoch(1, 0);
    draw_epoch(4, 0);
    draw_epoch(16, 100);
}

static void test_draws_no_more_than_asked_for(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 2000, 20);
    setting.options.pull = FEED_DRAW;
    setting.options.batches = 5;
    setting.options.draws_ahead = 16;
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 5);
    assert_int_equal(atomic_load(&setting.sampler.position), 100);
    assert_int_equal(atomic_load(&setting.sampler.batch_requests), 5);
    setting_close(&setting);
}

static void test_no_batches_at_all(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 2000, 20);
    setting.options.pull = FEED_DRAW;
    setting.options.batches = 0;
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 0);
    assert_int_equal(atomic_load(&setting.sampler.position), 0);
    setting_close(&setting);
}

/* ---- threads and slots -------------------------------------------------- */

static void test_order_does_not_depend_on_fetchers(void **state)
{
    (void)state;
    static const size_t fetchers[] = {1, 2, 7, 32};
    for (size_t i = 0; i < sizeof(fetchers) / sizeof(fetchers[0]); i++) {
        struct setting setting;
        setting_init(&setting, 1000, 10);
        setting.options.fetchers = fetchers[i];
        setting.options.slots = 5;
        setting.store.slow_id = fake_id(&setting.sampler, 200); /* the others overtake it */
        setting_open(&setting);
        assert_int_equal(check_to_the_end(&setting, 0), 100);
        setting_close(&setting);
    }
}

static void test_few_and_many_slots(void **state)
{
    (void)state;
    static const size_t slots[] = {2, 3, 4, 100};
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        struct setting setting;
        setting_init(&setting, 1000, 10);
        setting.options.slots = slots[i];
        setting.options.fetchers = 3;
        setting.options.expand = true;
        setting_open(&setting);
        assert_int_equal(check_to_the_end(&setting, 0), 100);
        setting_close(&setting);
    }
}

static void test_a_batch_that_is_out_stays_as_it_is(void **state)
{
    (void)state;
    struct setting setting;
    const struct feed_batch *held[2], *batch;
    setting_init(&setting, 1000, 10);
    setting.options.slots = 4;
    setting_open(&setting);
    assert_ok(feed_next(setting.feed, NULL, &held[0]));
    assert_ok(feed_next(setting.feed, NULL, &held[1]));
    for (int64_t i = 2; i < 60; i++) { /* the other slots go round many times */
        assert_ok(feed_next(setting.feed, NULL, &batch));
        check_batch(&setting, batch, i * 10, 10);
        assert_ok(feed_put(setting.feed, NULL, batch));
    }
    check_batch(&setting, held[0], 0, 10);
    check_batch(&setting, held[1], 10, 10);
    assert_ok(feed_put(setting.feed, NULL, held[1]));
    assert_ok(feed_put(setting.feed, NULL, held[0]));
    assert_int_equal(check_to_the_end(&setting, 600), 40);
    setting_close(&setting);
}

static void test_all_slots_out(void **state)
{
    (void)state;
    struct setting setting;
    const struct feed_batch *held[3], *batch;
    setting_init(&setting, 1000, 10);
    setting.options.slots = 3;
    setting_open(&setting);
    for (size_t i = 0; i < 3; i++)
        assert_ok(feed_next(setting.feed, NULL, &held[i]));
    assert_fails(feed_next(setting.feed, NULL, &batch), ERROR_USAGE, "all 3 batches are out");
    assert_ok(feed_put(setting.feed, NULL, held[1]));
    assert_ok(feed_next(setting.feed, NULL, &batch));
    check_batch(&setting, batch, 30, 10);
    setting_close(&setting); /* with three batches out */
}

/* ---- options ------------------------------------------------------------ */

static void test_wrong_options(void **state)
{
    (void)state;
    struct setting setting;
    struct feed *feed;
    setting_init(&setting, 100, 10);
    setting.options.sampler_url = "http://127.0.0.1:1";
    struct feed_options options = setting.options;
    options.batch_rows = 0;
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "1 to 1000000");
    options.batch_rows = 1000001;
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "1000001 rows a batch");
    options.batch_rows = SIZE_MAX; /* as of a -1 */
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "rows a batch");
    options = setting.options;
    options.slots = 1;
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "slots");
    options = setting.options;
    options.fetchers = 65;
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "65 fetchers");
    options = setting.options;
    options.draws_ahead = 65;
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "draws ahead");
    options = setting.options;
    options.first_index = -1;
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "first_index is -1");
    options = setting.options;
    options.world = -1;
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "rank 0 of -1");
    options.world = 3;
    options.rank = 3;
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "rank 3 of 3");
    options.rank = -1;
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "0 to world - 1");
    options = setting.options;
    options.moments.channels = 1;
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "bytes cannot be normalized");
    options = setting.options;
    options.labels = LABELS_I64;
    setting.store.store.info.label_kind = LABEL_REAL;
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "are real numbers");
    options = setting.options;
    options.sampler_url = "ftp://x";
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "ftp://x");
    options = setting.options;
    options.stream = "a b";
    assert_fails(feed_open(&options, &feed), ERROR_USAGE, "\"a b\"");
    feed_close(NULL);
    device_close(setting.device);
    assert_int_equal(atomic_load(&setting.store.readers), 0);
}

static void open_with_few_rows(struct setting *setting, enum feed_pull pull, enum bad_rows bad_rows)
{
    setting_init(setting, 1000, 10);
    setting->options.pull = pull;
    setting->options.bad_rows = bad_rows;
    setting->store.store.info.rows = 993;
    setting_open(setting);
}

static void test_a_store_of_too_few_rows_fails_before_the_first_draw(void **state)
{
    (void)state;
    struct setting setting;
    const struct feed_batch *batch;
    for (int pull = FEED_INDEX; pull <= FEED_DRAW; pull++) {
        open_with_few_rows(&setting, (enum feed_pull)pull, BAD_ROWS_FAIL);
        assert_fails(feed_next(setting.feed, NULL, &batch), ERROR_INPUT, "at least 7 of them");
        assert_int_equal(atomic_load(&setting.sampler.descriptions), 1);
        assert_int_equal(atomic_load(&setting.sampler.batch_requests), 0);
        setting_close(&setting);
        open_with_few_rows(&setting, (enum feed_pull)pull, BAD_ROWS_SKIP);
        assert_int_equal(check_to_the_end(&setting, 0), 100);
        setting_close(&setting);
    }
}

/* Only who draws every unit must meet those without a row. */
static void test_too_few_rows_where_not_all_are_drawn(void **state)
{
    const struct sampler_stream all = {.units = 10, .epoch_draws = 10, .design = "srs"};
    struct sampler_stream stream = all;
    struct store_info store = {.uri = "csv:x.csv", .rows = 9, .first_bad_row = "x.csv, line 7"};
    (void)state;
    log_set_level(LOG_ERROR);
    assert_fails(stream_check_rows(&all, "http://h", &store, true), ERROR_INPUT,
                 "at least 1 of them have no row");
    assert_non_null(strstr(error_message(), "; besides: x.csv, line 7"));
    assert_ok(stream_check_rows(&all, "http://h", &store, false));
    stream.replacement = true;
    assert_ok(stream_check_rows(&stream, "http://h", &store, true));
    stream = all;
    stream.epoch_draws = 9; /* a tail that is dropped */
    assert_ok(stream_check_rows(&stream, "http://h", &store, true));
    stream = all;
    snprintf(stream.design, sizeof(stream.design), "bernoulli");
    assert_ok(stream_check_rows(&stream, "http://h", &store, true));
    store.rows = 11; /* the frame may be of a part */
    assert_ok(stream_check_rows(&all, "http://h", &store, true));
    store.rows = 1;
    stream = (struct sampler_stream){.units = 1, .epoch_draws = 1, .design = "srs"};
    assert_ok(stream_check_rows(&stream, "http://h", &store, true));
}

/* ---- FEED_GRANTED ------------------------------------------------------- */

static void test_granted_batches_come_in_the_order_of_the_grants(void **state)
{
    (void)state;
    static const struct grant grants[] = {{7, 2}, {3, 1}, {9, 4}, {0, 3}};
    struct setting setting;
    const struct feed_batch *batch;
    setting_init(&setting, 100000, 10);
    setting.options.pull = FEED_GRANTED;
    setting_open(&setting);
    for (size_t i = 0; i < sizeof(grants) / sizeof(*grants); i++)
        assert_ok(feed_grant(setting.feed, grants[i].first, grants[i].count));
    for (size_t i = 0; i < sizeof(grants) / sizeof(*grants); i++) {
        for (int64_t k = grants[i].first; k < grants[i].first + grants[i].count; k++) {
            assert_ok(feed_next(setting.feed, NULL, &batch));
            assert_int_equal(batch->index, k);
            check_batch(&setting, batch, 10 * k, 10);
            assert_ok(feed_put(setting.feed, NULL, batch));
        }
    }
    /* One more while the feed waits, and one without end. */
    assert_ok(feed_grant(setting.feed, 9997, -1));
    for (int64_t k = 9997; k < 10000; k++) {
        assert_ok(feed_next(setting.feed, NULL, &batch));
        assert_int_equal(batch->index, k);
        assert_ok(feed_put(setting.feed, NULL, batch));
    }
    assert_fails(feed_next(setting.feed, NULL, &batch), ERROR_END, "ended");
    setting_close(&setting);
}

/* As workers in step are granted them; the sampler is asked once for what one answer holds. */
static void test_batches_granted_one_by_one_share_requests(void **state)
{
    (void)state;
    struct setting setting;
    const struct feed_batch *batch;
    setting_init(&setting, 1005, 10);
    setting.options.pull = FEED_GRANTED;
    setting_open(&setting);
    for (int64_t k = 1; k <= 100; k += 3) {
        assert_ok(feed_grant(setting.feed, k, 1));
        assert_ok(feed_next(setting.feed, NULL, &batch));
        assert_int_equal(batch->index, k);
        check_batch(&setting, batch, 10 * k, k < 100 ? 10 : 5);
        assert_ok(feed_put(setting.feed, NULL, batch));
    }
    assert_true(atomic_load(&setting.sampler.batch_requests) <= 2);
    assert_ok(feed_grant(setting.feed, 101, 1));
    assert_fails(feed_next(setting.feed, NULL, &batch), ERROR_END, "ended");
    setting_close(&setting);
}

static void test_runs_of_grants_are_joined_and_limited(void **state)
{
    (void)state;
    static struct grant_queue queue;
    struct grant grant;
    grant_queue_init(&queue);
    assert_fails(grant_queue_push(&queue, (struct grant){-1, 1}), ERROR_USAGE, "from number -1");
    assert_fails(grant_queue_push(&queue, (struct grant){5, 0}), ERROR_USAGE, "a grant of 0");
    assert_ok(grant_queue_push(&queue, (struct grant){5, 2}));
    assert_ok(grant_queue_push(&queue, (struct grant){7, 3}));
    for (int64_t i = 0; i < GRANT_QUEUE_LIMIT - 1; i++)
        assert_ok(grant_queue_push(&queue, (struct grant){100 + 2 * i, 1}));
    assert_fails(grant_queue_push(&queue, (struct grant){0, 1}), ERROR_USAGE, "4096 runs");
    assert_ok(grant_queue_take(&queue, &grant));
    assert_int_equal(grant.first, 5);
    assert_int_equal(grant.count, 5);
    assert_ok(grant_queue_push(&queue, (struct grant){0, -1}));
    for (int64_t i = 0; i < GRANT_QUEUE_LIMIT - 1; i++)
        assert_ok(grant_queue_take(&queue, &grant));
    assert_ok(grant_queue_take(&queue, &grant));
    assert_int_equal(grant.count, -1);
    assert_ok(grant_queue_push(&queue, (struct grant){10, 2}));
    assert_ok(grant_queue_push(&queue, (struct grant){12, -1})); /* and all that follow */
    assert_ok(grant_queue_push(&queue, (struct grant){30, 1}));
    assert_ok(grant_queue_take(&queue, &grant));
    assert_int_equal(grant.first, 10);
    assert_int_equal(grant.count, -1);
    grant_queue_stop(&queue);
    assert_fails(grant_queue_take(&queue, &grant), ERROR_CANCELLED, "stopped");
    grant_queue_release(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_epoch),
        cmocka_unit_test(test_epochs_follow_each_other),
        cmocka_unit_test(test_expanded_to_floats),
        cmocka_unit_test(test_rows_in_memory_become_floats),
        cmocka_unit_test(test_floats_stay_as_they_are),
        cmocka_unit_test(test_integers_are_not_made_floats),
        cmocka_unit_test(test_no_features),
        cmocka_unit_test(test_granted_batches_come_in_the_order_of_the_grants),
        cmocka_unit_test(test_batches_granted_one_by_one_share_requests),
        cmocka_unit_test(test_runs_of_grants_are_joined_and_limited),
        cmocka_unit_test(test_starts_at_an_index),
        cmocka_unit_test(test_starts_beyond_the_end),
        cmocka_unit_test(test_no_batch_is_ever_complete),
        cmocka_unit_test(test_many_batches_a_request),
        cmocka_unit_test(test_a_sampler_that_gives_small_batches_only),
        cmocka_unit_test(test_ends_after_so_many_batches),
        cmocka_unit_test(test_draws_come_in_order),
        cmocka_unit_test(test_draws_no_more_than_asked_for),
        cmocka_unit_test(test_no_batches_at_all),
        cmocka_unit_test(test_order_does_not_depend_on_fetchers),
        cmocka_unit_test(test_few_and_many_slots),
        cmocka_unit_test(test_a_batch_that_is_out_stays_as_it_is),
        cmocka_unit_test(test_all_slots_out),
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_a_store_of_too_few_rows_fails_before_the_first_draw),
        cmocka_unit_test(test_too_few_rows_where_not_all_are_drawn),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
