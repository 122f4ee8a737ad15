/* SPDX-License-Identifier: MIT */
#include "trainer/run/normalization.h"

#include <math.h>
#include <stdlib.h>

#include "common/array.h"

#define ROWS_LIMIT 1000000

/* Sums of differences from the first row, so that large values do not cost digits. */
struct sums {
    size_t features;
    int64_t rows;  /* so far */
    int64_t units; /* still to come: the last batch is cut where it runs into the next epoch */
    double *first, *sum, *squares; /* [F + 1]: the features, and the target */
};

static enum error new_sums(struct sums *sums, size_t features)
{
    sums->features = features;
    sums->first = array_new(features + 1, sizeof(double), "the first row");
    sums->sum = array_new(features + 1, sizeof(double), "sums of features");
    sums->squares = array_new(features + 1, sizeof(double), "squares of features");
    return sums->first && sums->sum && sums->squares ? OK : ERROR_MEMORY;
}

static void free_sums(struct sums *sums)
{
    free(sums->first);
    free(sums->sum);
    free(sums->squares);
}

static void add_row(struct sums *sums, const float *row, double target)
{
    bool is_first = sums->rows++ == 0;
    for (size_t i = 0; i <= sums->features; i++) {
        double value = i < sums->features ? (double)row[i] : target;
        if (is_first)
            sums->first[i] = value;
        double difference = value - sums->first[i];
        sums->sum[i] += difference;
        sums->squares[i] += difference * difference;
    }
}

static void add_batch(struct sums *sums, const struct feed_batch *batch)
{
    const float *features = batch->features;
    for (size_t row = 0; row < batch->rows && sums->units > 0; row++, sums->units--)
        add_row(sums, features + row * sums->features, batch->labels[row]);
}

static enum error sum_up(struct feed *feed, const struct store_info *info, struct sums *sums)
{
    const struct feed_batch *batch;
    enum error error;
    while (!(error = feed_next(feed, NULL, &batch))) {
        add_batch(sums, batch);
        error = feed_put(feed, NULL, batch);
        if (error)
            return error;
    }
    if (error == ERROR_END && sums->rows == 0)
        return error_set(ERROR_INPUT, "%s: --normalize has no row to measure", info->uri);
    return error == ERROR_END ? OK : error;
}

static float mean_of(const struct sums *sums, size_t index)
{
    return (float)(sums->first[index] + sums->sum[index] / (double)sums->rows);
}

/* A feature whose variance is 0, or lost in rounding, counts as constant: its deviation is 1. */
static float deviation_of(const struct sums *sums, size_t index)
{
    double mean = sums->sum[index] / (double)sums->rows;
    double variance = sums->squares[index] / (double)sums->rows - mean * mean;
    float deviation = (float)sqrt(variance > 0 ? variance : 0);
    return deviation > 0 && isfinite(deviation) ? deviation : 1;
}

static enum error conclude(const struct sums *sums, struct normalization *normalization)
{
    struct feature_norm *norm = &normalization->norm;
    enum error error = feature_norm_init(norm, sums->features);
    for (size_t i = 0; i < sums->features && !error; i++) {
        norm->mean[i] = mean_of(sums, i);
        norm->deviation[i] = deviation_of(sums, i);
    }
    float target = mean_of(sums, sums->features);
    normalization->target_mean = isfinite(target) ? target : 0; /* training reports the row */
    normalization->target_deviation = deviation_of(sums, sums->features);
    normalization->rows = sums->rows;
    return error;
}

static enum error measure(const struct feed_options *options, int64_t units,
                          struct normalization *normalization)
{
    const struct store_info *info = store_info(options->store);
    struct sums sums = {.units = units};
    struct feed *feed = NULL;
    enum error error = new_sums(&sums, info->features);
    if (!error)
        error = feed_open(options, &feed);
    if (!error)
        error = sum_up(feed, info, &sums);
    if (!error)
        error = conclude(&sums, normalization);
    feed_close(feed);
    free_sums(&sums);
    return error;
}

enum error normalization_measure(const struct feed_options *feed, int64_t epoch_draws,
                                 struct normalization *ret_normalization)
{
    int64_t units = epoch_draws < ROWS_LIMIT ? epoch_draws : ROWS_LIMIT;
    int64_t batch = (int64_t)feed->batch_rows;
    struct feed_options options = *feed;
    *ret_normalization = (struct normalization){.rows = 0};
    enum error error = device_open("cpu", &options.device);
    if (error)
        return error;
    options.pull = FEED_INDEX;
    options.first_index = 0;
    options.batches = units / batch + (units % batch != 0);
    error = measure(&options, units, ret_normalization);
    device_close(options.device);
    return error;
}
