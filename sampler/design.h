/*
 * What a design is to an order: a table of functions on one epoch. One more design is one more
 * design_*.c with such a table, and its line in design_all[].
 *
 * Everything a design draws by chance comes from the two keys of struct epoch, which are hashes of
 * (frame digest, design, replacement, seed, epoch), so that designs, seeds and epochs share
 * nothing.
 *
 * Dimensions: N units, L labels, M positions an epoch.
 */
#ifndef SAMPLER_DESIGN_H
#define SAMPLER_DESIGN_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/order.h"
#include "sampler/random.h"
#include "sampler/tree.h"

#define ORDER_BLOCK TREE_BLOCK /* positions asked of a design at once, at most */

struct epoch {
    int64_t number;
    struct random_key units;  /* for which unit a position gets */
    struct random_key phases; /* for how positions are dealt out to strata */
};

struct design_ops {
    const char *name;
    /* Sets order->epoch_positions and what the design keeps; ERROR_USAGE when the frame or
     * `replacement` does not suit. On failure release() is not called. */
    enum error (*init)(struct order *order) MUST_CHECK;
    void (*release)(struct order *order);
    /* Rows and labels at positions first ... of the epoch, all below M, count <= ORDER_BLOCK;
     * ret_labels may be NULL. */
    void (*units)(const struct order *order, const struct epoch *epoch, int64_t first, size_t count,
                  int64_t *ret_rows, uint32_t *ret_labels);
    /* The position of a row in the epoch; without replacement only. */
    int64_t (*position)(const struct order *order, const struct epoch *epoch, int64_t row);
    /* Units of `label` in the epoch's first t positions, 0 < t <= M, or -1: only counting can tell.
     */
    int64_t (*label_count)(const struct order *order, const struct epoch *epoch, uint32_t label,
                           int64_t t);
};

struct order {
    const struct frame *frame; /* borrowed */
    const struct design_ops *ops;
    bool replacement;
    int64_t epoch_positions; /* M */
    struct random_key key;
    struct tree tree; /* proportional */
};

extern const struct design_ops design_proportional, design_srs, design_sequential;

/* NULL-terminated. */
extern const struct design_ops *const design_all[];

#endif
