/* SPDX-License-Identifier: MIT */
#include "trainer/wire/runs.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#define VECTOR_FLOATS 16
#define SAMPLES ((size_t)32)
#define GOLDEN UINT64_C(0x9e3779b9) /* 2^32 divided by the golden ratio */
#define GAP_LEAST 32                /* floats: shorter runs of zeros are cheaper to send */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A vector at a time: most rows are decided by their first. */
static bool is_zero(const float *values, size_t count)
{
    uint32_t bits = 0;
    for (; count >= VECTOR_FLOATS && bits << 1 == 0; count -= VECTOR_FLOATS) {
        for (size_t i = 0; i < VECTOR_FLOATS; i++) {
            uint32_t one;
            memcpy(&one, values + i, sizeof(one));
            bits |= one;
        }
        values += VECTOR_FLOATS;
    }
    for (size_t i = 0; i < count && bits << 1 == 0; i++) {
        uint32_t one;
        memcpy(&one, values + i, sizeof(one));
        bits |= one;
    }
    return bits << 1 == 0; /* except the sign */
}

/* Adds [first, first + count) of the shard, which starts at `offset` of all. False: no room. */
static bool add(struct runs *runs, size_t first, size_t offset, size_t count)
{
    struct run *last = runs->count > 0 ? &runs->list[runs->count - 1] : NULL;
    size_t end = last ? last->first + last->count : 0;
    if (last && first - end < GAP_LEAST &&
        runs->offsets[runs->count - 1] + (first - last->first) == offset) {
        runs->floats += first + count - end;
        last->count = (uint32_t)(first + count - last->first);
        return true;
    }
    if (runs->count == RUNS_LIMIT)
        return false;
    runs->offsets[runs->count] = offset;
    runs->list[runs->count++] = (struct run){(uint32_t)first, (uint32_t)count};
    runs->floats += count;
    return true;
}

/* The size of the block at `at`: a row of the first weights, or the rest of one; everything after
 * these. */
static size_t block_at(const struct model_layer *layer, size_t at)
{
    size_t begin = layer->weights_offset, end = begin + layer->inputs * layer->outputs;
    if (at < begin)
        return begin - at;
    return at < end ? layer->outputs - (at - begin) % layer->outputs : SIZE_MAX;
}

static bool find(const struct shard *shard, const struct model_layer *layer, const float *gradient,
                 struct runs *runs)
{
    size_t first = 0; /* of the shard */
    for (size_t i = 0; i < shard->piece_count; i++) {
        const struct shard_piece *piece = &shard->pieces[i];
        size_t end = piece->offset + piece->count;
        for (size_t at = piece->offset; at < end;) {
            size_t count = smaller(block_at(layer, at), end - at);
            if (!is_zero(gradient + at, count) && !add(runs, first, at, count))
                return false;
            first += count;
            at += count;
        }
    }
    return true;
}

/* Are most of some sampled rows zero? If not, examining all of them and sending runs costs as much
 * as it saves: with a third of them zero two workers were not faster. */
static bool is_worth_it(const struct model_layer *layer, const float *gradient)
{
    size_t zeros = 0;
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t row =
            (i * GOLDEN % (UINT64_C(1) << 32)) * layer->inputs >> 32; /* at irregular distances */
        zeros += is_zero(gradient + layer->weights_offset + row * layer->outputs, layer->outputs);
    }
    return zeros * 2 > SAMPLES;
}

void runs_find(const struct shard *shard, const struct model_layout *layout, const float *gradient,
               struct runs *ret_runs)
{
    ret_runs->count = ret_runs->floats = 0;
    bool found = shard->parameters <= UINT32_MAX && is_worth_it(&layout->layers[0], gradient) &&
                 find(shard, &layout->layers[0], gradient, ret_runs);
    if (!found || ret_runs->floats > shard->parameters / 16 * 15)
        ret_runs->count = 0;
}

enum error runs_read(const void *payload, size_t bytes, size_t count, size_t parameters,
                     struct runs *ret_runs)
{
    size_t end = 0;
    if (count < 1 || count > RUNS_LIMIT || bytes < count * sizeof(struct run))
        return error_set(ERROR_INPUT, "%zu runs of a gradient in %zu bytes", count, bytes);
    memcpy(ret_runs->list, payload, count * sizeof(struct run));
    ret_runs->count = count;
    ret_runs->floats = 0;
    for (size_t i = 0; i < count; i++) {
        const struct run *run = &ret_runs->list[i];
        if (run->first < end || run->count == 0 || run->first > parameters ||
            run->count > parameters - run->first)
            return error_set(ERROR_INPUT,
                             "run %zu of a gradient has %" PRIu32 " floats from %" PRIu32
                             " on, must lie between %zu and %zu",
                             i, run->count, run->first, end, parameters);
        end = (size_t)run->first + run->count;
        ret_runs->floats += run->count;
    }
    return OK;
}
