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
#include "tests/unit/feed_unit.h"
#undef calloc
#undef free

#define BATCHES 6
#define ROWS 10

static struct setting setting;

/* Batches until the feed ends, each of which must be right; why it did. */
static enum error take_all(void)
{
    const struct feed_batch *batch;
    int64_t position = 0;
    enum error error;
    while (!(error = feed_next(setting.feed, NULL, &batch))) {
        check_batch(&setting, batch, position, ROWS);
        position += ROWS;
        assert_ok(feed_put(setting.feed, NULL, batch));
    }
    if (error != ERROR_END)
        return error;
    assert_int_equal(position, BATCHES * ROWS);
    return OK;
}

/* The sampler begins again in each run: how many connections it takes is bounded. */
static enum error feed(void)
{
    struct fake_sampler *sampler = &setting.sampler;
    *sampler = (struct fake_sampler){.units = sampler->units,
                                     .epochs = 1,
                                     .max_size = sampler->max_size,
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

static void begin(enum feed_pull pull)
{
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_by_index),
    cmocka_unit_test(test_by_draws),
};

UNIT_MAIN(tests)
