/* SPDX-License-Identifier: MIT */
/*
 * An order: the infinite sequence of units that (frame, design, its fields, seed) define. Position
 * p lies in epoch p div M, with M positions per epoch. A pure function: beside its tables it only
 * caches counts, so any number of threads may use it at once.
 *
 * Most orders have a unit at every position. Some skip positions (order_skips_positions()): a run
 * of their positions holds fewer units.
 *
 * Dimensions: N units, L labels, M positions per epoch, P positions requested, B units found there.
 */
#ifndef SAMPLER_ORDER_ORDER_H
#define SAMPLER_ORDER_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame.h"

/* Version of the computation from (frame, design, fields, seed): another version gives another
 * order. Version 1 dealt labels out in one cycle for the whole of an epoch. */
#define ORDER_VERSION 2

#define ORDER_NAME_BYTES 33

struct order;

/* order_new() is in sampler/design/designs.h, with the list of designs. */
void order_free(struct order *order);

/* ---- properties of the order ------------------------------------------- */

/* M. */
int64_t order_epoch_positions(const struct order *order);
/* The design's only batch size (pxk: p * k); 0: any. */
int64_t order_batch_size(const struct order *order);
/* Are there positions without a unit? */
bool order_skips_positions(const struct order *order);
/* Do responses tell how many positions a batch covers? True if positions are skipped, and always
 * for bernoulli, so that its clients find the field at rate 1, too. */
bool order_tells_span(const struct order *order);
/* Can a unit come twice in an epoch (with replacement, or if small labels start over)? */
bool order_repeats(const struct order *order);
/* Mean number of units per epoch; M unless positions are skipped. */
double order_epoch_units_mean(const struct order *order);
/* False: at most one epoch in 10^12 has so many units, if any. */
bool order_epoch_may_have(const struct order *order, int64_t units);
/* The canonical text of the design's fields; "" for none. Borrowed. */
const char *order_fields(const struct order *order);
/* The label's target share of an epoch's units; all labels' shares sum to 1. */
double order_label_share(const struct order *order, uint32_t label);

/* The most by which a label's count at any prefix of an epoch differs from its share; -1: labels
 * are random. */
double order_balance_error(const struct order *order);
/* A name for everything that decides which unit comes where, including the frame and the version:
 * orders with equal names are equal. 32 hexadecimal digits; borrowed. */
const char *order_name(const struct order *order);

/* ---- positions to units ------------------------------------------------- */

/* The units at positions first ... first + P - 1, in order; returns their number (B; P unless
 * positions are skipped). Arrays have room for B; `ret_labels` and `ret_rows` may be NULL.
 * Positions may cross epochs. Never fails, allocates nothing; first + P must be below 2^62. */
size_t order_units(const struct order *order, int64_t first, int64_t positions, int64_t *ret_ids,
                   uint32_t *ret_labels, int64_t *ret_rows);

/* For each row the expected count of its unit in one epoch: exact; the inclusion probability if
 * units do not repeat. 0 for a unit that never comes. */
void order_probabilities(const struct order *order, const int64_t *rows, size_t count,
                         double *ret_probabilities);

/* ---- and back ----------------------------------------------------------- */

/* The absolute position of a row (0 <= row < N) within an epoch, or -1: not in this epoch. In
 * closed form. Also -1 if units repeat: use order_positions(). */
int64_t order_position(const struct order *order, int64_t row, int64_t epoch);

/* Checked every few milliseconds: is the search to be stopped? Part of a struct of the caller's. */
struct order_search {
    bool (*is_over)(const struct order_search *search);
};

/* All absolute positions of a row within an epoch that are below `end`, ascending, for any order;
 * the caller frees *ret_positions (NULL if there are none). With replacement a search through the
 * epoch, nanoseconds per position: ERROR_CANCELLED when `search` is over (NULL: never).
 * ERROR_USAGE: more positions than a list holds. */
enum error order_positions(const struct order *order, int64_t row, int64_t epoch, int64_t end,
                           const struct order_search *search, int64_t **ret_positions,
                           size_t *ret_count) MUST_CHECK;

/* How many units of an epoch's first t positions (0 <= t <= M) are of `label`; closed form, O(log
 * L) for stratified designs; ERROR_UNAVAILABLE if there is none (tally.h counts). */
enum error order_label_count(const struct order *order, uint32_t label, int64_t epoch, int64_t t,
                             int64_t *ret_count) MUST_CHECK;

/* ---- skipped positions -------------------------------------------------- */

/* From absolute position `first` on, within its epoch: the shortest run that holds `units` units
 * (>= 1), or all remaining ones if they are fewer. A run that takes the epoch's last unit, or finds
 * none left, extends to the epoch's end. */
void order_reach(const struct order *order, int64_t first, int64_t units, int64_t *ret_positions,
                 int64_t *ret_units);
/* How many units an epoch has. If positions are skipped this also counts all earlier epochs, and
 * caches the counts: a bounded number of positions per call, ERROR_UNAVAILABLE until it is complete
 * (call again), ERROR_USAGE beyond ORDER_COUNTED_EPOCHS. */
#define ORDER_COUNTED_EPOCHS (INT64_C(1) << 20)
enum error order_epoch_units(const struct order *order, int64_t epoch,
                             int64_t *ret_units) MUST_CHECK;
/* Of how many epochs the units are known by now, if positions are skipped. */
int64_t order_counted_epochs(const struct order *order);
/* The absolute position of an epoch's unit number j, 0 <= j < its units. */
int64_t order_unit_position(const struct order *order, int64_t epoch, int64_t j);

#endif
