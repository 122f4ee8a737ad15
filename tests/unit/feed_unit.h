/* SPDX-License-Identifier: MIT */
/* A feed between a fake sampler and a fake store, and what its batches must be. */
#ifndef TESTS_UNIT_FEED_UNIT_H
#define TESTS_UNIT_FEED_UNIT_H

#include "tests/unit/fake_sampler.h"
#include "tests/unit/fake_store.h"

#include "common/log.h"
#include "loader/feed/feed.h"

#define FEATURES 37

struct setting {
    struct fake_sampler sampler;
    struct fake_store store;
    struct device *device;
    struct feed_options options;
    struct feed *feed;
};

/* Units, rows a batch; everything else may be changed before setting_open(). */
static inline void setting_init(struct setting *setting, int64_t units, size_t batch_rows)
{
    *setting = (struct setting){.sampler = {.units = units, .epochs = 1}};
    log_set_level(LOG_ERROR);
    fake_store_init(&setting->store, units, FEATURES, ELEMENT_U8);
    assert_ok(device_open("cpu", &setting->device));
    setting->options = (struct feed_options){.store = &setting->store.store,
                                             .device = setting->device,
                                             .pull = FEED_INDEX,
                                             .batches = -1,
                                             .batch_rows = batch_rows,
                                             .scale = 1.0f / 255,
                                             .close_ms = 600000, /* the store is on the stack */
                                             .patience_ms = 20000};
}

static inline void setting_open(struct setting *setting)
{
    fake_start(&setting->sampler);
    setting->options.sampler_url = setting->sampler.url;
    assert_ok(feed_open(&setting->options, &setting->feed));
}

static inline void setting_close(struct setting *setting)
{
    feed_close(setting->feed);
    fake_stop(&setting->sampler);
    device_close(setting->device);
    assert_int_equal(atomic_load(&setting->store.readers), 0);
}

/* The batch must be `rows` rows from `position` on, features and all. */
static inline void check_batch(const struct setting *setting, const struct feed_batch *batch,
                               int64_t position, size_t rows)
{
    const struct feed_options *options = &setting->options;
    bool expanded = options->expand && setting->store.store.info.element == ELEMENT_U8;
    assert_int_equal(batch->rows, rows);
    assert_int_equal(batch->first, position);
    assert_int_equal(batch->epoch, position / setting->sampler.units);
    for (size_t i = 0; i < rows; i++) {
        int64_t id = fake_id(&setting->sampler, position + (int64_t)i);
        assert_int_equal(batch->ids[i], id);
        assert_true(batch->labels[i] == (double)(id % 10));
        for (size_t j = 0; j < setting->store.store.info.features; j++) {
            uint8_t byte = fake_feature(id, j);
            size_t at = i * setting->store.store.info.features + j;
            if (expanded)
                assert_true(((const float *)batch->features)[at] == (float)byte * options->scale);
            else if (setting->store.store.info.element == ELEMENT_F32)
                assert_true(((const float *)batch->features)[at] == (float)byte + 0.5f);
            else if (setting->store.store.info.element == ELEMENT_I32)
                assert_int_equal(((const int32_t *)batch->features)[at], fake_integer(byte));
            else
                assert_int_equal(((const uint8_t *)batch->features)[at], byte);
        }
    }
}

/* Takes, checks and puts batches from `position` on until the feed ends; returns how many. */
static inline int64_t check_to_the_end(struct setting *setting, int64_t position)
{
    const struct feed_batch *batch;
    int64_t batches = 0;
    enum error error;
    while (!(error = feed_next(setting->feed, NULL, &batch))) {
        size_t rows =
            (size_t)fake_cut(&setting->sampler, position, (int64_t)setting->options.batch_rows);
        check_batch(setting, batch, position, rows);
        position += (int64_t)rows;
        batches++;
        assert_ok(feed_put(setting->feed, NULL, batch));
    }
    if (error != ERROR_END)
        fail_msg("%d, %s", error, error_message());
    assert_int_equal(feed_next(setting->feed, NULL, &batch), ERROR_END);
    return batches;
}

#endif
