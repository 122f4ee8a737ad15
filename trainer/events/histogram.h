/* SPDX-License-Identifier: MIT */
/*
 * A histogram with bucket limits that grow by 1.1 on both sides of 0, like TensorFlow's: from -1e20
 * to -1e-12, 0, and 1e-12 to 1e20, with everything beyond in the first and last bucket. Bucket i
 * holds limit(i - 1) <= value < limit(i).
 */
#ifndef TRAINER_EVENTS_HISTOGRAM_H
#define TRAINER_EVENTS_HISTOGRAM_H

#include <stddef.h>

#define HISTOGRAM_STEPS 774 /* limits above 0: 1e-12 * 1.1^k below 1e20 */
#define HISTOGRAM_BUCKETS (2 * HISTOGRAM_STEPS + 3)

struct histogram {
    double minimum, maximum; /* 0 while empty */
    double count, sum, sum_of_squares;
    size_t buckets; /* used ones, from the lowest value's to the highest one's */
    double limit[HISTOGRAM_BUCKETS];
    double bucket[HISTOGRAM_BUCKETS];
};

/* Counts the finite values. A run of empty buckets is merged into one, which ends where the next
 * one begins. */
void histogram_count(struct histogram *histogram, const float *values, size_t count);

#endif
