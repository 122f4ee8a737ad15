/* SPDX-License-Identifier: MIT */
/*
 * The list of designs, and the only constructor of orders. To add a design, add a file here with a
 * table design_NAME, and its line in designs.c (README.md has the rest).
 */
#ifndef SAMPLER_DESIGN_DESIGNS_H
#define SAMPLER_DESIGN_DESIGNS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/order/design.h"

/* What determines an order, besides the frame. `name` and the fields are those of POST /streams. */
struct design {
    const char *name; /* "proportional", ... */
    bool replacement;
    uint64_t seed;      /* 0 to 2^63-1 */
    const char *fields; /* JSON object of the design's fields, design_fields.h; NULL or "": none */
};

/* ERROR_USAGE for an unknown design (naming the existing ones), fields that are missing, unknown or
 * out of range, or a frame that the design does not support. The frame must outlive the order;
 * `design` need not. Takes O(N) for weighted, O(groups) for cluster, else O(L). */
enum error order_new(const struct frame *frame, const struct design *design,
                     struct order **ret_order) MUST_CHECK;
/* ERROR_USAGE as order_new() for an unknown design, and for replacement if it has none: all checks
 * that need no frame. */
enum error order_check_design(const char *name, bool replacement) MUST_CHECK;

extern const struct design_ops design_proportional, design_srs, design_sequential, design_equal,
    design_quota, design_neyman, design_pxk, design_weighted, design_systematic, design_cluster,
    design_bernoulli;

/* All designs, NULL-terminated; and the one with this name, or NULL. */
extern const struct design_ops *const design_all[];
const struct design_ops *design_find(const char *name);
/* "proportional, srs, ...", for messages: all designs, or those with replacement. */
#define DESIGN_NAMES_BYTES 256
const char *design_names(char ret_names[DESIGN_NAMES_BYTES], bool with_replacement);

#endif
