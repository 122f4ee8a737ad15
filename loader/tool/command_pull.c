/* SPDX-License-Identifier: MIT */
/*
 * `tombola-loader pull`: writes batches from the sampler, drawn, leased or by number, as rows to
 * standard output, for shells and for programs that speak no HTTP.
 */
#include <inttypes.h>
#include <string.h>

#include "common/command/options.h"
#include "common/log.h"
#include "common/text.h"
#include "loader/cache_options.h"
#include "loader/device/device.h"
#include "loader/feed/feed.h"
#include "loader/store/store.h"
#include "loader/store_apart.h"
#include "loader/tool/commands.h"
#include "loader/tool/row_writer.h"

struct pull_options {
    const char *sampler, *store, *stream;
    const char *format, *bad_rows;
    int64_t size, batches;
    int64_t index; /* -1: not by index */
    bool lease, weights, groups;
    int64_t fetchers, cache_bytes, cache_limit, bucket_window;
    const char *cache; /* NULL: none */
    double patience_seconds;
};

/* Batches drawn before a failure are gone for this epoch, so they are written nevertheless. */
static enum error save_rows(struct output *output, enum error error)
{
    struct error_report report;
    error_report_take(error, &report);
    if (output_flush(output))
        log_debug("%s", error_message());
    return error_restore(&report);
}

/* A lease is acked once the reader has its rows. */
static enum error write_batches(struct feed *feed, struct row_writer *writer, bool lease)
{
    const struct feed_batch *batch;
    enum error error;
    while (!(error = feed_next(feed, NULL, &batch))) {
        error = row_writer_add(writer, batch);
        if (!error && lease)
            error = output_flush(writer->output);
        if (!error)
            error = feed_put(feed, NULL, batch);
        if (error)
            break;
    }
    if (error == ERROR_END)
        return row_writer_finish(writer);
    return writer->rows > 0 ? save_rows(writer->output, error) : error;
}

static void report(const struct feed *feed, const struct pull_options *pull)
{
    struct feed_stats stats;
    feed_get_stats(feed, &stats);
    log_info("%" PRId64 " %s in %" PRId64 " %s", stats.rows, text_plural(stats.rows, "row", "rows"),
             stats.batches, text_plural(stats.batches, "batch", "batches"));
    if (stats.bad_rows > 0)
        log_warning("%" PRId64 " bad %s %s", stats.bad_rows,
                    text_plural(stats.bad_rows, "row was", "rows were"),
                    strcmp(pull->bad_rows, "skip") == 0 ? "left out" : "replaced by zeros");
}

/* The CPU's queues have nothing to wait for: NULL suffices. */
static enum error pull_rows(const struct pull_options *pull, struct store *store,
                            struct device *device, struct output *output)
{
    struct feed_options options = {.sampler_url = pull->sampler,
                                   .stream = pull->stream,
                                   .store = store,
                                   .device = device,
                                   .pull = pull->index >= 0 ? FEED_INDEX
                                           : pull->lease    ? FEED_LEASE
                                                            : FEED_DRAW,
                                   .first_index = pull->index >= 0 ? pull->index : 0,
                                   .fetchers = (size_t)pull->fetchers,
                                   .cache_bytes = (size_t)pull->cache_bytes,
                                   .batches = pull->batches > 0 ? pull->batches : -1,
                                   .batch_rows = (size_t)pull->size,
                                   .bad_rows = bad_rows_by_name(pull->bad_rows),
                                   .weights = pull->weights ? WEIGHTS_F64 : WEIGHTS_NONE,
                                   .groups = pull->groups,
                                   .bucket_window = (size_t)pull->bucket_window,
                                   .wants_integers = true,
                                   .patience_ms = (int64_t)(pull->patience_seconds * 1000)};
    struct row_extras extras = {.weights = pull->weights, .groups = pull->groups};
    struct row_writer *writer = NULL;
    struct feed *feed = NULL;
    enum error error = feed_open(&options, &feed);
    if (!error) {
        extras.group_texts = feed_group_texts(feed, &extras.group_text_count);
        error = row_writer_open(pull->format, store_info(store), &extras, output, &writer);
    }
    if (!error)
        error = write_batches(feed, writer, pull->lease);
    if (!error && pull->lease)
        error = feed_await_acks(feed);
    if (!error)
        report(feed, pull);
    row_writer_close(writer);
    feed_close(feed);
    return error;
}

static enum error pull_to(const struct pull_options *pull, struct output *output)
{
    struct store *store = NULL;
    struct device *device = NULL;
    struct store_open_options how = {
        .cache = {.folder = pull->cache, .folder_limit_bytes = (uint64_t)pull->cache_limit}};
    enum error error = store_open_apart(pull->store, &how, &store);
    if (!error)
        error = device_open("cpu", &device);
    if (!error)
        error = pull_rows(pull, store, device, output);
    device_close(device);
    store_close(store);
    return error;
}

static enum error parse(struct pull_options *pull, const struct program *program, int argc,
                        char **argv)
{
    const struct option options[] = {
        {.name = "sampler",
         .type = OPTION_TEXT,
         .target = &pull->sampler,
         .argument = "URL",
         .help = "the sampler, such as http://127.0.0.1:8080",
         .required = true},
        {.name = "store",
         .type = OPTION_TEXT,
         .target = &pull->store,
         .argument = "URI",
         .help = "where to fetch the rows by id: csv:PATH, rows:PATH, parquet:PATH, "
                 "sqlite:PATH, postgresql://..., range:N",
         .required = true},
        {.name = "size",
         .type = OPTION_INTEGER,
         .target = &pull->size,
         .argument = "ROWS",
         .help = "rows per batch",
         .minimum = 1,
         .maximum = 1000000},
        {.name = "batches",
         .type = OPTION_INTEGER,
         .target = &pull->batches,
         .argument = "N",
         .help = "stop after this many batches and leave the rest to others; 0: pull "
                 "until the stream ends",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        {.name = "lease",
         .type = OPTION_FLAG,
         .target = &pull->lease,
         .help = "lease batches and acknowledge each once its rows are written: "
                 "whatever this pull leaves unfinished, however it ends, is redelivered "
                 "to another"},
        {.name = "index",
         .type = OPTION_INTEGER,
         .target = &pull->index,
         .argument = "K",
         .help = "start at batch number K, the same rows each time; the stream does not "
                 "move",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        {.name = "bucket_window",
         .type = OPTION_INTEGER,
         .target = &pull->bucket_window,
         .argument = "BATCHES",
         .help = "with --index, for rows of varying length (longest= in the URI): sort "
                 "this many consecutive batches by length, so that each holds rows of "
                 "similar length. 0: off",
         .minimum = 0,
         .maximum = 1 << 24},
        {.name = "fetchers",
         .type = OPTION_INTEGER,
         .target = &pull->fetchers,
         .argument = "N",
         .help = "threads that fetch rows from the store",
         .minimum = 1,
         .maximum = 64},
        CACHE_OPTIONS(&pull->cache_bytes, NULL, &pull->cache, &pull->cache_limit),
        {.name = "format",
         .type = OPTION_CHOICE,
         .target = &pull->format,
         .choices = ROW_WRITER_FORMATS,
         .help = "output format, see below"},
        {.name = "weights",
         .type = OPTION_FLAG,
         .target = &pull->weights,
         .help = "write each row's weight after its label: the column named by "
                 "weight=NAME in the URI, or the imported weight"},
        {.name = "groups",
         .type = OPTION_FLAG,
         .target = &pull->groups,
         .help = "write each row's group after that; group=NAME likewise"},
        {.name = "stream",
         .type = OPTION_TEXT,
         .target = &pull->stream,
         .argument = "NAME",
         .help = "the sampler's stream"},
        {.name = "bad_rows",
         .type = OPTION_CHOICE,
         .target = &pull->bad_rows,
         .choices = "fail|skip|replace",
         .help = "rows that are missing or damaged: stop (fail), leave them out (skip), "
                 "or write zeros (replace)"},
        {.name = "patience",
         .type = OPTION_REAL,
         .target = &pull->patience_seconds,
         .argument = "SECONDS",
         .help = "give up if the sampler does not answer for this long",
         .minimum = 0,
         .maximum = 1e9},
    };
    return options_parse(program, &command_pull, options, sizeof(options) / sizeof(options[0]),
                         argc, argv, NULL);
}

static enum error check(const struct pull_options *pull)
{
    if (pull->lease && pull->index >= 0)
        return error_set(ERROR_USAGE,
                         "--lease and --index: batches requested by number are not leased");
    if (pull->lease && strcmp(pull->format, "npy") == 0)
        return error_set(ERROR_USAGE,
                         "--lease --format npy: such a file is whole only at its end, so "
                         "that rows would count as done before they are there; csv or "
                         "raw, or --index");
    return OK;
}

static enum error run(const struct program *program, int argc, char **argv)
{
    struct pull_options pull = {.stream = "default",
                                .format = "csv",
                                .bad_rows = "fail",
                                .size = 100,
                                .index = -1,
                                .fetchers = 1,
                                .patience_seconds = 60};
    struct output *output = NULL;
    enum error error = parse(&pull, program, argc, argv);
    if (!error)
        error = check(&pull);
    if (error)
        return error;
    error = output_open_standard(&output);
    return error ? error : output_end(output, pull_to(&pull, output));
}

static const struct option_hint hints[] = {
    {"batch_size", "it is called --size here"},
    {NULL, NULL},
};

const struct command command_pull = {
    .name = "pull",
    .hints = hints,
    .summary = "draw batches from a sampler and write their rows to standard output",
    .details =
        "Every draw moves the sampler's stream: several pulls at once divide its rows among them.\n"
        "Rows that were prefetched but not written when a pull is stopped are lost for this "
        "epoch,\n"
        "as are those of a draw that a proxy repeats. With --lease they are redelivered, and no "
        "row "
        "is\n"
        "lost whatever is killed.\n"
        "\n"
        "  csv  a header id,label,FEATURE NAMES, then one line per row\n"
        "  npy  one structured array for numpy.load(): fields id, label, x. It is complete only\n"
        "       when the pull ends; for a pipe it is kept in a temporary file (TMPDIR) until then\n"
        "  raw  one record per row, little-endian, no header: i64 id, f64 label, then the "
        "features\n"
        "       as u8, f32 or i32. Text labels are indices into the store's sorted list of labels\n"
        "\n"
        "--weights and --groups add the weight (f64) and the group after the label. Groups that "
        "are\n"
        "not all integers are text; in raw, indices (i64) into the sorted list of groups.\n"
        "Rows of varying length (longest= in the URI): csv has as many fields as the row, npy a\n"
        "field `length` before x, raw an i64 length before that many features.\n"
        "\n"
        "  tombola-loader pull --sampler http://127.0.0.1:8080 --store train.sqlite --batches 3\n"
        "  tombola-loader pull --sampler http://127.0.0.1:8080 --store train.sqlite \\\n"
        "      --batches 600 --format npy > epoch.npy\n"
        "\n"
        "Environment: TOMBOLA_TOKEN is sent to the sampler as a bearer token; TOMBOLA_CA is a PEM\n"
        "file of the certificate authorities to trust for an https:// sampler.\n",
    .run = run,
};
