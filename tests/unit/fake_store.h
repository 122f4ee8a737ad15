/* SPDX-License-Identifier: MIT */
/*
 * A store of R rows in no memory: feature j of row `id` is (31 id + 7 j) mod 256 (or that number
 * and a half as f32), its label id mod 10; where it is said to have such columns, its weight id / 4
 * and its group "g" and id mod 7. What is wrong with it is a struct's members.
 */
#ifndef TESTS_UNIT_FAKE_STORE_H
#define TESTS_UNIT_FAKE_STORE_H

#include "tests/unit/unit.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "common/stop.h"
#include "loader/store/store.h"

struct fake_store {
    struct store store; /* first */
    int64_t missing_id; /* -1: none */
    int64_t bad_id;
    int64_t broken_id;       /* the fetch fails as a whole */
    int delay_us;            /* of each fetch */
    int64_t slow_id;         /* a batch that begins with it takes 20 ms more */
    bool waits;              /* a fetch waits for a stop, as one does whose server is away */
    _Atomic bool hangs;      /* a fetch heeds nothing, as one does whose disk is away */
    _Atomic bool scan_hangs; /* the same of a scan */
    bool gives_features;     /* a scan; else it fails */
    _Atomic int64_t readers, fetches, scans; /* open; begun */
};

static inline uint8_t fake_feature(int64_t id, size_t j)
{
    return (uint8_t)(31 * (uint64_t)id + 7 * j);
}

/* What no float is. */
static inline int32_t fake_integer(uint8_t byte)
{
    return byte % 2 ? INT32_MAX - byte : INT32_MIN + 1 + byte;
}

static inline enum error fake_reader_open(struct store *store, struct reader **ret_reader)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    reader->store = store;
    atomic_fetch_add(&((struct fake_store *)store)->readers, 1);
    *ret_reader = reader;
    return OK;
}

static inline void fake_reader_close(struct reader *reader)
{
    atomic_fetch_sub(&((struct fake_store *)reader->store)->readers, 1);
    free(reader);
}

static inline enum row_status fake_row(const struct fake_store *fake, int64_t id, char *features)
{
    const struct store_info *info = &fake->store.info;
    if (id == fake->missing_id || id == fake->bad_id) {
        memset(features, 0, info->features * element_bytes(info->element));
        return id == fake->bad_id ? ROW_BAD : ROW_MISSING;
    }
    for (size_t j = 0; j < info->features; j++) {
        uint8_t byte = fake_feature(id, j);
        float real = (float)byte + 0.5f;
        int32_t whole = fake_integer(byte);
        if (info->element == ELEMENT_U8)
            features[j] = (char)byte;
        else if (info->element == ELEMENT_I32)
            memcpy(features + 4 * j, &whole, 4);
        else
            memcpy(features + 4 * j, &real, 4);
    }
    return ROW_OK;
}

static inline enum error fake_fetch(struct reader *reader, const int64_t *ids, size_t count,
                                    void *features, size_t stride_bytes, double *labels,
                                    enum row_status *status)
{
    struct fake_store *fake = (struct fake_store *)reader->store;
    int64_t first_bad = -1;
    atomic_fetch_add(&fake->fetches, 1);
    while (atomic_load(&fake->hangs))
        usleep(1000);
    if (fake->waits && stop_wait(clock_deadline_ns(-1)))
        return error_set(ERROR_CANCELLED, "fake.db: stopped");
    if (fake->delay_us > 0)
        usleep((useconds_t)fake->delay_us);
    if (fake->slow_id >= 0 && ids[0] == fake->slow_id)
        usleep(20000);
    for (size_t i = 0; i < count; i++) {
        if (ids[i] == fake->broken_id)
            return error_set(ERROR_IO, "fake.db: id %" PRId64 ": disk on fire", ids[i]);
        status[i] = fake_row(fake, ids[i], (char *)features + i * stride_bytes);
        labels[i] = status[i] == ROW_OK ? (double)(ids[i] % 10) : 0;
        if (status[i] != ROW_OK && first_bad < 0)
            first_bad = ids[i];
    }
    if (first_bad >= 0)
        error_set(ERROR_INPUT, "fake.db, row of id %" PRId64 ", column p3: \"x\" is no number",
                  first_bad);
    return OK;
}

/* As SCAN_BAD_ROWS says, row by row. */
static inline enum error fake_scan_features(const struct fake_store *fake, store_sink *sink,
                                            void *context)
{
    const struct store_info *info = &fake->store.info;
    size_t bytes = info->features * element_bytes(info->element) + 1;
    char *features = malloc(bytes);
    enum error error = OK;
    if (!features)
        return error_set_memory(bytes, "a fake row");
    for (int64_t id = 0; id < info->rows && !error; id++) {
        double label = (double)(id % 10);
        enum row_status status = fake_row(fake, id, features);
        struct store_block block = {.rows = 1,
                                    .first_row = id,
                                    .ids = &id,
                                    .label_values = &label,
                                    .features = features,
                                    .status = &status};
        error = sink(context, &block);
    }
    free(features);
    return error;
}

static inline enum error fake_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                                   void *context)
{
    struct fake_store *fake = (struct fake_store *)store;
    atomic_fetch_add(&fake->scans, 1);
    while (atomic_load(&fake->scan_hangs))
        usleep(1000);
    if (columns != SCAN_KEYS && fake->gives_features)
        return fake_scan_features(fake, sink, context);
    if (columns != SCAN_KEYS || !store->info.weight_column)
        return error_set(ERROR_IO, "fake.db: it cannot be scanned");
    enum error error = OK;
    for (int64_t id = 0; id < store->info.rows && !error; id++) {
        double weight = (double)id / 4;
        char text[32], digit = (char)('0' + id % 10);
        struct text label = {.data = &digit, .length = 1};
        struct text group = {.data = text,
                             .length = (size_t)snprintf(text, sizeof(text), "g%" PRId64, id % 7)};
        struct store_block block = {.rows = 1,
                                    .first_row = id,
                                    .ids = &id,
                                    .labels = &label,
                                    .weights = &weight,
                                    .groups = &group};
        error = sink(context, &block);
    }
    return error;
}

static const struct store_ops fake_store_ops = {.scheme = "fake",
                                                .scan = fake_scan,
                                                .reader_open = fake_reader_open,
                                                .reader_close = fake_reader_close,
                                                .fetch = fake_fetch};

static inline void fake_store_init(struct fake_store *fake, int64_t rows, size_t features,
                                   enum element element)
{
    *fake = (struct fake_store){.store = {.ops = &fake_store_ops,
                                          .info = {.uri = "fake:",
                                                   .rows = rows,
                                                   .features = features,
                                                   .element = element,
                                                   .label_kind = LABEL_INTEGER,
                                                   .label_column = "label"}},
                                .missing_id = -1,
                                .bad_id = -1,
                                .broken_id = -1,
                                .slow_id = -1};
}

#endif
