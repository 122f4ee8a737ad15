/* SPDX-License-Identifier: MIT */
#include "trainer/server/held_shard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trainer/compute/cpu_loops.h"
#include "trainer/ledger/step_batches.h"

enum error held_shard_open(struct held_shard *held, const struct engine_options *engine,
                           size_t aggregate)
{
    struct engine_options options = *engine;
    options.device = "cpu";
    options.precision = NULL; /* no matrix products here */
    *held = (struct held_shard){.aggregate = aggregate, .end = INT64_MAX};
    held->stored = array_new(aggregate, sizeof(*held->stored), "gradients of a step");
    return held->stored ? engine_open(&options, &held->engine) : ERROR_MEMORY;
}

static void forget_stored(struct held_shard *held)
{
    for (size_t i = 0; held->stored && i < held->aggregate; i++) {
        free(held->stored[i].gradient);
        held->stored[i].gradient = NULL;
    }
    held->stored_count = 0;
}

void held_shard_close(struct held_shard *held)
{
    forget_stored(held);
    free(held->stored);
    free(held->expanded);
    parameters_release(&held->parameters);
    index_set_release(&held->applied);
    index_set_release(&held->needed);
    engine_close(&held->engine);
}

enum error held_shard_shape(struct held_shard *held, const struct model_layout *layout,
                            const struct shard *shard, const struct optimizer *optimizer)
{
    held->generation = 0;
    forget_stored(held);
    free(held->expanded);
    held->expanded = NULL;
    held->layout = *layout;
    held->shard = *shard;
    parameters_release(&held->parameters);
    return parameters_init(&held->parameters, shard->parameters, optimizer, held->engine.kernel);
}

enum error held_shard_begin(struct held_shard *held, uint64_t generation, const float *state,
                            int64_t step, const struct index_set *applied)
{
    held->generation = 0;
    held->stored_count = 0;
    held_shard_thaw(held);
    enum error error = index_set_copy(&held->applied, applied);
    if (!error)
        error = parameters_write(&held->parameters, state, step);
    if (!error)
        held->generation = generation;
    return error;
}

bool held_shard_takes(const struct held_shard *held, int64_t batch)
{
    return !held->frozen || index_set_has(&held->applied, batch) ||
           (held->united && index_set_has(&held->needed, batch));
}

enum error held_shard_apply(struct held_shard *held, int64_t batch, const float *gradient)
{
    if (index_set_has(&held->applied, batch))
        return OK;
    enum error error = index_set_add(&held->applied, (struct index_range){batch, batch + 1});
    if (!error && gradient)
        error = parameters_update(&held->parameters, gradient);
    return error;
}

const float *held_shard_expand(struct held_shard *held, const struct gradient_part parts[],
                               size_t count)
{
    size_t parameters = held->shard.parameters, end = 0;
    if (!held->expanded)
        held->expanded = array_new(parameters, sizeof(float), "a gradient");
    for (size_t i = 0; held->expanded && i < count; i++) {
        memset(held->expanded + end, 0, (parts[i].first - end) * sizeof(float));
        memcpy(held->expanded + parts[i].first, parts[i].values, parts[i].count * sizeof(float));
        end = parts[i].first + parts[i].count;
    }
    if (held->expanded)
        memset(held->expanded + end, 0, (parameters - end) * sizeof(float));
    return held->expanded;
}

enum error held_shard_apply_parts(struct held_shard *held, int64_t batch,
                                  const struct gradient_part parts[], size_t count)
{
    if (!optimizer_keeps(&held->parameters.optimizer)) {
        const float *gradient = held_shard_expand(held, parts, count);
        return gradient ? held_shard_apply(held, batch, gradient) : ERROR_MEMORY;
    }
    if (index_set_has(&held->applied, batch))
        return OK;
    enum error error = index_set_add(&held->applied, (struct index_range){batch, batch + 1});
    return error ? error : parameters_update_parts(&held->parameters, parts, count);
}

/* ---- synchronous -------------------------------------------------------- */

int64_t held_shard_next(const struct held_shard *held, size_t rank)
{
    return step_batches_at(&held->applied, (int64_t)rank, held->end);
}

/* How many batches the next step has. */
static size_t step_size(const struct held_shard *held)
{
    size_t size = held->aggregate;
    while (size > 0 && held_shard_next(held, size - 1) < 0)
        size--;
    return size;
}

bool held_shard_is_next(const struct held_shard *held, int64_t batch)
{
    size_t size = step_size(held);
    return size > 0 && !index_set_has(&held->applied, batch) &&
           batch <= held_shard_next(held, size - 1);
}

bool held_shard_has(const struct held_shard *held, int64_t batch)
{
    for (size_t i = 0; i < held->stored_count; i++) {
        if (held->stored[i].batch == batch)
            return true;
    }
    return false;
}

/* Ascending by batch. */
static void sort_stored(struct held_shard *held)
{
    for (size_t i = held->stored_count; i-- > 1;) {
        struct stored_gradient *last = &held->stored[i];
        if (last[-1].batch < last->batch)
            return;
        struct stored_gradient other = *last;
        *last = last[-1];
        last[-1] = other;
    }
}

enum error held_shard_store(struct held_shard *held, int64_t batch, const float *gradient)
{
    size_t count = held->shard.parameters;
    if (index_set_has(&held->applied, batch) || held_shard_has(held, batch))
        return OK;
    if (!held_shard_is_next(held, batch) || held->stored_count == held->aggregate)
        return error_set(ERROR_INPUT,
                         "batch %" PRId64 " is not of the next step, whose first is %" PRId64,
                         batch, held_shard_next(held, 0));
    struct stored_gradient *stored = &held->stored[held->stored_count];
    if (!stored->gradient)
        stored->gradient = array_new(count, sizeof(float), "a gradient of a step");
    if (!stored->gradient)
        return ERROR_MEMORY;
    stored->batch = batch;
    stored->rows = gradient != NULL;
    if (gradient)
        memcpy(stored->gradient, gradient, count * sizeof(float));
    held->stored_count++;
    sort_stored(held);
    return OK;
}

/* Averages the gradients that have rows, into the first of them. Returns how many have rows. */
static size_t average(struct held_shard *held, float **ret_mean)
{
    const struct cpu_loops *loops = cpu_loops_best();
    float *mean = NULL;
    size_t used = 0, count = held->shard.parameters;
    for (size_t i = 0; i < held->stored_count; i++) {
        const float *gradient = held->stored[i].gradient;
        if (!held->stored[i].rows)
            continue;
        if (used++ == 0)
            mean = held->stored[i].gradient;
        else
            loops->add(mean, gradient, count);
    }
    if (used > 1)
        loops->divide(mean, (float)used, count);
    *ret_mean = mean;
    return used;
}

static bool may_step(const struct held_shard *held)
{
    bool may = held->stored_count > 0 && (!held->frozen || held->united);
    for (size_t i = 0; may && held->frozen && i < held->stored_count; i++)
        may = index_set_has(&held->needed, held->stored[i].batch);
    return may;
}

enum error held_shard_follow_step(struct held_shard *held, bool *ret_made)
{
    float *mean;
    enum error error = OK;
    *ret_made = may_step(held);
    if (!*ret_made)
        return OK;
    for (size_t i = 0; i < held->stored_count && !error; i++) {
        int64_t batch = held->stored[i].batch;
        error = index_set_add(&held->applied, (struct index_range){batch, batch + 1});
    }
    if (!error && average(held, &mean) > 0)
        error = parameters_update(&held->parameters, mean);
    held->stored_count = 0;
    return error;
}

enum error held_shard_make_step(struct held_shard *held, bool *ret_made)
{
    *ret_made = false;
    return held->stored_count < step_size(held) ? OK : held_shard_follow_step(held, ret_made);
}

void held_shard_end(struct held_shard *held, int64_t end)
{
    if (end < held->end)
        held->end = end;
}

void held_shard_forget_end(struct held_shard *held)
{
    held->end = INT64_MAX;
}

/* ---- cuts --------------------------------------------------------------- */

void held_shard_freeze(struct held_shard *held)
{
    held->frozen = true;
    held->united = false;
}

enum error held_shard_unite(struct held_shard *held, const struct index_set *needed)
{
    enum error error = index_set_copy(&held->needed, needed);
    held->united = !error;
    return error;
}

bool held_shard_is_cut(const struct held_shard *held)
{
    return held->frozen && held->united && index_set_within(&held->needed, &held->applied);
}

void held_shard_thaw(struct held_shard *held)
{
    held->frozen = held->united = false;
}

const float *held_shard_state(const struct held_shard *held)
{
    return held->parameters.state;
}

size_t held_shard_state_count(const struct held_shard *held)
{
    return parameters_state_count(&held->parameters);
}
