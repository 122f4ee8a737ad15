/* What every order does whatever its design: keys, epochs, blocks. */
#include "sampler/order/order.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/text.h"
#include "sampler/order/design.h"
#include "sampler/order/epoch_counts.h"
#include "sampler/order/position_list.h"

#define DESIGN_NAME_BYTES 16

const struct design_ops *const design_all[] = {
    &design_proportional, &design_srs,     &design_sequential, &design_equal,
    &design_quota,        &design_neyman,  &design_pxk,        &design_weighted,
    &design_systematic,   &design_cluster, &design_bernoulli,  NULL};

const char *const *order_design_names(void)
{
    static const char *const names[] = {"proportional", "srs",     "sequential", "equal",
                                        "quota",        "neyman",  "pxk",        "weighted",
                                        "systematic",   "cluster", "bernoulli",  NULL};
    return names;
}

/* ---- keys --------------------------------------------------------------- */
/* All that chooses an order, as bytes; a contract like the digest. */
struct key_text {
    char magic[16];
    char design[DESIGN_NAME_BYTES]; /* zeros behind it */
    uint64_t replacement;
    uint64_t seed;
    struct frame_digest digest;
};

/* Fields are hashed behind it when there are any. */
static struct random_key key_of(const struct order *order, uint64_t seed)
{
    struct key_text text = {
        .magic = {'t', 'o', 'm', 'b', 'o', 'l', 'a', ' ', 'o', 'r', 'd', 'e', 'r', ' ', '1', '\n'},
        .replacement = order->replacement,
        .seed = seed,
        .digest = *frame_digest(order->frame),
    };
    _Static_assert(sizeof(text) == 64, "no padding in the key's text");
    memcpy(text.design, order->ops->name, strnlen(order->ops->name, sizeof(text.design)));
    XXH128_hash_t hash = XXH3_128bits(&text, sizeof(text));
    struct random_key key = {.first = hash.low64, .second = hash.high64};
    if (order->fields[0] == '\0')
        return key;
    hash = XXH3_128bits(order->fields, strlen(order->fields));
    return random_key_at(random_key_at(key, hash.low64), hash.high64);
}

struct epoch epoch_of(const struct order *order, int64_t number)
{
    struct random_key key = random_key_at(order->key, (uint64_t)number);
    return (struct epoch){
        .number = number,
        .units = random_key_at(key, 0),
        .phases = random_key_at(key, 1),
    };
}

/* A name that no epoch has. */
struct random_key order_walk_key(const struct order *order)
{
    return random_key_at(order->key, UINT64_MAX);
}

double design_once(const struct order *order, int64_t row)
{
    (void)order;
    (void)row;
    return 1;
}

enum error design_need_labels(const struct order *order)
{
    if (frame_has_labels(order->frame))
        return OK;
    return error_set(ERROR_USAGE,
                     "design %s needs labels, and the frame has none; srs is right, or name the "
                     "label column in the store's URI",
                     order->ops->name);
}

/* ---- life cycle --------------------------------------------------------- */
static const struct design_ops *find_design(const char *name)
{
    for (size_t i = 0; design_all[i]; i++) {
        if (strcmp(design_all[i]->name, name) == 0)
            return design_all[i];
    }
    return NULL;
}

static enum error refuse_design(const char *name)
{
    char shown[TEXT_QUOTE_BYTES], names[256] = "";
    size_t length = 0;
    for (size_t i = 0; design_all[i]; i++)
        length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s", i ? ", " : "",
                                   design_all[i]->name);
    return error_set(ERROR_USAGE, "design %s is not one of %s",
                     text_quote(shown, sizeof(shown), name, strlen(name)), names);
}

/* "srs, proportional and weighted" for a message: the designs that can. */
static enum error refuse_replacement(const struct design_ops *ops)
{
    char names[256] = "";
    size_t length = 0;
    for (size_t i = 0; design_all[i]; i++) {
        if (design_all[i]->takes_replacement)
            length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
                                       length ? ", " : "", design_all[i]->name);
    }
    return error_set(ERROR_USAGE, "design %s has no replacement; designs that have it are %s",
                     ops->name, names);
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
        order->key = key_of(order, design->seed);
        error = order->ops->init(order, &fields);
    }
    design_fields_release(&fields);
    if (error || !order->passes_over) {
        if (!error)
            order->epoch_units = (double)order->epoch_positions;
        return error;
    }
    error = epoch_counts_new(&order->counts);
    if (error)
        order->ops->release(order);
    return error;
}

enum error order_check_design(const char *name, bool replacement)
{
    const struct design_ops *ops = find_design(name);
    if (!ops)
        return refuse_design(name);
    return replacement && !ops->takes_replacement ? refuse_replacement(ops) : OK;
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
    order->ops = find_design(design->name);
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

void order_free(struct order *order)
{
    if (!order)
        return;
    order->ops->release(order);
    epoch_counts_free(order->counts);
    free(order->fields);
    free(order);
}

/* ---- what kind of order it is ------------------------------------------- */
int64_t order_epoch_positions(const struct order *order)
{
    return order->epoch_positions;
}

int64_t order_batch_size(const struct order *order)
{
    return order->batch_size;
}

bool order_passes_over(const struct order *order)
{
    return order->passes_over;
}

bool order_tells_span(const struct order *order)
{
    return order->passes_over || order->ops == &design_bernoulli;
}

bool order_repeats(const struct order *order)
{
    return order->repeats;
}

double order_epoch_units_mean(const struct order *order)
{
    return order->epoch_units;
}

const char *order_fields(const struct order *order)
{
    return order->fields;
}

double order_label_share(const struct order *order, uint32_t label)
{
    if (order->ops->label_share)
        return order->ops->label_share(order, label);
    return (double)frame_label_units(order->frame, label) / (double)frame_units(order->frame);
}

void order_probabilities(const struct order *order, const int64_t *rows, size_t count,
                         double *ret_probabilities)
{
    for (size_t i = 0; i < count; i++)
        ret_probabilities[i] = order->ops->probability(order, rows[i]);
}

/* ---- positions to units ------------------------------------------------- */
/* Cut at epochs and into blocks; ret_labels may be NULL. */
static size_t walk(const struct order *order, int64_t first, int64_t positions, int64_t *ret_rows,
                   uint32_t *ret_labels)
{
    int64_t number = first / order->epoch_positions;
    int64_t within = first % order->epoch_positions;
    struct epoch epoch = epoch_of(order, number);
    size_t found = 0;
    for (int64_t done = 0; done < positions;) {
        int64_t step = positions - done < ORDER_BLOCK ? positions - done : ORDER_BLOCK;
        if (order->epoch_positions - within < step)
            step = order->epoch_positions - within;
        found += order->ops->units(order, &epoch, within, (size_t)step, ret_rows + found,
                                   ret_labels ? ret_labels + found : NULL);
        done += step;
        within += step;
        if (within == order->epoch_positions && done < positions) {
            within = 0;
            epoch = epoch_of(order, ++number);
        }
    }
    return found;
}

size_t order_rows(const struct order *order, int64_t first, int64_t positions, int64_t *ret_rows)
{
    assert(first >= 0 && positions >= 0);
    return walk(order, first, positions, ret_rows, NULL);
}

size_t order_units(const struct order *order, int64_t first, int64_t positions, int64_t *ret_ids,
                   uint32_t *ret_labels, int64_t *ret_rows)
{
    assert(first >= 0 && positions >= 0);
    int64_t *rows = ret_rows ? ret_rows : ret_ids;
    size_t found = walk(order, first, positions, rows, ret_labels);
    frame_gather_ids(order->frame, rows, found, ret_ids);
    return found;
}

/* ---- and back ----------------------------------------------------------- */
int64_t order_position(const struct order *order, int64_t row, int64_t epoch)
{
    if (order->repeats)
        return -1;
    struct epoch keys = epoch_of(order, epoch);
    int64_t position = order->ops->position(order, &keys, row);
    return position < 0 ? -1 : epoch * order->epoch_positions + position;
}

static enum error find_positions(const struct order *order, int64_t row, int64_t epoch, int64_t end,
                                 struct position_list *list)
{
    int64_t start = epoch * order->epoch_positions;
    if (!order->repeats) {
        int64_t position = order_position(order, row, epoch);
        return position < 0 || position >= end ? OK : position_list_add(list, position);
    }
    int64_t within = end - start < order->epoch_positions ? end - start : order->epoch_positions;
    struct epoch keys = epoch_of(order, epoch);
    enum error error = within <= 0 ? OK : order->ops->positions(order, &keys, row, within, list);
    for (size_t i = 0; i < list->count; i++)
        list->positions[i] += start;
    return error;
}

enum error order_positions(const struct order *order, int64_t row, int64_t epoch, int64_t end,
                           int64_t **ret_positions, size_t *ret_count)
{
    struct position_list list = {.count = 0};
    enum error error = find_positions(order, row, epoch, end, &list);
    if (error) {
        free(list.positions);
        return error;
    }
    *ret_positions = list.positions;
    *ret_count = list.count;
    return OK;
}

enum error order_label_count(const struct order *order, uint32_t label, int64_t epoch, int64_t t,
                             int64_t *ret_count)
{
    int64_t count = 0;
    assert(t >= 0 && t <= order->epoch_positions);
    if (t > 0 && order->ops->label_count) {
        struct epoch keys = epoch_of(order, epoch);
        count = order->ops->label_count(order, &keys, label, t);
    } else if (t > 0) {
        count = -1;
    }
    if (count < 0)
        return error_set(ERROR_UNAVAILABLE,
                         "design %s has no closed form for how often a label "
                         "came",
                         order->ops->name);
    *ret_count = count;
    return OK;
}

/* ---- positions that are passed over ------------------------------------- */
void order_reach(const struct order *order, int64_t first, int64_t units, int64_t *ret_positions,
                 int64_t *ret_units)
{
    assert(first >= 0 && units >= 1);
    int64_t within = first % order->epoch_positions;
    int64_t left = order->epoch_positions - within;
    if (!order->passes_over) {
        *ret_positions = *ret_units = units < left ? units : left;
        return;
    }
    struct epoch keys = epoch_of(order, first / order->epoch_positions);
    *ret_positions = order->ops->reach(order, &keys, within, units, ret_units);
}

enum error order_epoch_units(const struct order *order, int64_t epoch, int64_t *ret_units)
{
    if (order->passes_over)
        return epoch_counts_get(order->counts, order, epoch, ret_units);
    *ret_units = order->epoch_positions;
    return OK;
}

int64_t order_unit_position(const struct order *order, int64_t epoch, int64_t j)
{
    int64_t start = epoch * order->epoch_positions;
    if (!order->passes_over)
        return start + j;
    struct epoch keys = epoch_of(order, epoch);
    return start + order->ops->unit_position(order, &keys, j);
}
