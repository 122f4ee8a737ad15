/* SPDX-License-Identifier: MIT */
/*
 * How fast a feed is: `loader_epoch epoch --sampler URL --store URI ...` walks whole epochs of a
 * stream and prints one line of JSON an epoch. The caller does nothing but read one
 * float of each row, so that the feed is what is measured; --work_us makes it a trainer that
 * computes for so long a batch. `loader_epoch gather` makes the same floats without a feed.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/command/options.h"
#include "common/log.h"
#include "common/stop.h"
#include "loader/feed/feed.h"
#include "loader/feed/sampler_client.h"
#include "loader/store/row_slots.h"
#include "loader/store_open.h"

struct bench {
    const char *sampler, *store, *device;
    int64_t size, epochs, slots, fetchers, cache_bytes, work_us, draws_ahead, resident_bytes;
    int64_t bucket_window;
};

static const struct command command_epoch, command_gather;
static const struct command *const commands[] = {&command_epoch, &command_gather};
static const struct program program = {
    .name = "loader_epoch", .summary = "measures a feed", .commands = commands, .command_count = 2};

static enum error count_batches(const struct bench *bench, int64_t *ret_batches)
{
    struct sampler_client *client = NULL;
    struct sampler_stream stream;
    enum error error = sampler_client_open(bench->sampler, NULL, NULL, 10000, &client);
    if (!error)
        error = sampler_client_describe(client, &stream);
    if (!error)
        *ret_batches = (stream.epoch_draws + bench->size - 1) / bench->size;
    sampler_client_close(client);
    return error;
}

static void work(int64_t microseconds)
{
    int64_t until_ns = clock_now_ns() + microseconds * 1000;
    while (clock_now_ns() < until_ns)
        ;
}

/* One epoch; *ret_sum keeps the reads. */
static enum error walk(struct feed *feed, const struct bench *bench, int64_t batches,
                       double *ret_sum)
{
    for (int64_t i = 0; i < batches; i++) {
        const struct feed_batch *batch;
        enum error error = feed_next(feed, NULL, &batch);
        if (error)
            return error;
        for (size_t row = 0; row < batch->rows && batch->width > 0; row++)
            *ret_sum += ((const float *)batch->features)[row * batch->width];
        if (bench->work_us > 0)
            work(bench->work_us);
        error = feed_put(feed, NULL, batch);
        if (error)
            return error;
    }
    return OK;
}

static void print_epoch(const struct feed *feed, int64_t epoch, int64_t started_ns,
                        const struct feed_stats *before)
{
    struct feed_stats now;
    double seconds = (double)(clock_now_ns() - started_ns) * 1e-9;
    feed_get_stats(feed, &now);
    int64_t rows = now.rows - before->rows;
    printf("{\"epoch\":%" PRId64 ",\"rows\":%" PRId64 ",\"seconds\":%.6f,\"rows_per_s\":%.0f,"
           "\"wait_share\":%.5f,\"pull_s\":%.6f,\"fetch_s\":%.6f,\"copy_s\":%.6f,"
           "\"first_batch_s\":%.6f,\"bytes\":%" PRId64 "}\n",
           epoch, rows, seconds, (double)rows / seconds,
           (double)(now.wait_ns - before->wait_ns) * 1e-9 / seconds,
           (double)(now.pull_ns - before->pull_ns) * 1e-9,
           (double)(now.fetch_ns - before->fetch_ns) * 1e-9,
           (double)(now.copy_ns - before->copy_ns) * 1e-9, (double)now.first_ns * 1e-9,
           now.bytes - before->bytes);
}

static enum error measure(const struct bench *bench, struct store *store, struct device *device,
                          int64_t started_ns)
{
    struct feed_options options = {.sampler_url = bench->sampler,
                                   .store = store,
                                   .device = device,
                                   .pull = bench->draws_ahead > 0 ? FEED_DRAW : FEED_INDEX,
                                   .draws_ahead = (size_t)bench->draws_ahead,
                                   .batches = -1,
                                   .batch_rows = (size_t)bench->size,
                                   .slots = (size_t)bench->slots,
                                   .fetchers = (size_t)bench->fetchers,
                                   .cache_bytes = (size_t)bench->cache_bytes,
                                   .resident_bytes = (uint64_t)bench->resident_bytes,
                                   .bucket_window = (size_t)bench->bucket_window,
                                   .expand = true,
                                   .scale = 1.0f / 255,
                                   .patience_ms = 10000};
    struct feed *feed = NULL;
    struct feed_stats before = {0};
    double sum = 0;
    int64_t batches;
    enum error error = count_batches(bench, &batches);
    if (!error)
        error = feed_open(&options, &feed);
    for (int64_t epoch = 0; !error && epoch < bench->epochs; epoch++) {
        error = walk(feed, bench, batches, &sum);
        if (!error)
            print_epoch(feed, epoch, started_ns, &before);
        feed_get_stats(feed, &before);
        started_ns = clock_now_ns();
    }
    log_debug("sum %g", sum);
    feed_close(feed);
    return error;
}

static enum error run(const struct program *self, int argc, char **argv)
{
    struct bench bench = {.device = "cpu", .size = 100, .epochs = 3};
    struct store *store = NULL;
    struct device *device = NULL;
    const struct option options[] = {
        {.name = "sampler",
         .type = OPTION_TEXT,
         .target = &bench.sampler,
         .required = true,
         .argument = "URL",
         .help = "the sampler"},
        {.name = "store",
         .type = OPTION_TEXT,
         .target = &bench.store,
         .required = true,
         .argument = "URI",
         .help = "the rows"},
        {.name = "device",
         .type = OPTION_TEXT,
         .target = &bench.device,
         .argument = "NAME",
         .help = "where batches go; only the CPU's are read"},
        {.name = "size",
         .type = OPTION_INTEGER,
         .target = &bench.size,
         .minimum = 1,
         .maximum = 1000000,
         .argument = "ROWS",
         .help = "rows a batch"},
        {.name = "epochs",
         .type = OPTION_INTEGER,
         .target = &bench.epochs,
         .minimum = 1,
         .maximum = 1000000,
         .argument = "N",
         .help = "epochs to walk"},
        {.name = "slots",
         .type = OPTION_INTEGER,
         .target = &bench.slots,
         .maximum = 4096,
         .argument = "K",
         .help = "slots of the ring"},
        {.name = "fetchers",
         .type = OPTION_INTEGER,
         .target = &bench.fetchers,
         .maximum = 64,
         .argument = "N",
         .help = "threads that fetch"},
        {.name = "cache_bytes",
         .type = OPTION_INTEGER,
         .target = &bench.cache_bytes,
         .maximum = 1e15L,
         .argument = "BYTES",
         .help = "row cache"},
        {.name = "resident_bytes",
         .type = OPTION_INTEGER,
         .target = &bench.resident_bytes,
         .maximum = 1e15L,
         .argument = "BYTES",
         .help = "rows that stay on the device"},
        {.name = "draws_ahead",
         .type = OPTION_INTEGER,
         .target = &bench.draws_ahead,
         .maximum = 64,
         .argument = "N",
         .help = "draw, with so many requests in flight; 0: ask by index"},
        {.name = "bucket_window",
         .type = OPTION_INTEGER,
         .target = &bench.bucket_window,
         .maximum = 1000000,
         .argument = "BATCHES",
         .help = "batches of rows of similar length, within so many"},
        {.name = "work_us",
         .type = OPTION_INTEGER,
         .target = &bench.work_us,
         .maximum = 1000000,
         .argument = "US",
         .help = "computing time of the caller, each batch"},
    };
    enum error error = options_parse(self, &command_epoch, options,
                                     sizeof(options) / sizeof(options[0]), argc, argv, NULL);
    if (error)
        return error;
    int64_t started_ns = clock_now_ns();
    error = stop_install();
    if (!error)
        error = store_open_with(
            bench.store, &(struct store_open_options){.cache.bytes = (uint64_t)bench.cache_bytes},
            &store);
    if (!error)
        error = device_open(bench.device, &device);
    if (!error)
        error = measure(&bench, store, device, started_ns);
    device_close(device);
    store_close(store);
    return error;
}

static const struct command command_epoch = {
    .name = "epoch", .summary = "walks epochs, a line of JSON each", .run = run};

/* ---- without a feed ----------------------------------------------------- */

#define THREADS_LIMIT 64
#define FEATURES_LIMIT 65536

/* Bytes in memory, and the order in which rows become floats. */
struct rows {
    struct device *device;
    struct device_rows all; /* `count` is of all rows, `places` their order */
    size_t batch_rows, threads;
};

/* Each of `threads` makes every such batch, in memory of its own, again and again. */
struct gatherer {
    const struct rows *rows;
    struct device_queue *queue;
    float *floats;
    size_t number;
    pthread_t thread;
};

static void *gather_batches(void *context)
{
    const struct gatherer *self = context;
    const struct rows *rows = self->rows;
    for (size_t at = self->number * rows->batch_rows; at < rows->all.count;
         at += rows->threads * rows->batch_rows) {
        struct device_rows batch = rows->all;
        size_t left = rows->all.count - at;
        batch.places += at;
        batch.count = left < rows->batch_rows ? left : rows->batch_rows;
        if (device_gather_u8(rows->device, self->queue, self->floats, &batch, 1.0f / 255, NULL,
                             NULL))
            return NULL; /* on a CPU it cannot fail */
    }
    return NULL;
}

static void gather_epoch(struct gatherer gatherers[], size_t threads)
{
    for (size_t i = 1; i < threads; i++) {
        if (pthread_create(&gatherers[i].thread, NULL, gather_batches, &gatherers[i]))
            exit(EXIT_FAILURE);
    }
    gather_batches(&gatherers[0]);
    for (size_t i = 1; i < threads; i++)
        pthread_join(gatherers[i].thread, NULL);
}

static void shuffle(uint32_t *places, size_t count, uint64_t *dice)
{
    for (size_t i = 0; i < count; i++) {
        *dice = *dice * UINT64_C(6364136223846793005) + 1;
        size_t other = (size_t)((*dice >> 33) % (i + 1));
        places[i] = places[other];
        places[other] = (uint32_t)i;
    }
}

static enum error make_rows(struct rows *rows, struct gatherer gatherers[])
{
    void *memory = NULL, *floats = NULL;
    size_t bytes = rows->all.count * rows->all.stride_bytes;
    enum error error = device_memory_new(rows->device, bytes, &memory);
    rows->all.rows = memory;
    for (size_t i = 0; !error && i < bytes; i++)
        ((uint8_t *)memory)[i] = (uint8_t)(i * 31 >> 3);
    for (size_t i = 0; !error && i < rows->threads; i++) {
        error = device_memory_new(rows->device,
                                  rows->batch_rows * rows->all.columns * sizeof(float), &floats);
        if (!error)
            error = device_queue_new(rows->device, &gatherers[i].queue);
        gatherers[i].rows = rows;
        gatherers[i].number = i;
        gatherers[i].floats = floats;
    }
    return error;
}

/* The system takes all memory back: the program ends. */
static enum error run_gather(const struct program *self, int argc, char **argv)
{
    static struct gatherer gatherers[THREADS_LIMIT];
    int64_t count = 60000, features = 784, size = 100, threads = 1, epochs = 3;
    const struct option options[] = {
        {.name = "rows",
         .type = OPTION_INTEGER,
         .target = &count,
         .minimum = 1,
         .maximum = UINT32_MAX,
         .argument = "N",
         .help = "rows"},
        {.name = "features",
         .type = OPTION_INTEGER,
         .target = &features,
         .minimum = 1,
         .maximum = FEATURES_LIMIT,
         .argument = "N",
         .help = "bytes of a row"},
        {.name = "size",
         .type = OPTION_INTEGER,
         .target = &size,
         .minimum = 1,
         .maximum = 1000000,
         .argument = "ROWS",
         .help = "rows a batch"},
        {.name = "threads",
         .type = OPTION_INTEGER,
         .target = &threads,
         .minimum = 1,
         .maximum = THREADS_LIMIT,
         .argument = "N",
         .help = "that make batches"},
        {.name = "epochs",
         .type = OPTION_INTEGER,
         .target = &epochs,
         .minimum = 1,
         .maximum = 1000000,
         .argument = "N",
         .help = "epochs to make"},
    };
    static struct rows rows;
    uint64_t dice = 1;
    enum error error = options_parse(self, &command_gather, options,
                                     sizeof(options) / sizeof(options[0]), argc, argv, NULL);
    if (error)
        return error;
    uint32_t *places = array_new((size_t)count, sizeof(*places), "the order of rows");
    error = places ? device_open("cpu", &rows.device) : ERROR_MEMORY;
    rows.batch_rows = (size_t)size;
    rows.threads = (size_t)threads;
    rows.all = (struct device_rows){.places = places,
                                    .count = (size_t)count,
                                    .columns = (size_t)features,
                                    .stride_bytes = row_slots_stride((size_t)features, ELEMENT_U8)};
    if (!error)
        error = make_rows(&rows, gatherers);
    for (int64_t epoch = 0; !error && epoch < epochs; epoch++) {
        shuffle(places, rows.all.count, &dice);
        int64_t started_ns = clock_now_ns();
        clock_t busy = clock();
        gather_epoch(gatherers, rows.threads);
        busy = clock() - busy;
        printf("{\"epoch\":%" PRId64 ",\"rows\":%" PRId64
               ",\"seconds\":%.6f,\"cpu_seconds\":%.6f}\n",
               epoch, count, (double)(clock_now_ns() - started_ns) * 1e-9,
               (double)busy / CLOCKS_PER_SEC);
    }
    free(places);
    return error;
}

static const struct command command_gather = {
    .name = "gather",
    .summary = "makes floats of random rows of bytes in memory: what a feed that costs nothing is",
    .run = run_gather};

int main(int argc, char **argv)
{
    return program_main(&program, argc, argv);
}
