/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/feed/feed: Every allocation of a feed fails once, in whichever of its threads: the
 * program is linked with --wrap. The feed cannot be opened, or ends with ERROR_MEMORY behind right
 * batches; all that it had is given back.
 */
#include "tests/unit/failing_allocator.h"

/* What the fakes allocate never fails, and is not counted. */
#define calloc __real_calloc
#define free __real_free
#include "tests/unit/fake_device.h"
#include "tests/unit/feed_unit.h"
#undef calloc
#undef free

#define BATCHES 6
#define ROWS 10

static struct setting setting;
static struct device_queue *queue; /* the caller's, of a device that works late */
static bool is_sorted;             /* by length: which rows a batch has is not the sampler's */

/* Batches until the feed ends, each of which must be right; why it did. A draw of which nothing
 * could be made is lost: what another connection has drawn behind it still comes, then its error. */
static enum error take_all(void)
{
    const struct feed_batch *batch;
    int64_t position = 0, lost = 0;
    enum error error;
    while (!(error = feed_next(setting.feed, queue, &batch))) {
        if (queue)
            assert_ok(device_queue_wait(&fake_device, queue));
        if (setting.options.pull == FEED_DRAW && batch->first > position) {
            lost += batch->first - position;
            position = batch->first;
        }
        if (!is_sorted)
            check_batch(&setting, batch, position, ROWS);
        position += (int64_t)batch->rows;
        assert_ok(feed_put(setting.feed, queue, batch));
    }
    if (error != ERROR_END)
        return error;
    assert_int_equal(position, BATCHES * ROWS);
    assert_int_equal(lost, 0);
    return OK;
}

/* The sampler begins again in each run: how many connections it takes is bounded. Its seed has few
 * digits: the text of a longer one is freed by cJSON, which is not counted. */
static enum error feed(void)
{
    struct fake_sampler *sampler = &setting.sampler;
    *sampler = (struct fake_sampler){.units = sampler->units,
                                     .epochs = 1,
                                     .max_size = sampler->max_size,
                                     .new_seed = true,
                                     .descriptions = 1,
                                     .labels = sampler->labels};
    fake_start(sampler);
    setting.options.sampler_url = sampler->url;
    setting.feed = NULL;
    enum error error = feed_open(&setting.options, &setting.feed);
    if (!error)
        error = take_all();
    if (setting.feed)
        feed_close(setting.feed);
    fake_stop(sampler);
    assert_int_equal(atomic_load(&setting.store.readers), 0);
    return error;
}

static void check(long nth, enum error error)
{
    if (error != ERROR_MEMORY)
        fail_msg("allocation %ld failed and the answer was %d, %s", nth, error, error_message());
    assert_non_null(strstr(error_message(), "memory"));
}

/* An ack that cannot be said stays unsaid, and the sampler lends that batch again; without the
 * places of rows that stay each batch is copied whole. */
static void check_or_none(long nth, enum error error)
{
    if (error)
        check(nth, error);
}

static void begin(enum feed_pull pull)
{
    queue = NULL;
    is_sorted = false;
    setting_init(&setting, BATCHES * ROWS, ROWS);
    log_set_level((enum log_level)(LOG_ERROR + 1));
    setting.sampler.labels = "{\"labels\":[{\"label\":0},{\"label\":1},{\"label\":2},{\"label\":3},"
                             "{\"label\":4},{\"label\":5},{\"label\":6},{\"label\":7},"
                             "{\"label\":8},{\"label\":9}]}";
    setting.options.pull = pull;
    setting.options.fetchers = 2;
    setting.options.stream = "default";
    setting.options.expand = true;
}

static void test_by_index(void **unused)
{
    (void)unused;
    begin(FEED_INDEX);
    fail_each(feed, check);
    device_close(setting.device);
}

static void test_by_draws(void **unused)
{
    (void)unused;
    begin(FEED_DRAW);
    setting.options.draws_ahead = 2;
    fail_each(feed, check);
    device_close(setting.device);
}

static void test_by_lease(void **unused)
{
    (void)unused;
    begin(FEED_LEASE);
    setting.options.worker = "one";
    setting.options.token = "secret";
    setting.options.slots = 4;
    fail_each(feed, check_or_none);
    assert_true(setting.sampler.leased >= BATCHES && setting.sampler.settled > 0);
    device_close(setting.device);
}

/* All that a row may have beside its features, of which some are done already, and a cache. */
static void test_rows_with_all_that_they_may_have(void **unused)
{
    struct store_info *store = &setting.store.store.info;
    (void)unused;
    begin(FEED_INDEX);
    store->weight_column = "weight";
    store->group_column = "group";
    setting.options.weights = WEIGHTS_F32;
    setting.options.groups = true;
    setting.options.labels = LABELS_ONE_HOT_U8;
    setting.options.targets = 3;
    setting.options.slots = 5;
    setting.options.cache_bytes = 1 << 20;
    fail_each(feed, check);
    device_close(setting.device);
}

static void test_rows_that_stay_on_a_device(void **unused)
{
    static const float zero[] = {0}, one[] = {1};
    (void)unused;
    for (int has_ids = 0; has_ids < 2; has_ids++) {
        begin(FEED_INDEX);
        device_close(setting.device);
        assert_ok(fake_queue_new(&fake_device, &queue));
        setting.options.device = &fake_device;
        setting.store.store.info.id_column = has_ids ? "id" : NULL;
        setting.options.resident_bytes = FEED_RESIDENT_AUTO;
        setting.options.moments =
            (struct feature_moments){.channels = 1, .mean = zero, .deviation = one};
        fail_each(feed, check_or_none);
        fake_queue_free(&fake_device, queue);
        assert_int_equal(atomic_load(&fake_allocations), 0);
    }
}

static enum error measure(struct reader *reader, const int64_t *ids, size_t count, int64_t *lengths)
{
    (void)reader;
    for (size_t i = 0; i < count; i++)
        lengths[i] = ids[i] % FEATURES;
    return OK;
}

static enum error fetch_varying(struct reader *reader, const int64_t *ids, size_t count,
                                void *features, size_t stride_bytes, double *labels,
                                enum row_status *status)
{
    assert_ok(measure(reader, ids, count, reader->lengths));
    return fake_fetch(reader, ids, count, features, stride_bytes, labels, status);
}

static void test_buckets_by_length(void **unused)
{
    struct store_ops ops = fake_store_ops;
    (void)unused;
    begin(FEED_INDEX);
    is_sorted = true;
    ops.measure = measure;
    ops.fetch = fetch_varying;
    setting.store.store.ops = &ops;
    setting.store.store.info.lengths = LENGTHS_VARY;
    setting.store.store.info.longest = FEATURES;
    setting.options.bucket_window = 4;
    fail_each(feed, check);
    device_close(setting.device);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_by_index),
    cmocka_unit_test(test_by_draws),
    cmocka_unit_test(test_by_lease),
    cmocka_unit_test(test_rows_with_all_that_they_may_have),
    cmocka_unit_test(test_rows_that_stay_on_a_device),
    cmocka_unit_test(test_buckets_by_length),
};

UNIT_MAIN(tests)
