/* SPDX-License-Identifier: MIT */
/*
 * An order: the infinite sequence of units that (frame, design, its fields, seed) define. Position
 * p lies in epoch p div M, M positions an epoch. A pure function: what it keeps beside its tables
 * are counts that it could make again, so that any number of threads may ask at once.
 *
 * Most orders have a unit at every position. Some skip positions (order_skips_positions()): of
 * them a run of positions holds fewer units than positions.
 *
 * Dimensions: N units, L labels, M positions an epoch, P positions asked for, B units found there.
 */
#ifndef SAMPLER_ORDER_ORDER_H
#define SAMPLER_ORDER_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame.h"

/* Of what this program computes from (frame, design, fields, seed); another version, another order.
 * 1 dealt labels out in one cycle for the whole of an epoch. */
#define ORDER_VERSION 2

#define ORDER_NAME_BYTES 33

struct order;

/* order_new() is in sampler/design/designs.h, with the list of designs. */
void order_free(struct order *order);

/* ---- what kind of order it is ------------------------------------------- */

/* M. */
int64_t order_epoch_positions(const struct order *order);
/* The only batch size that the design has (pxk: p * k); 0: any. */
int64_t order_batch_size(const struct order *order);
/* Is there a position without a unit? */
bool order_skips_positions(const struct order *order);
/* Do answers say how many positions a batch covers? Where positions are skipped, and always of
 * bernoulli, so that its clients find it at rate 1, too. */
bool order_tells_span(const struct order *order);
/* Can a unit come twice in an epoch (with replacement, and where small labels start over)? */
bool order_repeats(const struct order *order);
/* Units of an epoch on average; M unless positions are skipped. */
double order_epoch_units_mean(const struct order *order);
/* The canonical text of the design's fields; "" for none. Borrowed. */
const char *order_fields(const struct order *order);
/* The share of an epoch's units that is to be the label's; all labels' shares sum to 1. */
double order_label_share(const struct order *order, uint32_t label);

/* At any prefix of an epoch, a label's count is this far from its share of it at most; -1: labels
 * come as chance has it. */
double order_balance_error(const struct order *order);
/* One name of all that decides which unit comes where, the frame and the version among it: orders
 * of equal names are equal. 32 hexadecimal digits. */
void order_name(const struct order *order, char ret_name[ORDER_NAME_BYTES]);

/* ---- positions to units ------------------------------------------------- */

/* The units at positions first ... first + P - 1, in their order: how many they are (B; P unless
 * positions are skipped). Arrays have room for B; `ret_labels` and `ret_rows` may be NULL.
 * Positions may cross epochs. Never fails, allocates nothing; first + P must be below 2^62. */
size_t order_units(const struct order *order, int64_t first, int64_t positions, int64_t *ret_ids,
                   uint32_t *ret_labels, int64_t *ret_rows);

/* For each row the expected count of its unit in one epoch: exact, the inclusion probability where
 * units do not repeat. 0 for a unit that never comes. */
void order_probabilities(const struct order *order, const int64_t *rows, size_t count,
                         double *ret_probabilities);

/* ---- and back ----------------------------------------------------------- */

/* The absolute position of a row (0 <= row < N) within an epoch, or -1: it is not in this epoch.
 * In closed form. -1 too where units repeat: ask order_positions(). */
int64_t order_position(const struct order *order, int64_t row, int64_t epoch);

/* Who searches asks every few milliseconds whether it is over; part of a struct of the caller's. */
struct order_search {
    bool (*is_over)(const struct order_search *search);
};

/* All absolute positions of a row within an epoch that are below `end`, ascending, whatever the
 * order; the caller frees *ret_positions (NULL when there are none). With replacement a search
 * through the epoch, nanoseconds a position: ERROR_CANCELLED when `search` is over (NULL: never).
 * ERROR_USAGE: more positions than a list has. */
enum error order_positions(const struct order *order, int64_t row, int64_t epoch, int64_t end,
                           const struct order_search *search, int64_t **ret_positions,
                           size_t *ret_count) MUST_CHECK;

/* How many units of an epoch's first t positions (0 <= t <= M) are of `label`; closed form, O(log
 * L) for stratified designs; ERROR_UNAVAILABLE where only counting can tell (tally.h counts). */
enum error order_label_count(const struct order *order, uint32_t label, int64_t epoch, int64_t t,
                             int64_t *ret_count) MUST_CHECK;

/* ---- skipped positions -------------------------------------------------- */

/* From absolute position `first` on, within its epoch: the shortest run that holds `units` units
 * (>= 1), or all that the epoch has left if they are fewer. A run that takes the epoch's last unit,
 * or finds none left, goes on to the epoch's end. */
void order_reach(const struct order *order, int64_t first, int64_t units, int64_t *ret_positions,
                 int64_t *ret_units);
/* How many units an epoch has. Where positions are skipped this counts all epochs before, too,
 * and remembers: a bounded number of positions a call, ERROR_UNAVAILABLE until it is through (ask
 * again), ERROR_USAGE beyond ORDER_COUNTED_EPOCHS. */
#define ORDER_COUNTED_EPOCHS (INT64_C(1) << 20)
enum error order_epoch_units(const struct order *order, int64_t epoch,
                             int64_t *ret_units) MUST_CHECK;
/* The absolute position of an epoch's unit number j, 0 <= j < its units. */
int64_t order_unit_position(const struct order *order, int64_t epoch, int64_t j);

#endif
