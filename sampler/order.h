/*
 * An order: the infinite sequence of units that (frame, design, seed) define. Position p lies in
 * epoch p div M, M positions an epoch. A pure function: no state moves, any position costs
 * O(log labels), any number of threads may ask at once.
 *
 * Dimensions: N units, L labels, M positions an epoch, B positions asked for.
 */
#ifndef SAMPLER_ORDER_H
#define SAMPLER_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame.h"

struct order;

/* What chooses an order, besides the frame. `design` is a name of http.md. */
struct design {
    const char *name; /* "proportional", "srs", "sequential" */
    bool replacement;
    uint64_t seed; /* 0 to 2^63-1 */
};

/* ERROR_USAGE for an unknown design (naming those that exist) or one that the frame cannot serve.
 * The frame must outlive the order. */
enum error order_new(const struct frame *frame, const struct design *design,
                     struct order **ret_order) MUST_CHECK;
void order_free(struct order *order);

/* M. */
int64_t order_epoch_positions(const struct order *order);

/* Units at positions first, first + 1, ... first + B - 1: their rows in the frame, [B]. Positions
 * may cross epochs. Never fails, allocates nothing; first + B must be below 2^62. */
void order_rows(const struct order *order, int64_t first, size_t count, int64_t *ret_rows);

/* The same as ids and labels ([B] each). `ret_labels` may be NULL. */
void order_units(const struct order *order, int64_t first, size_t count, int64_t *ret_ids,
                 uint32_t *ret_labels);

/* Without replacement: the position of a row (0 <= row < N) within epoch E is unique and
 * closed-form; returned as an absolute position. -1 with replacement, where only a search can
 * tell. */
int64_t order_position(const struct order *order, int64_t row, int64_t epoch);

/* How many of an epoch's first t positions (0 <= t <= M) fall on `label`; closed form, O(log L)
 * for stratified designs; ERROR_UNAVAILABLE where only counting can tell. */
enum error order_label_count(const struct order *order, uint32_t label, int64_t epoch, int64_t t,
                             int64_t *ret_count) MUST_CHECK;

/* The designs that exist, for --help and messages: a NULL-terminated list. */
const char *const *order_design_names(void);

#endif
