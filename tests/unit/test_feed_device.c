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
#define EPOCHS 3 /* at most */
#define WIDE 36  /* features: an even number of them */

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
    late->row_bytes = features * (expand ? sizeof(float) : element_bytes(element));
    late->seen = calloc(UNITS * EPOCHS, late->row_bytes);
    late->seen_ids = calloc(UNITS * EPOCHS, sizeof(*late->seen_ids));
    late->seen_labels = calloc(UNITS * EPOCHS, sizeof(*late->seen_labels));
    late->seen_typed = calloc(UNITS * EPOCHS, sizeof(double));
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

/* The batches before position `end`. */
static void check_until(const struct late *late, int64_t end)
{
    const struct setting *setting = &late->setting;
    int64_t rows;
    for (int64_t first = 0; first < end; first += rows) {
        rows = fake_cut(&setting->sampler, first, ROWS);
        struct feed_batch batch = {.rows = (size_t)rows,
                                   .ids = late->seen_ids + first,
                                   .labels = late->seen_labels + first,
                                   .features = late->seen + (size_t)first * late->row_bytes,
                                   .epoch = first / setting->sampler.units,
                                   .first = first};
        check_batch(setting, &batch, first, (size_t)rows);
    }
}

static void check_seen(const struct late *late)
{
    assert_ok(device_queue_wait(&fake_device, late->queue));
    check_until(late, late->setting.sampler.units * late->setting.sampler.epochs);
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

static void test_integers_as_they_are(void **state)
{
    (void)state;
    run_epoch(ELEMENT_I32, false, 2, 1);
    run_epoch(ELEMENT_I32, false, 4, 2);
}

/* ---- rows that differ in length ----------------------------------------- */

static int64_t length_of(int64_t id)
{
    return id * 31 % (FEATURES + 1);
}

/* The rows of the fake store, of which only so much is theirs. */
static enum error fetch_varying(struct reader *reader, const int64_t *ids, size_t count,
                                void *features, size_t stride_bytes, double *labels,
                                enum row_status *status)
{
    assert_non_null(reader->lengths);
    for (size_t i = 0; i < count; i++)
        reader->lengths[i] = length_of(ids[i]);
    return fake_fetch(reader, ids, count, features, stride_bytes, labels, status);
}

/* The device has each row's features, zeros behind them, and its length. */
static void check_varying(const struct late *late, const int64_t *widths, const int64_t *lengths)
{
    bool expand = late->setting.options.expand;
    size_t unit = expand ? sizeof(float) : 1;
    int64_t rows;
    for (int64_t first = 0; first < UNITS; first += rows) {
        const char *features = late->seen + (size_t)first * late->row_bytes;
        rows = fake_cut(&late->setting.sampler, first, ROWS);
        for (int64_t i = 0; i < rows * widths[first]; i++) {
            int64_t row = first + i / widths[first], column = i % widths[first];
            int64_t id = fake_id(&late->setting.sampler, row);
            uint8_t byte = column < length_of(id) ? fake_feature(id, (size_t)column) : 0;
            float value = (float)byte * late->setting.options.scale;
            assert_int_equal(lengths[row], length_of(id));
            assert_memory_equal(features + (size_t)i * unit,
                                expand ? (const void *)&value : (const void *)&byte, unit);
        }
    }
}

static void run_varying(bool expand)
{
    struct late late = {.queue = NULL};
    struct store_ops ops = fake_store_ops;
    static int64_t widths[UNITS], lengths[UNITS];
    const struct feed_batch *batch;
    late_init(&late, FEATURES, ELEMENT_U8, expand);
    ops.fetch = fetch_varying;
    late.setting.store.store.ops = &ops;
    late.setting.store.store.info.lengths = LENGTHS_VARY;
    late.setting.store.store.info.longest = FEATURES;
    late.setting.options.slots = 4;
    late.setting.options.fetchers = 2;
    setting_open(&late.setting);
    while (!feed_next(late.setting.feed, late.queue, &batch)) {
        size_t unit = expand ? sizeof(float) : 1;
        widths[batch->first] = (int64_t)batch->width;
        assert_ok(device_copy_out(&fake_device, late.queue,
                                  late.seen + (size_t)batch->first * late.row_bytes,
                                  batch->features, batch->rows * batch->width * unit));
        assert_ok(device_copy_out(&fake_device, late.queue, lengths + batch->first,
                                  batch->device_lengths, batch->rows * sizeof(*lengths)));
        assert_ok(feed_put(late.setting.feed, late.queue, batch));
    }
    assert_ok(device_queue_wait(&fake_device, late.queue));
    check_varying(&late, widths, lengths);
    late_close(&late);
}

static void test_rows_that_differ_in_length(void **state)
{
    (void)state;
    run_varying(false);
    run_varying(true);
}

/* What an epoch of the device brought, in the order of the stream. */
static char *features_of_epoch(enum element element, struct feature_moments moments,
                               uint64_t resident_bytes, size_t *ret_bytes)
{
    struct late late = {.queue = NULL};
    late_init(&late, WIDE, element, true);
    late.setting.options.moments = moments;
    late.setting.options.resident_bytes = resident_bytes;
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
            element, (struct feature_moments){.channels = 0}, 0, &bytes);
        for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
            float *seen = (float *)(void *)features_of_epoch(element, forms[f], 0, &bytes);
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
    late.label_bytes = label_element_bytes(element == LABELS_BY_KIND ? LABELS_I64 : element, 0);
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

/* The rows are made on the device, behind the copy of the codes. */
static void run_one_hot(enum label_element element, size_t classes, size_t resident_bytes)
{
    struct late late = {.queue = NULL};
    late_init(&late, FEATURES, ELEMENT_U8, true);
    late.setting.options.labels = element;
    late.setting.options.classes = classes;
    late.setting.options.resident_bytes = resident_bytes;
    late.setting.options.slots = 3;
    late.label_bytes = label_element_bytes(element, classes);
    free(late.seen_typed);
    late.seen_typed = calloc(UNITS * EPOCHS, late.label_bytes);
    assert_non_null(late.seen_typed);
    setting_open(&late.setting);
    assert_int_equal(feed_classes(late.setting.feed), classes);
    use_batches(&late, INT64_MAX);
    check_seen(&late);
    for (size_t i = 0; i < UNITS * classes; i++) {
        bool hot = i % classes == (size_t)late.seen_labels[i / classes];
        if (element == LABELS_ONE_HOT_F32)
            assert_true(((float *)late.seen_typed)[i] == (hot ? 1.0f : 0.0f));
        else
            assert_int_equal(((uint8_t *)late.seen_typed)[i], hot);
    }
    late_close(&late);
}

static void test_one_hot_labels(void **state)
{
    (void)state;
    run_one_hot(LABELS_ONE_HOT_F32, 10, 0);
    run_one_hot(LABELS_ONE_HOT_U8, 10, 0);
    run_one_hot(LABELS_ONE_HOT_F32, 333, 1 << 20);
}

/* The batch that has it is not handed out, those before it are. */
static void test_a_label_that_is_no_code(void **state)
{
    struct late late = {.queue = NULL};
    const struct feed_batch *batch;
    enum error error = OK;
    (void)state;
    late_init(&late, FEATURES, ELEMENT_U8, true);
    late.setting.options.labels = LABELS_ONE_HOT_U8;
    late.setting.options.classes = 9; /* labels are 0 to 9 */
    setting_open(&late.setting);
    while (!(error = feed_next(late.setting.feed, late.queue, &batch))) {
        for (size_t i = 0; i < batch->rows; i++)
            assert_true(batch->labels[i] < 9);
        assert_ok(feed_put(late.setting.feed, late.queue, batch));
    }
    assert_int_equal(error, ERROR_INPUT);
    assert_non_null(strstr(error_message(),
                           "has the label 9, which is not one of the codes of 9 classes, 0 to 8"));
    late_close(&late);
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
        slot->width = row_bytes;
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

/* ---- rows that stay on the device --------------------------------------- */

/* All epochs are right, and from the second one on nothing but row numbers is copied. */
static void run_resident(struct late *late, size_t fetchers, int64_t resident, bool is_exact)
{
    struct feed_stats stats;
    late->setting.sampler.epochs = EPOCHS;
    late->setting.options.slots = 5;
    late->setting.options.fetchers = fetchers;
    setting_open(&late->setting);
    use_batches(late, UNITS / ROWS + 1);
    feed_get_stats(late->setting.feed, &stats);
    assert_true(!is_exact || stats.resident_rows <= UNITS);
    use_batches(late, INT64_MAX);
    check_seen(late);
    feed_get_stats(late->setting.feed, &stats);
    assert_int_equal(stats.resident_rows, resident);
    if (is_exact)
        assert_int_equal(stats.copied_rows, UNITS + (EPOCHS - 1) * (UNITS - resident));
    else
        assert_true(stats.copied_rows >= UNITS && stats.copied_rows < 2 * UNITS);
    late_close(late);
}

static void test_rows_stay_on_the_device(void **state)
{
    (void)state;
    for (int form = 0; form < 8; form++) {
        struct late late = {.queue = NULL};
        enum element element = form < 4 ? ELEMENT_U8 : form < 6 ? ELEMENT_F32 : ELEMENT_I32;
        late_init(&late, FEATURES, element, form % 4 < 2);
        late.setting.options.resident_bytes = FEED_RESIDENT_AUTO;
        if (form % 2) /* ids that are a column */
            late.setting.store.store.info.id_column = "id";
        run_resident(&late, 1, UNITS, true);
    }
}

/* A fetcher that is behind may fetch what another one brings for a later batch. */
static void test_rows_that_stay_come_by_several_fetchers(void **state)
{
    (void)state;
    struct late late = {.queue = NULL};
    late_init(&late, FEATURES, ELEMENT_U8, true);
    late.setting.options.resident_bytes = FEED_RESIDENT_AUTO;
    late.setting.store.delay_us = 100;
    run_resident(&late, 4, UNITS, false);
}

static void test_as_many_rows_stay_as_there_is_room_for(void **state)
{
    (void)state;
    for (int64_t rows = 1; rows < UNITS; rows += 333) {
        struct late late = {.queue = NULL};
        late_init(&late, FEATURES, ELEMENT_U8, true);
        late.setting.options.resident_bytes = (uint64_t)(rows + ROWS * 5) * FEATURES + 7;
        run_resident(&late, 1, rows, true);
    }
}

/* Too little is left there, or it is gone when it is asked for: each batch is copied, as without. */
static void test_a_device_without_room(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++) {
        struct late late = {.queue = NULL};
        struct feed_stats stats;
        late_init(&late, FEATURES, ELEMENT_U8, true);
        late.setting.options.resident_bytes = form == 2 ? 100 : FEED_RESIDENT_AUTO;
        uint64_t bytes = (UNITS + 64 * ROWS) * FEATURES; /* 64 slots, with floats, fit twice */
        fake_left = form == 0 ? 2 * bytes - 1 : (uint64_t)1 << 40;
        fake_refused = form == 1 ? bytes : 0;
        setting_open(&late.setting);
        use_batches(&late, INT64_MAX);
        check_seen(&late);
        feed_get_stats(late.setting.feed, &stats);
        assert_int_equal(stats.resident_rows, 0);
        assert_int_equal(stats.copied_rows, 0);
        fake_left = (uint64_t)1 << 40;
        fake_refused = 0;
        late_close(&late);
    }
}

/* What they are scaled and normalized to is what it was when each batch was copied. */
static void test_rows_that_stay_are_normalized(void **state)
{
    (void)state;
    struct feature_moments moments = {.channels = 2, .mean = mean, .deviation = deviation};
    for (int e = 0; e < 2; e++) {
        enum element element = e ? ELEMENT_F32 : ELEMENT_U8;
        size_t bytes;
        char *copied = features_of_epoch(element, moments, 0, &bytes);
        char *gathered = features_of_epoch(element, moments, FEED_RESIDENT_AUTO, &bytes);
        assert_true(memcmp(copied, gathered, bytes) == 0);
        free(copied);
        free(gathered);
    }
}

/* All that an epoch-wise walk brings: rows, ids, labels and features of each batch. */
struct brought {
    char *bytes;
    size_t length, capacity;
};

static void bring(struct brought *brought, struct device *device, struct device_queue *queue,
                  const void *from, size_t bytes, bool is_on_device)
{
    if (brought->length + bytes > brought->capacity) {
        brought->capacity = 2 * brought->capacity + bytes;
        brought->bytes = realloc(brought->bytes, brought->capacity);
        assert_non_null(brought->bytes);
    }
    if (!is_on_device && bytes > 0)
        memcpy(brought->bytes + brought->length, from, bytes);
    if (is_on_device)
        assert_ok(device_copy_out(device, queue, brought->bytes + brought->length, from, bytes));
    assert_ok(device_queue_wait(device, queue));
    brought->length += bytes;
}

static struct brought walk(bool is_cpu, bool expand, enum bad_rows bad_rows, uint64_t resident)
{
    struct late late = {.queue = NULL};
    struct brought brought = {.bytes = NULL};
    struct device *device = &fake_device;
    const struct feed_batch *batch;
    late_init(&late, FEATURES, ELEMENT_U8, expand);
    late.setting.sampler.epochs = EPOCHS;
    late.setting.store.missing_id = 3;
    late.setting.store.bad_id = 200;
    late.setting.options.bad_rows = bad_rows;
    late.setting.options.resident_bytes = resident;
    late.setting.options.fetchers = 2;
    struct device_queue *queue = late.queue;
    if (is_cpu) {
        assert_ok(device_open("cpu", &device));
        late.setting.options.device = device;
        assert_ok(device_queue_new(device, &queue));
    }
    setting_open(&late.setting);
    enum error error;
    while (!(error = feed_next(late.setting.feed, queue, &batch))) {
        bring(&brought, device, queue, &batch->rows, sizeof(batch->rows), false);
        bring(&brought, device, queue, batch->ids, batch->rows * sizeof(*batch->ids), false);
        bring(&brought, device, queue, batch->labels, batch->rows * sizeof(*batch->labels), false);
        bring(&brought, device, queue, batch->features, batch->rows * late.row_bytes, true);
        assert_ok(feed_put(late.setting.feed, queue, batch));
    }
    assert_int_equal(error, ERROR_END);
    if (is_cpu) {
        feed_close(late.setting.feed);
        late.setting.feed = NULL;
        device_queue_free(device, queue);
        device_close(device);
    }
    late_close(&late);
    return brought;
}

/* Rows that are bad are left out, or are zeros, the first time and from then on, and the bits are
 * the same: of rows that stay or not, on the CPU or not. */
static void test_bad_rows_stay_bad(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        enum bad_rows bad_rows = form < 2 ? BAD_ROWS_SKIP : BAD_ROWS_REPLACE;
        struct brought right = walk(true, form % 2, bad_rows, 0);
        for (int other = 0; other < 4; other++) {
            uint64_t resident = other == 0 ? 0 : other == 1 ? FEED_RESIDENT_AUTO : 1 << 20;
            struct brought seen = walk(other == 3, form % 2, bad_rows, resident);
            assert_int_equal(seen.length, right.length);
            assert_true(memcmp(seen.bytes, right.bytes, right.length) == 0);
            free(seen.bytes);
        }
        free(right.bytes);
    }
}

/* Weights and groups as the caller's queue sees them: seen_labels and seen_ids take them. */
static void run_attributes(enum weight_element element, enum bad_rows bad_rows)
{
    struct late late = {.queue = NULL};
    const struct feed_batch *batch;
    int64_t rows = 0;
    late_init(&late, FEATURES, ELEMENT_U8, true);
    struct fake_store *store = &late.setting.store;
    store->store.info.weight_column = "weight";
    store->store.info.group_column = "group";
    store->bad_id = 3;
    late.setting.options.weights = element;
    late.setting.options.groups = true;
    late.setting.options.bad_rows = bad_rows;
    late.setting.options.resident_bytes = element == WEIGHTS_F64 ? FEED_RESIDENT_AUTO : 0;
    setting_open(&late.setting);
    size_t bytes = weight_element_bytes(element), count;
    const char *const *texts = feed_group_texts(late.setting.feed, &count);
    assert_int_equal(count, 7);
    while (!feed_next(late.setting.feed, late.queue, &batch)) {
        double weights[ROWS], *wide = weights;
        float *narrow = (float *)(void *)weights;
        int64_t groups[ROWS];
        assert_ok(device_copy_out(&fake_device, late.queue, weights, batch->device_weights,
                                  batch->rows * bytes));
        assert_ok(device_copy_out(&fake_device, late.queue, groups, batch->device_groups,
                                  batch->rows * sizeof(*groups)));
        assert_ok(device_queue_wait(&fake_device, late.queue));
        assert_memory_equal(weights, batch->weights, batch->rows * bytes);
        assert_memory_equal(groups, batch->groups, batch->rows * sizeof(*groups));
        for (size_t i = 0; i < batch->rows; i++, rows++) {
            int64_t id = batch->ids[i];
            double right = id == 3 ? 0 : (double)id / 4, weight = narrow[i];
            if (element == WEIGHTS_F64)
                weight = wide[i];
            assert_true(weight == right);
            assert_int_equal(texts[groups[i]][1] - '0', id == 3 ? 0 : id % 7);
        }
        assert_ok(feed_put(late.setting.feed, late.queue, batch));
    }
    assert_int_equal(rows, bad_rows == BAD_ROWS_SKIP ? UNITS - 1 : UNITS);
    late_close(&late);
}

static void test_weights_and_groups_on_the_device(void **state)
{
    (void)state;
    run_attributes(WEIGHTS_F32, BAD_ROWS_SKIP);
    run_attributes(WEIGHTS_F64, BAD_ROWS_REPLACE);
}

static void test_close_while_the_device_works(void **state)
{
    (void)state;
    for (int64_t batches = 0; batches < 24; batches += 3) {
        struct late late = {.queue = NULL};
        late_init(&late, FEATURES, ELEMENT_U8, true);
        late.setting.options.resident_bytes = batches % 2 ? FEED_RESIDENT_AUTO : 0;
        late.setting.options.fetchers = 2;
        setting_open(&late.setting);
        use_batches(&late, batches);
        late_close(&late);
    }
}

/* ---- a device that is lost ------------------------------------------------ */

/* As use_batches(), until a call fails. The feed's failures last. */
static enum error use_until_lost(struct late *late, int64_t *ret_end)
{
    struct feed *feed = late->setting.feed;
    const struct feed_batch *batch;
    enum error error;
    while (!(error = feed_next(feed, late->queue, &batch))) {
        int64_t first = batch->first, end = first + (int64_t)batch->rows;
        memcpy(late->seen_ids + first, batch->ids, batch->rows * sizeof(*batch->ids));
        memcpy(late->seen_labels + first, batch->labels, batch->rows * sizeof(*batch->labels));
        error =
            device_copy_out(&fake_device, late->queue, late->seen + (size_t)first * late->row_bytes,
                            batch->features, batch->rows * late->row_bytes);
        if (error)
            return error;
        error = feed_put(feed, late->queue, batch);
        if (error)
            break;
        *ret_end = end;
    }
    assert_int_equal(feed_next(feed, late->queue, &batch), error);
    return error;
}

/* Few rows, so that each of the device's calls can fail. */
static void lost_init(struct late *late, int form)
{
    static const enum element elements[] = {ELEMENT_U8, ELEMENT_U8, ELEMENT_I32, ELEMENT_F32};
    static const float zeros[] = {0, 0}, ones[] = {1, 1};
    struct feature_moments moments = {.channels = 2, .mean = zeros, .deviation = ones};
    struct feed_options *options = &late->setting.options;
    struct store_info *store = &late->setting.store.store.info;
    late_init(late, WIDE, elements[form], form < 2);
    late->setting.sampler.units = store->rows = 2 * ROWS + 1;
    store->weight_column = "weight";
    store->group_column = "group";
    options->weights = form == 0 ? WEIGHTS_F32 : WEIGHTS_NONE;
    options->groups = form == 0;
    options->slots = 2;
    options->labels = form == 1 ? LABELS_ONE_HOT_F32 : form == 0 ? LABELS_F32 : LABELS_HOST;
    options->classes = form == 1 ? 10 : 0;
    options->resident_bytes = form == 0 ? 0 : FEED_RESIDENT_AUTO;
    if (form == 2) /* five rows stay */
        options->resident_bytes = (5 + 2 * ROWS) * WIDE * sizeof(int32_t);
    if (form == 0 || form == 3)
        options->moments = moments;
}

/* False: no call failed, all went well. */
static bool lose_call(int form, long nth)
{
    struct late late = {.queue = NULL};
    int64_t end = 0;
    lost_init(&late, form);
    fake_start(&late.setting.sampler);
    late.setting.options.sampler_url = late.setting.sampler.url;
    fake_calls_left = nth;
    enum error error = feed_open(&late.setting.options, &late.setting.feed);
    if (!error)
        error = use_until_lost(&late, &end);
    if (error == ERROR_END)
        assert_int_equal(end, late.setting.sampler.units);
    else
        assert_fails(error, ERROR_UNAVAILABLE, "a fake device that is lost");
    enum error waited = device_queue_wait(&fake_device, late.queue);
    assert_true(!waited || waited == ERROR_UNAVAILABLE);
    check_until(&late, end);
    late_close(&late);
    bool was_lost = fake_calls_left < 0;
    fake_calls_left = -1;
    return was_lost;
}

/* Whichever call it is, the feed's or its caller's: what came before is right, the message comes
 * behind it, and all that was taken from the device is given back. */
static void test_each_call_of_a_device_fails(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        long nth = 0, step = unit_is_for_threads() ? 7 : 1;
        while (lose_call(form, nth))
            nth += step;
        assert_true(nth > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_expanded_on_the_device),
        cmocka_unit_test(test_bytes_as_they_are),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_integers_as_they_are),
        cmocka_unit_test(test_rows_that_differ_in_length),
        cmocka_unit_test(test_normalized_on_the_device),
        cmocka_unit_test(test_labels_on_the_device),
        cmocka_unit_test(test_one_hot_labels),
        cmocka_unit_test(test_a_label_that_is_no_code),
        cmocka_unit_test(test_adjacent_batches_are_copied_together),
        cmocka_unit_test(test_rows_without_features),
        cmocka_unit_test(test_rows_stay_on_the_device),
        cmocka_unit_test(test_rows_that_stay_come_by_several_fetchers),
        cmocka_unit_test(test_as_many_rows_stay_as_there_is_room_for),
        cmocka_unit_test(test_a_device_without_room),
        cmocka_unit_test(test_rows_that_stay_are_normalized),
        cmocka_unit_test(test_bad_rows_stay_bad),
        cmocka_unit_test(test_weights_and_groups_on_the_device),
        cmocka_unit_test(test_close_while_the_device_works),
        cmocka_unit_test(test_each_call_of_a_device_fails),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
