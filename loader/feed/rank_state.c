/* SPDX-License-Identifier: MIT */
#include "loader/feed/rank_state.h"

#include <inttypes.h>

#include "loader/feed/pull_plan.h"
#include "loader/feed/rank_walk.h"
#include "loader/feed/stream_position.h"

/* This rank's batches after the first one that is not done, as steps. */
static enum error take_steps(struct rank_state *state, const struct index_set *batches)
{
    enum error error = OK;
    for (size_t i = 0; i < batches->count && !error; i++) {
        struct index_range range = batches->ranges[i];
        if (range.end <= state->first)
            continue;
        int64_t before = range.first - state->first - state->rank;
        int64_t after = range.end - state->first - state->rank;
        struct index_range steps = {before <= 0 ? 0 : (before - 1) / state->world + 1,
                                    after <= 0 ? 0 : (after - 1) / state->world + 1};
        error = index_set_add(&state->begun, steps);
    }
    return error ? error : index_set_copy(&state->done, &state->begun);
}

enum error rank_state_parse(struct rank_state *state, const char *text,
                            struct sampler_stream *ret_stream)
{
    struct stream_position position = {.batch_rows = 0};
    struct index_set batches = {.count = 0};
    enum error error = stream_position_parse(text, "the state", &position, &batches);
    if (!error && position.batch_rows != state->batch_rows)
        error = error_set(ERROR_CONFLICT,
                          "the state counts batches of %" PRId64 " rows, this feed has %" PRId64
                          " a batch",
                          position.batch_rows, state->batch_rows);
    if (!error && position.bucket_window != state->bucket_window)
        error = error_set(ERROR_CONFLICT,
                          "the state is from a feed with a bucket window of %" PRId64
                          " batches (0: none), this one has %" PRId64,
                          position.bucket_window, state->bucket_window);
    if (!error && index_set_end(&batches) > RANK_WALK_BATCHES_LIMIT)
        error = error_set(ERROR_INPUT,
                          "the state says that %" PRId64 " batches are done; no order "
                          "is that long",
                          index_set_end(&batches));
    if (!error) {
        state->first = index_set_gap(&batches, 0, INT64_MAX).first;
        *ret_stream = position.stream;
        if (!stream_position_has_cut_batch(&position, &batches))
            ret_stream->epochs = SAMPLER_EPOCHS_ANY; /* another number is the same order */
        error = take_steps(state, &batches);
    }
    index_set_release(&batches);
    return error;
}

/* Steps that were done when the feed began are not among its batches. */
static int64_t step_of(const struct rank_state *state, int64_t sequence)
{
    int64_t step = sequence;
    for (size_t i = 0; i < state->begun.count && state->begun.ranges[i].first <= step; i++)
        step += state->begun.ranges[i].end - state->begun.ranges[i].first;
    return step;
}

enum error rank_state_add(struct rank_state *state, int64_t sequence)
{
    int64_t step = step_of(state, sequence);
    return index_set_add(&state->done, (struct index_range){step, step + 1});
}

/* The batches of a run of steps: for a single rank also a run. */
static enum error add_batches(const struct rank_state *state, const struct index_range *steps,
                              struct index_set *batches)
{
    int64_t first = state->first + state->rank;
    enum error error = OK;
    if (state->world == 1)
        return index_set_add(batches,
                             (struct index_range){first + steps->first, first + steps->end});
    for (int64_t step = steps->first; step < steps->end && !error; step++) {
        int64_t batch = first + step * state->world;
        error = index_set_add(batches, (struct index_range){batch, batch + 1});
    }
    return error;
}

/* Batches behind the stream's end, of a last round that only some ranks or parts have, or that was
 * filled up, stay out: with more epochs they are batches that nobody had. */
static enum error collect_batches(const struct rank_state *state,
                                  const struct sampler_stream *stream, struct index_set *batches)
{
    struct pull_plan plan;
    pull_plan_init(&plan, stream, (size_t)state->batch_rows, 0);
    int64_t end = pull_plan_batches(&plan, stream->epochs);
    int64_t steps = index_set_gap(&state->done, 0, INT64_MAX).first;
    struct index_range all = {0, state->first + steps * state->world};
    enum error error = index_set_add(batches, all);
    for (size_t i = 0; i < state->done.count && !error; i++) {
        if (state->done.ranges[i].first >= steps)
            error = add_batches(state, &state->done.ranges[i], batches);
    }
    if (!error && end >= state->first)
        error = index_set_remove(batches, (struct index_range){end, INT64_MAX});
    return error;
}

enum error rank_state_print(const struct rank_state *state, const struct sampler_stream *stream,
                            struct buffer *out)
{
    const struct stream_position position = {
        .stream = *stream, .batch_rows = state->batch_rows, .bucket_window = state->bucket_window};
    struct index_set batches = {.count = 0};
    enum error error = collect_batches(state, stream, &batches);
    if (!error)
        error = stream_position_print(&position, &batches, out);
    index_set_release(&batches);
    return error;
}

void rank_state_release(struct rank_state *state)
{
    index_set_release(&state->begun);
    index_set_release(&state->done);
}
