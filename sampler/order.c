/* What every order does whatever its design: keys, epochs, blocks. */
#include "sampler/order.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/text.h"
#include "sampler/design.h"

#define DESIGN_NAME_BYTES 16

const struct design_ops *const design_all[] = {&design_proportional, &design_srs,
                                               &design_sequential, NULL};

const char *const *order_design_names(void)
{
    static const char *const names[] = {"proportional", "srs", "sequential", NULL};
    return names;
}

/* ---- keys -------------------------------------------------------------------------------------
 */
/* All that chooses an order, as bytes; a contract like the digest. */
struct key_text {
    char magic[16];
    char design[DESIGN_NAME_BYTES]; /* zeros behind it */
    uint64_t replacement;
    uint64_t seed;
    struct frame_digest digest;
};

static struct random_key key_of(const struct frame *frame, const struct design *design)
{
    struct key_text text = {
        .magic = {'t', 'o', 'm', 'b', 'o', 'l', 'a', ' ', 'o', 'r', 'd', 'e', 'r', ' ', '1', '\n'},
        .replacement = design->replacement,
        .seed = design->seed,
        .digest = *frame_digest(frame),
    };
    _Static_assert(sizeof(text) == 64, "no padding in the key's text");
    memcpy(text.design, design->name, strnlen(design->name, sizeof(text.design)));
    XXH128_hash_t hash = XXH3_128bits(&text, sizeof(text));
    return (struct random_key){.first = hash.low64, .second = hash.high64};
}

static struct epoch epoch_of(const struct order *order, int64_t number)
{
    struct random_key key = random_key_at(order->key, (uint64_t)number);
    return (struct epoch){
        .number = number,
        .units = random_key_at(key, 0),
        .phases = random_key_at(key, 1),
    };
}

/* ---- life cycle -------------------------------------------------------------------------------
 */
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

enum error order_new(const struct frame *frame, const struct design *design,
                     struct order **ret_order)
{
    const struct design_ops *ops = find_design(design->name);
    if (!ops)
        return refuse_design(design->name);
    if (design->seed > INT64_MAX)
        return error_set(ERROR_USAGE, "seed %" PRIu64 " is out of range, 0 to %" PRId64,
                         design->seed, INT64_MAX);
    struct order *order = array_new(1, sizeof(*order), "an order");
    if (!order)
        return ERROR_MEMORY;
    order->frame = frame;
    order->ops = ops;
    order->replacement = design->replacement;
    order->key = key_of(frame, design);
    enum error error = ops->init(order);
    if (error) {
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
    free(order);
}

int64_t order_epoch_positions(const struct order *order)
{
    return order->epoch_positions;
}

/* ---- positions to units -----------------------------------------------------------------------
 */
/* Cut at epochs and into blocks; ret_labels may be NULL. */
static void walk(const struct order *order, int64_t first, size_t count, int64_t *ret_rows,
                 uint32_t *ret_labels)
{
    int64_t number = first / order->epoch_positions;
    int64_t within = first % order->epoch_positions;
    struct epoch epoch = epoch_of(order, number);
    for (size_t done = 0; done < count;) {
        size_t step = count - done < ORDER_BLOCK ? count - done : ORDER_BLOCK;
        if (order->epoch_positions - within < (int64_t)step)
            step = (size_t)(order->epoch_positions - within);
        order->ops->units(order, &epoch, within, step, ret_rows + done,
                          ret_labels ? ret_labels + done : NULL);
        done += step;
        within += (int64_t)step;
        if (within == order->epoch_positions && done < count) {
            within = 0;
            epoch = epoch_of(order, ++number);
        }
    }
}

void order_rows(const struct order *order, int64_t first, size_t count, int64_t *ret_rows)
{
    assert(first >= 0);
    walk(order, first, count, ret_rows, NULL);
}

void order_units(const struct order *order, int64_t first, size_t count, int64_t *ret_ids,
                 uint32_t *ret_labels)
{
    assert(first >= 0);
    walk(order, first, count, ret_ids, ret_labels);
    frame_gather_ids(order->frame, ret_ids, count, ret_ids);
}

/* ---- and back ---------------------------------------------------------------------------------
 */
int64_t order_position(const struct order *order, int64_t row, int64_t epoch)
{
    if (order->replacement)
        return -1;
    struct epoch keys = epoch_of(order, epoch);
    return epoch * order->epoch_positions + order->ops->position(order, &keys, row);
}

enum error order_label_count(const struct order *order, uint32_t label, int64_t epoch, int64_t t,
                             int64_t *ret_count)
{
    int64_t count = 0;
    assert(t >= 0 && t <= order->epoch_positions);
    if (t > 0) {
        struct epoch keys = epoch_of(order, epoch);
        count = order->ops->label_count(order, &keys, label, t);
    }
    if (count < 0)
        return error_set(ERROR_UNAVAILABLE,
                         "design %s has no closed form for how often a label "
                         "came",
                         order->ops->name);
    *ret_count = count;
    return OK;
}
