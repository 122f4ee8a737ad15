/* SPDX-License-Identifier: MIT */
/*
 * array_steps STORE ROWS STEPS OPTIMIZER RATE THREADS     (bench_trainer.py)
 *
 * Our own training without a sampler, a loader and a logdir: 784-100-10 (as many inputs as the store
 * has features), batches of 100, over arrays that lie in memory in the order in which they are
 * taken. What a chain that costs nothing would come to. One line: steps a second, and the
 * microseconds of processor time of one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/array.h"
#include "common/clock.h"
#include "loader/store/store.h"
#include "loader/store_open.h"
#include "trainer/compute/engine.h"
#include "trainer/model/model.h"

#define BATCH 100
#define CLASSES 10

struct rows {
    size_t count, features;
    uint8_t *values;  /* [count, features] */
    int32_t *classes; /* [count] */
};

static void fail(void)
{
    fprintf(stderr, "array_steps: %s\n", error_message());
    exit(1);
}

/* Rows 0 to count - 1 of the store, shuffled. */
static void read_rows(const char *uri, struct rows *rows)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    if (store_open(uri, false, &store) || reader_open(store, &reader))
        fail();
    rows->features = store_info(store)->features;
    int64_t *ids = array_new(rows->count, sizeof(*ids), "ids");
    double *labels = array_new(rows->count, sizeof(*labels), "labels");
    enum row_status *status = array_new(rows->count, sizeof(*status), "rows");
    rows->values = array_new(rows->count * rows->features, 1, "rows");
    rows->classes = array_new(rows->count, sizeof(*rows->classes), "labels");
    if (!ids || !labels || !status || !rows->values || !rows->classes)
        fail();
    uint64_t dice = 1;
    for (size_t i = 0; i < rows->count; i++) {
        dice = dice * UINT64_C(6364136223846793005) + 1;
        size_t other = (size_t)((dice >> 33) % (i + 1));
        ids[i] = ids[other];
        ids[other] = (int64_t)i;
    }
    if (reader_fetch(reader, ids, rows->count, rows->values, rows->features, labels, status))
        fail();
    for (size_t i = 0; i < rows->count; i++)
        rows->classes[i] = (int32_t)labels[i];
    free(ids);
    free(labels);
    free(status);
    reader_close(reader);
    store_close(store);
}

static struct model *make_model(struct engine *engine, const struct rows *rows,
                                const char *optimizer, float rate, unsigned threads)
{
    struct engine_options engine_options = {.device = "cpu", .threads = threads};
    struct model_options options = {.shape = {.kind = MODEL_MLP,
                                              .features = rows->features,
                                              .outputs = CLASSES,
                                              .hidden = {100},
                                              .hidden_count = 1},
                                    .loss = LOSS_CLIPPED_SUM,
                                    .seed = 1,
                                    .batch_rows = BATCH};
    struct model *model = NULL;
    if (optimizer_init(&options.optimizer, optimizer, rate) ||
        engine_open(&engine_options, engine) || model_new(&options, engine->kernel, &model))
        fail();
    return model;
}

static void train(struct model *model, const struct rows *rows, int64_t steps)
{
    size_t batches = rows->count / BATCH, at = 0;
    for (int64_t step = 0; step < steps; step++) {
        size_t first = at * BATCH;
        at = at + 1 < batches ? at + 1 : 0;
        struct model_batch batch = {.index = step,
                                    .rows = BATCH,
                                    .bytes = rows->values + first * rows->features,
                                    .scale = 1.0f / 255,
                                    .classes = rows->classes + first};
        if (model_step(model, &batch))
            fail();
    }
}

int main(int argc, char **argv)
{
    struct engine engine;
    if (argc != 7)
        return 2;
    struct rows rows = {.count = strtoul(argv[2], NULL, 10)};
    int64_t steps = strtoll(argv[3], NULL, 10);
    if (rows.count < BATCH || steps < 1)
        return 2;
    read_rows(argv[1], &rows);
    struct model *model = make_model(&engine, &rows, argv[4], strtof(argv[5], NULL),
                                     (unsigned)strtoul(argv[6], NULL, 10));
    train(model, &rows, steps / 10 + 1); /* products are made ready, caches filled */
    int64_t begin_ns = clock_now_ns();
    clock_t begin = clock();
    train(model, &rows, steps);
    double seconds = (double)(clock_now_ns() - begin_ns) * 1e-9;
    double busy = (double)(clock() - begin) / CLOCKS_PER_SEC;
    printf("%.0f steps/s, %.1f us\n", (double)steps / seconds, 1e6 * busy / (double)steps);
    model_free(model);
    engine_close(&engine);
    free(rows.values);
    free(rows.classes);
    return 0;
}
