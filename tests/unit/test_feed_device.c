/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/feed/copier: A feed onto a device that works late (fake_device.h): the rows that
 * the caller's queue sees are the right ones, although neither the feed nor the caller waits for
 * it.
 */
#include "tests/unit/fake_device.h"
#include "tests/unit/feed_unit.h"

#define ROWS 10

struct late {
    struct setting setting;
    struct device_queue *queue; /* the caller's */
    char *seen;                 /* [units, row_bytes]: what its queue read, batch behind batch */
    int64_t *seen_ids;          /* [units] */
    double *seen_labels;        /* [units] */
    size_t row_bytes;
};

static void late_init(struct late *late, int64_t units, enum element element, bool expand)
{
    setting_init(&late->setting, units, ROWS);
    device_close(late->setting.device);
    fake_store_init(&late->setting.store, units, FEATURES, element);
    late->setting.device = NULL;
    late->setting.options.device = &fake_device;
    late->setting.options.expand = expand;
    late->row_bytes = FEATURES * (expand || element == ELEMENT_F32 ? sizeof(float) : 1);
    late->seen = calloc((size_t)units, late->row_bytes);
    late->seen_ids = calloc((size_t)units, sizeof(*late->seen_ids));
    late->seen_labels = calloc((size_t)units, sizeof(*late->seen_labels));
    assert_true(late->seen && late->seen_ids && late->seen_labels);
    assert_ok(fake_queue_new(&fake_device, &late->queue));
}

/* As a trainer: enqueues its work on a batch and gives the batch back at once. */
static void use_batches(struct late *late, int64_t limit)
{
    struct feed *feed = late->setting.feed;
    const struct feed_batch *batch;
    enum error error = OK;
    for (int64_t i = 0; i < limit && !(error = feed_next(feed, late->queue, &batch)); i++) {
        assert_ok(device_copy_out(&fake_device, late->queue,
                                  late->seen + (size_t)batch->first * late->row_bytes,
                                  batch->features, batch->rows * late->row_bytes));
        assert_ok(device_copy_in(&fake_device, late->queue, late->seen_ids + batch->first,
                                 batch->ids, batch->rows * sizeof(*batch->ids)));
        assert_ok(device_copy_in(&fake_device, late->queue, late->seen_labels + batch->first,
                                 batch->labels, batch->rows * sizeof(*batch->labels)));
        assert_ok(feed_put(feed, late->queue, batch));
    }
    assert_true(!error || error == ERROR_END);
}

static void late_close(struct late *late)
{
    feed_close(late->setting.feed);
    device_queue_free(&fake_device, late->queue);
    fake_stop(&late->setting.sampler);
    free(late->seen);
    free(late->seen_ids);
    free(late->seen_labels);
    assert_int_equal(atomic_load(&fake_allocations), 0);
    assert_int_equal(atomic_load(&fake_hosts), 0);
    assert_int_equal(atomic_load(&late->setting.store.readers), 0);
}

static void check_seen(const struct late *late)
{
    const struct setting *setting = &late->setting;
    assert_ok(device_queue_wait(&fake_device, late->queue));
    for (int64_t first = 0; first < setting->sampler.units; first += ROWS) {
        int64_t rows = fake_cut(&setting->sampler, first, ROWS);
        struct feed_batch batch = {.rows = (size_t)rows,
                                   .ids = late->seen_ids + first,
                                   .labels = late->seen_labels + first,
                                   .features = late->seen + (size_t)first * late->row_bytes,
                                   .first = first};
        check_batch(setting, &batch, first, (size_t)rows);
    }
}

static void run_epoch(enum element element, bool expand, size_t slots, size_t fetchers)
{
    struct late late = {.queue = NULL};
    late_init(&late, 1007, element, expand);
    late.setting.options.slots = slots;
    late.setting.options.fetchers = fetchers;
    setting_open(&late.setting);
    use_batches(&late, INT64_MAX);
    check_seen(&late);
    late_close(&late);
}

static void test_bytes_expanded_on_the_device(void **state)
{
    (void)state;
    run_epoch(ELEMENT_U8, true, 2, 1);
    run_epoch(ELEMENT_U8, true, 5, 3);
}

static void test_bytes_as_they_are(void **state)
{
    (void)state;
    run_epoch(ELEMENT_U8, false, 2, 1);
    run_epoch(ELEMENT_U8, false, 4, 2);
}

static void test_floats(void **state)
{
    (void)state;
    run_epoch(ELEMENT_F32, true, 3, 1);
}

static void test_close_while_the_device_works(void **state)
{
    (void)state;
    for (int64_t batches = 0; batches < 12; batches += 3) {
        struct late late = {.queue = NULL};
        late_init(&late, 1007, ELEMENT_U8, true);
        late.setting.options.fetchers = 2;
        setting_open(&late.setting);
        use_batches(&late, batches);
        late_close(&late);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_expanded_on_the_device),
        cmocka_unit_test(test_bytes_as_they_are),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_close_while_the_device_works),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
