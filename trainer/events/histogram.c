/* SPDX-License-Identifier: MIT */
#include "trainer/events/histogram.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define ZERO (HISTOGRAM_STEPS + 1) /* the bucket whose limit is 0 */

/* steps[k] = 1e-12 * 1.1^k, by the same multiplications as TensorFlow's. */
static void fill_steps(double steps[HISTOGRAM_STEPS])
{
    double step = 1e-12;
    for (size_t k = 0; k < HISTOGRAM_STEPS; k++) {
        steps[k] = step;
        step *= 1.1;
    }
}

/* Approximate step of `value`, which is above the first: its logarithm from its exponent, linear
 * between powers of 2, at most 0.09 off, which is less than a step. */
static size_t guess_step(double value)
{
    int exponent;
    double fraction = 2 * frexp(value, &exponent) - 1; /* value = 2^(exponent - 1) (1 + fraction) */
    double logarithm = exponent - 1 + fraction;
    double step = (logarithm - log2(1e-12)) / log2(1.1);
    return step < HISTOGRAM_STEPS ? (size_t)step : HISTOGRAM_STEPS;
}

/* How many steps are below `value`. None is a float, so none equals it. */
static size_t steps_below(const double steps[HISTOGRAM_STEPS], double value)
{
    size_t below = value > steps[0] ? guess_step(value) : 0;
    while (below < HISTOGRAM_STEPS && steps[below] < value)
        below++;
    while (below > 0 && steps[below - 1] > value)
        below--;
    return below;
}

static size_t bucket_of(const double steps[HISTOGRAM_STEPS], double value)
{
    if (value < 0)
        return ZERO - steps_below(steps, -value);
    return ZERO + 1 + steps_below(steps, value);
}

static double limit_of(const double steps[HISTOGRAM_STEPS], size_t bucket)
{
    if (bucket == 0)
        return -DBL_MAX;
    if (bucket < ZERO)
        return -steps[ZERO - 1 - bucket];
    if (bucket == ZERO)
        return 0;
    return bucket - ZERO <= HISTOGRAM_STEPS ? steps[bucket - ZERO - 1] : DBL_MAX;
}

static void add_value(struct histogram *histogram, double value)
{
    histogram->minimum =
        histogram->count == 0 || value < histogram->minimum ? value : histogram->minimum;
    histogram->maximum =
        histogram->count == 0 || value > histogram->maximum ? value : histogram->maximum;
    histogram->count += 1;
    histogram->sum += value;
    histogram->sum_of_squares += value * value;
}

void histogram_count(struct histogram *histogram, const float *values, size_t count)
{
    double steps[HISTOGRAM_STEPS], found[HISTOGRAM_BUCKETS + 1] = {0};
    memset(histogram, 0, sizeof(*histogram));
    fill_steps(steps);
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i]))
            continue;
        add_value(histogram, values[i]);
        found[bucket_of(steps, values[i])] += 1;
    }
    size_t last = histogram->count > 0 ? bucket_of(steps, histogram->maximum) : 0;
    for (size_t i = 0; i <= last; i++) {
        if (found[i] == 0 && (found[i + 1] == 0 || i == last))
            continue;
        histogram->limit[histogram->buckets] = limit_of(steps, i);
        histogram->bucket[histogram->buckets++] = found[i];
    }
}
