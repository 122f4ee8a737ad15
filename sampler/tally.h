/*
 * How many units of each label an epoch's first positions hold: what GET /labels calls `drawn`.
 * In closed form where the order has one; else counted, going on from the last answer, a bounded
 * number of positions a call.
 *
 * Threads: every thread; one mutex.
 *
 * Dimensions: L labels, t positions of the epoch.
 */
#ifndef SAMPLER_TALLY_H
#define SAMPLER_TALLY_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/frame.h"
#include "sampler/order.h"

struct tally;

/* Both are borrowed and must outlive it. */
enum error tally_new(const struct frame *frame, const struct order *order,
                     struct tally **ret_tally) MUST_CHECK;
void tally_free(struct tally *tally);

/* ret_counts [L] for the first t positions (0 <= t <= M) of `epoch`. ERROR_UNAVAILABLE while the
 * counting is not through: every call goes on where the last one stopped. */
enum error tally_counts(struct tally *tally, int64_t epoch, int64_t t,
                        int64_t *ret_counts) MUST_CHECK;

#endif
