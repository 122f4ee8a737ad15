/* SPDX-License-Identifier: MIT */
/*
 * A design as an order uses it: a table of functions on one epoch. The designs and their list are
 * above, in sampler/design/.
 *
 * All of a design's randomness comes from hashes of (frame digest, design, fields, replacement,
 * seed) and the epoch, so that designs, seeds and epochs are independent.
 *
 * Dimensions: N units, L labels, M positions per epoch.
 */
#ifndef SAMPLER_ORDER_DESIGN_H
#define SAMPLER_ORDER_DESIGN_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/order/order.h"
#include "sampler/order/order_keys.h"
#include "sampler/shuffle/tree.h"

#define ORDER_BLOCK TREE_BLOCK /* most positions per call of a design */

#define ORDER_HOPELESS_EPOCHS 1e12 /* nobody waits for the fullest of so many */

struct design_fields; /* sampler/design/design_fields.h */
struct epoch_counts;  /* epoch_counts.h */
struct position_list; /* position_list.h */

struct design_ops {
    const char *name;
    bool takes_replacement;
    bool tells_span; /* order_tells_span(), even if no position is skipped */
    /* Sets order->epoch_positions, the other facts of struct order and the design's state;
     * ERROR_USAGE if the frame or the fields are unsuitable. On failure release() is not called. */
    enum error (*init)(struct order *order, const struct design_fields *fields) MUST_CHECK;
    void (*release)(struct order *order); /* NULL: the tree is the only state */
    /* Rows and labels of the units at positions first ... of the epoch, all below M, count <=
     * ORDER_BLOCK; returns their number. ret_labels may be NULL. */
    size_t (*units)(const struct order *order, const struct epoch *epoch, int64_t first,
                    size_t count, int64_t *ret_rows, uint32_t *ret_labels);
    /* The position of a row in the epoch, or -1: not in it. Not called for orders that repeat. */
    int64_t (*position)(const struct order *order, const struct epoch *epoch, int64_t row);
    /* Appends the positions of a row in the epoch that are below `end` <= M, ascending. Orders that
     * repeat only. */
    enum error (*positions)(const struct order *order, const struct epoch *epoch, int64_t row,
                            int64_t end, struct position_list *list) MUST_CHECK;
    /* Units of `label` in the epoch's first t positions, 0 < t <= M, or -1: no closed form. NULL:
     * always -1. */
    int64_t (*label_count)(const struct order *order, const struct epoch *epoch, uint32_t label,
                           int64_t t);
    /* order_probabilities() for one row; NULL: 1, every unit comes once per epoch (on average, with
     * replacement). */
    double (*probability)(const struct order *order, int64_t row);
    /* order_label_share(); NULL: the label's share of the frame's units. */
    double (*label_share)(const struct order *order, uint32_t label);
    /* order_balance_error(); NULL: labels are not balanced. */
    double (*balance_error)(const struct order *order);
    /* Only for orders that skip positions, and all within one epoch. reach: as order_reach(), from
     * `first`; returns the positions. unit_position: position of unit number j. */
    int64_t (*reach)(const struct order *order, const struct epoch *epoch, int64_t first,
                     int64_t units, int64_t *ret_units);
    /* Units among positions first ... first + positions - 1. */
    int64_t (*count)(const struct order *order, const struct epoch *epoch, int64_t first,
                     int64_t positions);
    /* order_epoch_may_have(): may at least one in ORDER_HOPELESS_EPOCHS? NULL: true. */
    bool (*may_have)(const struct order *order, int64_t units);
    int64_t (*unit_position)(const struct order *order, const struct epoch *epoch, int64_t j);
};

struct order {
    const struct frame *frame; /* borrowed */
    const struct design_ops *ops;
    bool replacement;
    bool repeats;            /* set by init() */
    bool skips_positions;    /* set by init() */
    int64_t epoch_positions; /* M; set by init() */
    int64_t batch_size;      /* the only one; 0: any */
    double epoch_units;      /* on average; M unless positions are skipped */
    struct random_key key;
    char name[ORDER_NAME_BYTES]; /* order_name() */
    char *fields;                /* canonical text, owned */
    struct tree tree;            /* if the design deals to strata; order_free() releases it */
    void *own;                   /* the design's other state */
    struct epoch_counts *counts; /* for orders that skip positions */
};

#endif
