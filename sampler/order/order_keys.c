/* SPDX-License-Identifier: MIT */
#include "sampler/order/order_keys.h"

#include <string.h>
#include <xxhash.h>

#include "sampler/order/design.h"

/* Everything that determines an order, as bytes; a contract like the digest. */
struct key_text {
    char magic[16];
    char design[16]; /* padded with zeros */
    uint64_t replacement;
    uint64_t seed;
    struct frame_digest digest;
};

/* The fields, if any, are hashed after it. */
struct random_key order_key(const struct order *order, uint64_t seed)
{
    struct key_text text = {
        .magic = {'t', 'o', 'm', 'b', 'o', 'l', 'a', ' ', 'o', 'r', 'd', 'e', 'r', ' ',
                  '0' + ORDER_VERSION, '\n'},
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
        .choices = random_key_at(key, 1),
    };
}

/* UINT64_MAX: not the number of any epoch. */
struct random_key order_walk_key(const struct order *order)
{
    return random_key_at(order->key, UINT64_MAX);
}
