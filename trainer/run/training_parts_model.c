/* SPDX-License-Identifier: MIT */
/* The model of a training, new or with a checkpoint's state; a worker's, as the servers have it. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "common/log.h"
#include "loader/feed/pull_plan.h"
#include "trainer/checkpoint/sampler_order.h"
#include "trainer/run/training_parts_private.h"

/* Compares server 0's facts with this worker's options. */
enum error training_parts_compare(const struct checkpoint *checkpoint,
                                  const struct model_options *model)
{
    enum error error = checkpoint_compare(checkpoint, model);
    return error ? error : checkpoint_compare_hyperparameters(checkpoint, model);
}

void training_parts_take_seed(struct training_parts *parts, uint64_t seed)
{
    const struct training_options *options = parts->options;
    if (options->seed_given && options->model.seed != seed)
        log_warning("--seed %" PRIu64 " has no effect: this training began with --seed %" PRIu64,
                    options->model.seed, seed);
    parts->facts.model.seed = seed;
}

static enum error choose_seed(struct training_parts *parts)
{
    const struct checkpoint_facts *saved = training_parts_saved_facts(parts);
    uint64_t *seed = &parts->facts.model.seed;
    if (saved) {
        training_parts_take_seed(parts, saved->model.seed);
    } else if (!parts->options->seed_given) {
        if (getrandom(seed, sizeof(*seed), 0) != (ssize_t)sizeof(*seed))
            return error_set_errno(ERROR_IO, errno, "cannot draw a seed; give one with --seed");
        *seed >>= 1;
        log_info("parameters start from --seed %" PRIu64, *seed);
    }
    return OK;
}

/* Compares what server 0 trains with this worker's proposal, by which it already reads features. */
static enum error compare_features(const struct training_parts *parts,
                                   const struct checkpoint *held)
{
    struct checkpoint_facts own = parts->facts;
    struct buffer ours = BUFFER_INIT(SAFETENSORS_HEADER_LIMIT), theirs = ours;
    own.position = checkpoint_get_facts(held)->position;
    enum error error = checkpoint_print_facts(&own, 0, &ours);
    if (!error)
        error = checkpoint_print_facts(checkpoint_get_facts(held), 0, &theirs);
    if (!error &&
        (ours.length != theirs.length || memcmp(ours.data, theirs.data, ours.length) != 0))
        error = error_set(ERROR_CONFLICT,
                          "%s trains with another --feature-scale or --normalize already, or with "
                          "columns of other names or in another order; start this worker again",
                          checkpoint_path(held));
    buffer_release(&ours);
    buffer_release(&theirs);
    return error;
}

/* Server 0 takes the first proposal that arrives, with its seed: is this worker's own the same? */
static enum error propose(struct training_parts *parts)
{
    struct checkpoint *held = NULL;
    enum error error = exchange_propose(parts->exchange, &parts->facts, &held);
    if (error || !held)
        return error;
    training_parts_take_seed(parts, checkpoint_get_facts(held)->model.seed);
    error = training_parts_compare(held, &parts->facts.model);
    if (!error)
        error = checkpoint_check_recipe(checkpoint_get_facts(held)->recipe, checkpoint_path(held),
                                        store_info(parts->store));
    if (!error)
        error = sampler_order_compare(&checkpoint_get_facts(held)->position, checkpoint_path(held),
                                      &parts->facts.position);
    if (!error)
        error = compare_features(parts, held);
    checkpoint_close(held);
    return error;
}

/* A worker keeps values only, and the servers the optimizer's slots, unless GPUs train together. */
static enum error make_worker_model(struct training_parts *parts)
{
    enum error error = propose(parts);
    if (error)
        return error;
    struct model_options model = parts->facts.model;
    if (!parts->options->is_grouped)
        model.optimizer.kind = OPTIMIZER_SGD;
    error = model_new(&model, parts->engine.kernel, &parts->model);
    if (error)
        return error;
    struct pull_plan plan;
    const struct sampler_stream *stream = &parts->facts.position.stream;
    pull_plan_init(&plan, stream, (size_t)parts->options->batch_rows, 0);
    return exchange_begin(parts->exchange, &parts->engine, parts->model, stream->epochs,
                          pull_plan_batches(&plan, stream->epochs));
}

enum error training_parts_make_model(struct training_parts *parts)
{
    const struct training_options *options = parts->options;
    struct model_options *model = &parts->facts.model;
    const struct checkpoint_facts *saved = training_parts_saved_facts(parts);
    size_t test_rows = options->test_store_uri ? engine_rows(model->shape.features) : 0;
    enum error error = choose_seed(parts);
    if (error)
        return error;
    model->batch_rows = (size_t)options->batch_rows;
    if (model->batch_rows < test_rows)
        model->batch_rows = test_rows;
    if (parts->exchange)
        return make_worker_model(parts);
    error = model_new(model, parts->engine.kernel, &parts->model);
    if (!error && parts->initial) {
        log_info("parameters start from %s", checkpoint_path(parts->initial));
        error = checkpoint_restore_parameters(parts->initial, parts->model);
    }
    if (error || !saved)
        return error;
    error = checkpoint_compare(parts->checkpoint, model);
    if (error)
        return error;
    hyperparameters_log_changes(&saved->model, model);
    log_info("going on from %s, step %" PRId64, checkpoint_path(parts->checkpoint),
             checkpoint_step(parts->checkpoint));
    return checkpoint_restore(parts->checkpoint, parts->model);
}
