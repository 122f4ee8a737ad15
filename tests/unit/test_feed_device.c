/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/feed/copier: A feed onto a device that works late (fake_device.h): the rows that
 * the caller's queue sees are the right ones, although neither the feed nor the caller waits for
 * it.
 */
#include "tests/unit/fake_device.h"
#include "tests/unit/feed_unit.h"

#include "loader/feed/copier.h"

#define ROWS 10
#define UNITS 1007
#define WIDE 36 /* features: an even number of them */

static const float mean[] = {0.25f, 100}, deviation[] = {0.5f, 3};

struct late {
    struct setting setting;
    struct device_queue *queue; /* the caller's */
    char *seen;                 /* [units, row_bytes]: what its queue read, batch behind batch */
    int64_t *seen_ids;          /* [units] */
    double *seen_labels;        /* [units] */
    char *seen_typed;           /* [units], of `label_bytes` */
    size_t label_bytes;
    size_t row_bytes;
};

static void late_init(struct late *late, size_t features, enum element element, bool expand)
{
    setting_init(&late->setting, UNITS, ROWS);
    device_close(late->setting.device);
    fake_store_init(&late->setting.store, UNITS, features, element);
    late->setting.device = NULL;
    late->setting.options.device = &fake_device;
    late->setting.options.expand = expand;
    late->row_bytes = features * (expand || element == ELEMENT_F32 ? sizeof(float) : 1);
    late->seen = calloc(UNITS, late->row_bytes);
    late->seen_ids = calloc(UNITS, sizeof(*late->seen_ids));
    late->seen_labels = calloc(UNITS, sizeof(*late->seen_labels));
    late->seen_typed = calloc(UNITS, sizeof(double));
    assert_true(late->seen && late->seen_ids && late->seen_labels && late->seen_typed);
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
        if (late->label_bytes > 0)
            assert_ok(device_copy_out(&fake_device, late->queue,
                                      late->seen_typed + (size_t)batch->first * late->label_bytes,
                                      batch->device_labels, batch->rows * late->label_bytes));
        else
            assert_null(batch->device_labels);
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
    free(late->seen_typed);
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

static void run_epoch_of(size_t features, enum element element, bool expand, size_t slots,
                         size_t fetchers)
{
    struct late late = {.queue = NULL};
    late_init(&late, features, element, expand);
    late.setting.options.slots = slots;
    late.setting.options.fetchers = fetchers;
    setting_open(&late.setting);
    use_batches(&late, INT64_MAX);
    check_seen(&late);
    late_close(&late);
}

static void run_epoch(enum element element, bool expand, size_t slots, size_t fetchers)
{
    run_epoch_of(FEATURES, element, expand, slots, fetchers);
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

/* What an epoch of the device brought, in the order of the stream. */
static char *features_of_epoch(enum element element, struct feature_moments moments,
                               size_t *ret_bytes)
{
    struct late late = {.queue = NULL};
    late_init(&late, WIDE, element, true);
    late.setting.options.moments = moments;
    late.setting.options.slots = 3;
    setting_open(&late.setting);
    use_batches(&late, INT64_MAX);
    assert_ok(device_queue_wait(&fake_device, late.queue));
    char *seen = late.seen;
    *ret_bytes = UNITS * late.row_bytes;
    late.seen = NULL;
    late_close(&late);
    return seen;
}

/* Of each of F features, of all alike, and of runs of them. */
static void test_normalized_on_the_device(void **state)
{
    float each[2][WIDE];
    struct feature_moments forms[] = {{.channels = 1, .mean = mean, .deviation = deviation},
                                      {.channels = 2, .mean = mean, .deviation = deviation},
                                      {.channels = WIDE, .mean = each[0], .deviation = each[1]},
                                      {.channels = 1, .mean = mean},
                                      {.channels = 1, .deviation = deviation}};
    (void)state;
    for (size_t i = 0; i < WIDE; i++) {
        each[0][i] = (float)i;
        each[1][i] = 1 + (float)i / 3;
    }
    for (size_t e = 0; e < 2; e++) {
        enum element element = e ? ELEMENT_F32 : ELEMENT_U8;
        size_t bytes;
        float *plain = (float *)(void *)features_of_epoch(
            element, (struct feature_moments){.channels = 0}, &bytes);
        for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
            float *seen = (float *)(void *)features_of_epoch(element, forms[f], &bytes);
            for (size_t i = 0; i < bytes / sizeof(float); i++) {
                size_t channel = i % WIDE / (WIDE / forms[f].channels);
                float centred = plain[i] - (forms[f].mean ? forms[f].mean[channel] : 0);
                float right = centred / (forms[f].deviation ? forms[f].deviation[channel] : 1);
                assert_memory_equal(&seen[i], &right, sizeof(right));
            }
            free(seen);
        }
        free(plain);
    }
}

static void run_labels(enum label_element element)
{
    struct late late = {.queue = NULL};
    late_init(&late, FEATURES, ELEMENT_U8, true);
    late.setting.options.labels = element;
    late.setting.options.slots = 3;
    late.label_bytes = label_element_bytes(element == LABELS_BY_KIND ? LABELS_I64 : element);
    setting_open(&late.setting);
    use_batches(&late, INT64_MAX);
    check_seen(&late);
    for (size_t i = 0; i < UNITS; i++) {
        double label = late.seen_labels[i];
        float single = (float)label;
        int64_t integer = (int64_t)label;
        const void *right = element == LABELS_F64   ? (const void *)&label
                            : element == LABELS_F32 ? (const void *)&single
                                                    : (const void *)&integer;
        assert_memory_equal(late.seen_typed + i * late.label_bytes, right, late.label_bytes);
    }
    late_close(&late);
}

static void test_labels_on_the_device(void **state)
{
    (void)state;
    run_labels(LABELS_F64);
    run_labels(LABELS_I64);
    run_labels(LABELS_F32);
    run_labels(LABELS_BY_KIND);
}

/* What waits side by side when the copier comes is one copy; labels are a second one. */
static void run_together(size_t row_bytes, bool expand, int64_t copies)
{
    enum { SLOTS = 5 };
    struct ring_shape shape = {.slots = SLOTS,
                               .rows = ROWS,
                               .row_bytes = row_bytes,
                               .device_row_bytes = row_bytes * (expand ? sizeof(float) : 1),
                               .label_bytes = sizeof(float)};
    struct copier_options options = {.device = &fake_device,
                                     .batch_rows = ROWS,
                                     .row_elements = row_bytes,
                                     .row_bytes = row_bytes,
                                     .expand = expand,
                                     .scale = 0.5f,
                                     .labels = LABELS_F32};
    struct ring *ring;
    struct copier *copier;
    assert_ok(ring_new(&shape, &fake_device, &ring));
    for (int64_t i = 0; i < SLOTS; i++) {
        struct slot *slot;
        assert_ok(ring_take_free(ring, &slot));
        slot->rows = ROWS - (size_t)i;
        memset(slot->host, (int)i + 1, slot->rows * row_bytes);
        for (size_t row = 0; row < slot->rows; row++)
            slot->labels[row] = (double)i;
        ring_filled(ring, slot, i);
    }
    int64_t before = atomic_load(&fake_copies);
    assert_ok(copier_start(&options, ring, &copier));
    for (int64_t i = 0; i < SLOTS; i++) {
        struct slot *slot;
        assert_ok(ring_take_copied(ring, i, INT64_MAX, &slot));
        assert_ok(device_event_wait(&fake_device, slot->copied));
        for (size_t at = 0; at < slot->rows * row_bytes; at++) {
            if (expand)
                assert_true(((float *)slot->device)[at] == (float)(i + 1) * 0.5f);
            else
                assert_int_equal(((uint8_t *)slot->device)[at], i + 1);
        }
        for (size_t row = 0; row < slot->rows; row++)
            assert_true(((float *)slot->device_labels)[row] == (float)i);
    }
    assert_int_equal(atomic_load(&fake_copies) - before, copies);
    ring_stop(ring);
    copier_stop(copier);
    ring_free(ring);
}

static void test_adjacent_batches_are_copied_together(void **state)
{
    (void)state;
    run_together(33, true, 2);
    run_together(33, false, 2);
    run_together(60000, true, 2);
    run_together(150000, false, 6); /* two of them are as much as is copied at once */
    run_together(500000, true, 10); /* each */
}

/* A store of labels alone. */
static void test_rows_without_features(void **state)
{
    (void)state;
    run_epoch_of(0, ELEMENT_F32, false, 3, 1);
}

static void test_close_while_the_device_works(void **state)
{
    (void)state;
    for (int64_t batches = 0; batches < 12; batches += 3) {
        struct late late = {.queue = NULL};
        late_init(&late, FEATURES, ELEMENT_U8, true);
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
        cmocka_unit_test(test_normalized_on_the_device),
        cmocka_unit_test(test_labels_on_the_device),
        cmocka_unit_test(test_adjacent_batches_are_copied_together),
        cmocka_unit_test(test_rows_without_features),
        cmocka_unit_test(test_close_while_the_device_works),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
