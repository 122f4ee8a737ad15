/* SPDX-License-Identifier: MIT */
/*
 * How fast a feed is: `loader_epoch epoch --sampler URL --store URI ...` walks whole epochs of a
 * stream and prints one line of JSON an epoch. The caller does nothing but read one
 * float of each row, so that the feed is what is measured; --work_us makes it a trainer that
 * computes for so long a batch.
 */
#include <inttypes.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/options.h"
#include "common/stop.h"
#include "loader/feed/feed.h"
#include "loader/feed/sampler_client.h"
#include "loader/store_open.h"

struct bench {
    const char *sampler, *store, *device;
    int64_t size, epochs, slots, fetchers, cache_bytes, work_us, draws_ahead, resident_bytes;
    int64_t bucket_window;
};

static const struct command command_epoch;
static const struct command *const commands[] = {&command_epoch};
static const struct program program = {
    .name = "loader_epoch", .summary = "measures a feed", .commands = commands, .command_count = 1};

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
        error = store_open_cached(bench.store, (uint64_t)bench.cache_bytes, &store);
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

int main(int argc, char **argv)
{
    return program_main(&program, argc, argv);
}
