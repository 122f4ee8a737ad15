/* SPDX-License-Identifier: MIT */
#include "trainer/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trainer/checkpoint/safetensors.h"

#define STEP_NAME "global_step"

struct checkpoint {
    char *path;
    struct safetensors *file;
    struct checkpoint_facts facts;
    int64_t step;
};

static enum error read_step(const struct safetensors *file, int64_t *ret_step)
{
    const struct safetensors_tensor *tensor = safetensors_find(file, STEP_NAME);
    if (!tensor || tensor->type != SAFETENSORS_I64 || tensor->rank != 0)
        return error_set(ERROR_INPUT, "it has no scalar " STEP_NAME " of type I64: not a "
                                      "checkpoint of this program");
    enum error error = safetensors_read(file, tensor, ret_step, sizeof(*ret_step));
    if (!error && *ret_step < 0)
        error = error_set(ERROR_INPUT, "its " STEP_NAME " is negative, %" PRId64, *ret_step);
    return error;
}

enum error checkpoint_open(const char *path, struct checkpoint **ret_checkpoint)
{
    struct checkpoint *checkpoint = array_new(1, sizeof(*checkpoint), "a checkpoint");
    if (!checkpoint)
        return ERROR_MEMORY;
    checkpoint->path = strdup(path);
    enum error error;
    if (!checkpoint->path) {
        error = error_set_memory(strlen(path), "a path");
        goto out;
    }
    error = safetensors_open(path, &checkpoint->file);
    if (!error)
        error = safetensors_verify(checkpoint->file);
    if (error)
        goto out;
    error = checkpoint_facts_read(checkpoint->file, &checkpoint->facts);
    if (!error)
        error = read_step(checkpoint->file, &checkpoint->step);
    if (error) {
        error = error_prefix(error, "%s: ", path);
        goto out;
    }
    *ret_checkpoint = checkpoint;
    checkpoint = NULL;
out:
    checkpoint_close(checkpoint);
    return error;
}

void checkpoint_close(struct checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    checkpoint_facts_release(&checkpoint->facts);
    safetensors_close(checkpoint->file);
    free(checkpoint->path);
    free(checkpoint);
}

const char *checkpoint_path(const struct checkpoint *checkpoint)
{
    return checkpoint->path;
}

const struct checkpoint_facts *checkpoint_get_facts(const struct checkpoint *checkpoint)
{
    return &checkpoint->facts;
}

int64_t checkpoint_step(const struct checkpoint *checkpoint)
{
    return checkpoint->step;
}

static enum error differs(const struct checkpoint *checkpoint, const char *what, const char *theirs,
                          const char *ours)
{
    return error_set(ERROR_CONFLICT,
                     "%s is of another model: its %s is %s, this run's is %s; train in another "
                     "--logdir, or with the same options",
                     checkpoint->path, what, theirs, ours);
}

static enum error compare_count(const struct checkpoint *checkpoint, const char *what,
                                size_t theirs, size_t ours)
{
    if (ours == 0 || theirs == ours)
        return OK;
    char left[24], right[24];
    snprintf(left, sizeof(left), "%zu", theirs);
    snprintf(right, sizeof(right), "%zu", ours);
    return differs(checkpoint, what, left, right);
}

static enum error compare_text(const struct checkpoint *checkpoint, const char *what,
                               const char *theirs, const char *ours)
{
    return strcmp(theirs, ours) == 0 ? OK : differs(checkpoint, what, theirs, ours);
}

enum error checkpoint_compare(const struct checkpoint *checkpoint,
                              const struct model_options *model)
{
    const struct model_options *own = &checkpoint->facts.model;
    char left[CHECKPOINT_HIDDEN_BYTES], right[CHECKPOINT_HIDDEN_BYTES];
    enum error error = compare_text(checkpoint, "model", model_kind_name(own->shape.kind),
                                    model_kind_name(model->shape.kind));
    if (!error)
        error = compare_text(checkpoint, "hidden_units", checkpoint_hidden_text(&own->shape, left),
                             checkpoint_hidden_text(&model->shape, right));
    if (!error)
        error = compare_text(checkpoint, "loss", loss_name(own->loss), loss_name(model->loss));
    if (!error)
        error = compare_text(checkpoint, "optimizer", optimizer_name(&own->optimizer),
                             optimizer_name(&model->optimizer));
    if (!error)
        error = compare_count(checkpoint, "number of features", own->shape.features,
                              model->shape.features);
    if (!error)
        error = compare_count(checkpoint, "number of outputs", own->shape.outputs,
                              model->shape.outputs);
    return error;
}

/* Has the file this tensor with the model's shape? */
static bool same_shape(const struct safetensors_tensor *tensor, const struct model_tensor *view)
{
    if (tensor->type != SAFETENSORS_F32 || tensor->rank != view->dimensions)
        return false;
    for (size_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] != view->shape[i])
            return false;
    }
    return true;
}

static enum error read_state(const struct checkpoint *checkpoint, const struct model *model,
                             float *state)
{
    for (size_t i = 0; i < model_tensors(model); i++) {
        const struct model_tensor *view = model_tensor(model, i);
        const struct safetensors_tensor *tensor = safetensors_find(checkpoint->file, view->name);
        if (!tensor)
            return error_set(ERROR_CONFLICT, "%s has no tensor %s", checkpoint->path, view->name);
        if (!same_shape(tensor, view))
            return error_set(ERROR_CONFLICT, "%s: tensor %s is not F32 of shape [%zu%s%.0zu]",
                             checkpoint->path, view->name, view->shape[0],
                             view->dimensions == 2 ? ", " : "",
                             view->dimensions == 2 ? view->shape[1] : 0);
        enum error error = safetensors_read(checkpoint->file, tensor, state + view->offset,
                                            view->count * sizeof(float));
        if (error)
            return error;
    }
    return OK;
}

enum error checkpoint_restore(const struct checkpoint *checkpoint, struct model *model)
{
    float *state = array_new(model_state_count(model), sizeof(*state), "a model's state");
    if (!state)
        return ERROR_MEMORY;
    enum error error = read_state(checkpoint, model, state);
    if (!error)
        error = model_write(model, state, checkpoint->step);
    free(state);
    return error;
}

static enum error check_finite(const struct model *model, const float *state)
{
    for (size_t i = 0; i < model_tensors(model); i++) {
        const struct model_tensor *view = model_tensor(model, i);
        for (size_t j = 0; j < view->count; j++) {
            if (!isfinite(state[view->offset + j]))
                return error_set(ERROR_INPUT,
                                 "training diverged: after step %" PRId64 " element %zu of %s is "
                                 "%g; not saved (a smaller --learning-rate may help)",
                                 model_get_step(model), j, view->name,
                                 (double)state[view->offset + j]);
        }
    }
    return OK;
}

static void describe_tensors(const struct model *model, const float *state, const int64_t *step,
                             struct safetensors_entry *entries)
{
    size_t count = model_tensors(model);
    for (size_t i = 0; i < count; i++) {
        const struct model_tensor *view = model_tensor(model, i);
        entries[i] = (struct safetensors_entry){.name = view->name,
                                                .type = SAFETENSORS_F32,
                                                .rank = view->dimensions,
                                                .shape = {view->shape[0], view->shape[1]},
                                                .data = state + view->offset};
    }
    entries[count] =
        (struct safetensors_entry){.name = STEP_NAME, .type = SAFETENSORS_I64, .data = step};
}

enum error checkpoint_write(const char *path, struct model *model,
                            const struct checkpoint_facts *facts)
{
    size_t count = model_tensors(model) + 1;
    int64_t step = model_get_step(model);
    struct checkpoint_metadata metadata = {.count = 0};
    enum error error = ERROR_MEMORY;
    struct safetensors_entry *entries =
        array_new(count, sizeof(*entries), "a checkpoint's tensors");
    float *state = array_new(model_state_count(model), sizeof(*state), "a model's state");
    if (!entries || !state)
        goto out;
    error = model_read(model, state);
    if (!error)
        error = check_finite(model, state);
    if (!error)
        error = checkpoint_facts_print(facts, &metadata);
    if (error)
        goto out;
    describe_tensors(model, state, &step, entries);
    error = safetensors_write(path, entries, count, metadata.pairs, metadata.count);
out:
    checkpoint_metadata_release(&metadata);
    free(state);
    free(entries);
    return error;
}
