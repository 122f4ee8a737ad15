/* SPDX-License-Identifier: MIT */
#include "sampler/design/designs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "sampler/design/design_fields.h"
#include "sampler/order/epoch_counts.h"

const struct design_ops *const design_all[] = {
    &design_proportional, &design_srs,     &design_sequential, &design_equal,
    &design_quota,        &design_neyman,  &design_pxk,        &design_weighted,
    &design_systematic,   &design_cluster, &design_bernoulli,  NULL};

const struct design_ops *design_find(const char *name)
{
    for (size_t i = 0; design_all[i]; i++) {
        if (strcmp(design_all[i]->name, name) == 0)
            return design_all[i];
    }
    return NULL;
}

const char *design_names(char ret_names[DESIGN_NAMES_BYTES], bool with_replacement)
{
    size_t length = 0;
    for (size_t i = 0; design_all[i]; i++) {
        if (design_all[i]->takes_replacement || !with_replacement)
            length += (size_t)snprintf(ret_names + length, DESIGN_NAMES_BYTES - length, "%s%s",
                                       length ? ", " : "", design_all[i]->name);
    }
    return ret_names;
}

static void name_order(struct order *order)
{
    struct random_key key = random_key_at(order->key, (uint64_t)order->epoch_positions);
    snprintf(order->name, sizeof(order->name), "%016" PRIx64 "%016" PRIx64, key.first, key.second);
}

static enum error init(struct order *order, const struct design *design)
{
    struct design_fields fields;
    enum error error = design_fields_parse(order->frame, design->name, design->replacement,
                                           design->fields, &fields);
    if (error)
        return error;
    error = design_fields_text(order->frame, &fields, &order->fields);
    if (!error) {
        order->key = order_key(order, design->seed);
        error = order->ops->init(order, &fields);
    }
    design_fields_release(&fields);
    if (error)
        return error;
    name_order(order);
    if (!order->skips_positions) {
        order->epoch_units = (double)order->epoch_positions;
        return OK;
    }
    error = epoch_counts_new(&order->counts);
    if (error)
        order->ops->release(order);
    return error;
}

enum error order_check_design(const char *name, bool replacement)
{
    const struct design_ops *ops = design_find(name);
    char shown[TEXT_QUOTE_BYTES], names[DESIGN_NAMES_BYTES];
    if (!ops)
        return error_set(ERROR_USAGE, "design %s is not one of %s",
                         text_quote(shown, sizeof(shown), name, strlen(name)),
                         design_names(names, false));
    if (replacement && !ops->takes_replacement)
        return error_set(ERROR_USAGE, "design %s has no replacement; designs that have it are %s",
                         name, design_names(names, true));
    return OK;
}

enum error order_new(const struct frame *frame, const struct design *design,
                     struct order **ret_order)
{
    enum error error = order_check_design(design->name, design->replacement);
    if (error)
        return error;
    if (design->seed > INT64_MAX)
        return error_set(ERROR_USAGE, "seed %" PRIu64 " is out of range, 0 to %" PRId64,
                         design->seed, INT64_MAX);
    struct order *order = array_new(1, sizeof(*order), "an order");
    if (!order)
        return ERROR_MEMORY;
    order->frame = frame;
    order->ops = design_find(design->name);
    order->replacement = order->repeats = design->replacement;
    error = init(order, design);
    if (error) {
        free(order->fields);
        free(order);
        return error;
    }
    *ret_order = order;
    return OK;
}
