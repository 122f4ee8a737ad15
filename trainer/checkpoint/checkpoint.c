/* SPDX-License-Identifier: MIT */
#include "trainer/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/hang.h"
#include "common/log.h"
#include "common/text.h"
#include "trainer/checkpoint/safetensors.h"

#define STEP_NAME "global_step"

struct checkpoint {
    char *path;
    struct safetensors *file;
    bool has_facts;
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

static enum error read_facts(struct checkpoint *checkpoint)
{
    enum error error = checkpoint_facts_read(checkpoint->file, &checkpoint->facts);
    if (!error)
        checkpoint->has_facts = true;
    if (!error)
        error = read_step(checkpoint->file, &checkpoint->step);
    return error ? error_prefix(error, "%s: ", checkpoint->path) : OK;
}

static enum error open_own(struct checkpoint *checkpoint)
{
    enum error error = safetensors_verify(checkpoint->file);
    return error ? error : read_facts(checkpoint);
}

/* Files of other programs have no digest, and most have none of our metadata. */
static enum error open_foreign(struct checkpoint *checkpoint)
{
    if (safetensors_metadata(checkpoint->file, SAFETENSORS_DIGEST))
        return open_own(checkpoint);
    log_warning("%s has no digest, like files of other programs: damage would go unnoticed",
                checkpoint->path);
    return safetensors_metadata(checkpoint->file, "format") ? read_facts(checkpoint) : OK;
}

static enum error open_file(const char *path, enum error (*read)(struct checkpoint *),
                            struct checkpoint **ret_checkpoint)
{
    struct checkpoint *checkpoint = array_new(1, sizeof(*checkpoint), "a checkpoint");
    if (!checkpoint)
        return ERROR_MEMORY;
    struct hang hang;
    hang_begin(&hang, HANG_MS, "while %s does not answer", path);
    hang_warn(&hang);
    checkpoint->path = strdup(path);
    enum error error = checkpoint->path ? safetensors_open(path, &checkpoint->file)
                                        : error_set_memory(strlen(path), "a path");
    if (!error)
        error = read(checkpoint);
    hang_end(&hang);
    if (error) {
        checkpoint_close(checkpoint);
        return error;
    }
    *ret_checkpoint = checkpoint;
    return OK;
}

enum error checkpoint_open(const char *path, struct checkpoint **ret_checkpoint)
{
    return open_file(path, open_own, ret_checkpoint);
}

enum error checkpoint_open_facts(const char *name, const void *bytes, size_t length,
                                 struct checkpoint **ret_checkpoint)
{
    struct checkpoint *checkpoint = array_new(1, sizeof(*checkpoint), "a checkpoint");
    if (!checkpoint)
        return ERROR_MEMORY;
    checkpoint->path = strdup(name);
    enum error error = checkpoint->path
                           ? safetensors_open_bytes(name, bytes, length, &checkpoint->file)
                           : error_set_memory(strlen(name), "a name");
    if (!error)
        error = read_facts(checkpoint);
    if (error) {
        checkpoint_close(checkpoint);
        return error;
    }
    *ret_checkpoint = checkpoint;
    return OK;
}

enum error checkpoint_open_foreign(const char *path, struct checkpoint **ret_checkpoint)
{
    return open_file(path, open_foreign, ret_checkpoint);
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

enum error checkpoint_copy(const struct checkpoint *checkpoint, const char *path)
{
    struct hang hang; /* the file at `path` stays as it was until the copy is complete */
    hang_begin(&hang, HANG_MS, "while %s does not answer", path);
    hang_warn(&hang);
    enum error error = safetensors_copy(checkpoint->file, path);
    hang_end(&hang);
    return error;
}

const char *checkpoint_path(const struct checkpoint *checkpoint)
{
    return checkpoint->path;
}

bool checkpoint_has_facts(const struct checkpoint *checkpoint)
{
    return checkpoint->has_facts;
}

const struct checkpoint_facts *checkpoint_get_facts(const struct checkpoint *checkpoint)
{
    return &checkpoint->facts;
}

int64_t checkpoint_step(const struct checkpoint *checkpoint)
{
    return checkpoint->step;
}

bool checkpoint_was_stopped(const struct checkpoint *checkpoint)
{
    return checkpoint->facts.position.ended && checkpoint->facts.position.stopped;
}

static enum error differs(const struct checkpoint *checkpoint, const char *what, const char *theirs,
                          const char *ours)
{
    return error_set(ERROR_CONFLICT,
                     "%s holds another model: its %s is %s, this run's is %s; train in another "
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

static enum error compare_float(const struct checkpoint *checkpoint, const char *what, float theirs,
                                float ours)
{
    char left[TEXT_REAL_BYTES], right[TEXT_REAL_BYTES];
    return compare_text(checkpoint, what, text_of_float(theirs, left), text_of_float(ours, right));
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
        error = compare_float(checkpoint, "initial_accumulator", own->optimizer.initial_accumulator,
                              model->optimizer.initial_accumulator);
    if (!error)
        error = compare_count(checkpoint, "number of features", own->shape.features,
                              model->shape.features);
    if (!error)
        error = compare_count(checkpoint, "number of outputs", own->shape.outputs,
                              model->shape.outputs);
    return error;
}

enum error checkpoint_compare_hyperparameters(const struct checkpoint *checkpoint,
                                              const struct model_options *model)
{
    const struct model_options *own = &checkpoint->facts.model;
    char left[HYPERPARAMETER_BYTES], right[HYPERPARAMETER_BYTES];
    size_t number = hyperparameters_difference(own, model);
    if (number == HYPERPARAMETERS)
        return OK;
    return error_set(ERROR_CONFLICT,
                     "%s has the %s %s, not %s: all processes of a training must have "
                     "the same",
                     checkpoint->path, hyperparameter_name(number),
                     hyperparameter_text(number, own, left),
                     hyperparameter_text(number, model, right));
}

/* The place of the first of values[count] that is not finite; `count`: none. */
static size_t not_finite_at(const float *values, size_t count)
{
    size_t at = 0;
    while (at < count && isfinite(values[at]))
        at++;
    return at;
}

/* Does the tensor have the model's type and shape? */
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

static enum error read_tensor(const struct checkpoint *checkpoint, const struct model_tensor *view,
                              float *state)
{
    const struct safetensors_tensor *tensor = safetensors_find(checkpoint->file, view->name);
    if (!tensor)
        return error_set(ERROR_CONFLICT, "%s has no tensor %s", checkpoint->path, view->name);
    if (!same_shape(tensor, view))
        return error_set(ERROR_CONFLICT, "%s: tensor %s is not F32 of shape [%zu%s%.0zu]",
                         checkpoint->path, view->name, view->shape[0],
                         view->dimensions == 2 ? ", " : "",
                         view->dimensions == 2 ? view->shape[1] : 0);
    float *values = state + view->offset;
    enum error error =
        safetensors_read(checkpoint->file, tensor, values, view->count * sizeof(*values));
    if (error)
        return error;
    size_t at = not_finite_at(values, view->count);
    if (at < view->count)
        return error_set(ERROR_INPUT, "%s: element %zu of tensor %s is %s, not a finite number",
                         checkpoint->path, at, view->name, isnan(values[at]) ? "NaN" : "infinite");
    return OK;
}

/* Reads the tensors that begin below `end` in the state; the others stay as they are. */
static enum error read_tensors(const struct checkpoint *checkpoint,
                               const struct model_layout *layout, size_t end, float *state)
{
    struct hang hang;
    enum error error = OK;
    hang_begin(&hang, HANG_MS, "while %s does not answer", checkpoint->path);
    hang_warn(&hang);
    for (size_t i = 0; i < layout->tensor_count && !error; i++) {
        const struct model_tensor *view = &layout->tensors[i];
        if (view->offset < end)
            error = read_tensor(checkpoint, view, state);
    }
    hang_end(&hang);
    return error;
}

enum error checkpoint_read_state(const struct checkpoint *checkpoint,
                                 const struct model_layout *layout, float *state)
{
    return read_tensors(checkpoint, layout, layout->state, state);
}

enum error checkpoint_read_parameters(const struct checkpoint *checkpoint,
                                      const struct model_layout *layout, float *state)
{
    return read_tensors(checkpoint, layout, layout->parameters, state);
}

static enum error restore(const struct checkpoint *checkpoint, struct model *model, size_t end,
                          int64_t step)
{
    float *state = array_new(model_state_count(model), sizeof(*state), "a model's state");
    if (!state)
        return ERROR_MEMORY;
    enum error error = model_read(model, state);
    if (!error)
        error = read_tensors(checkpoint, model_get_layout(model), end, state);
    if (!error)
        error = model_write(model, state, step);
    free(state);
    return error;
}

enum error checkpoint_restore(const struct checkpoint *checkpoint, struct model *model)
{
    return restore(checkpoint, model, model_state_count(model), checkpoint->step);
}

enum error checkpoint_restore_parameters(const struct checkpoint *checkpoint, struct model *model)
{
    return restore(checkpoint, model, model_parameters(model), 0);
}

/* ---- writing ------------------------------------------------------------ */

struct checkpoint_snapshot {
    int64_t step;
    float *state;                 /* owned */
    struct model_tensor *tensors; /* [count], owned: the views of `state` */
    size_t count;
    const struct feature_norm *norm; /* borrowed */
    struct checkpoint_metadata metadata;
};

static enum error describe(struct checkpoint_snapshot *snapshot, const struct model_layout *layout,
                           const struct checkpoint_facts *facts)
{
    snapshot->norm = &facts->norm;
    snapshot->tensors =
        array_new(layout->tensor_count, sizeof(*snapshot->tensors), "a model's tensors");
    if (!snapshot->tensors)
        return ERROR_MEMORY;
    snapshot->count = layout->tensor_count;
    memcpy(snapshot->tensors, layout->tensors, snapshot->count * sizeof(*snapshot->tensors));
    return checkpoint_facts_print(facts, &snapshot->metadata);
}

enum error checkpoint_snapshot_of(float *state, int64_t step, const struct model_layout *layout,
                                  const struct checkpoint_facts *facts,
                                  struct checkpoint_snapshot **ret_snapshot)
{
    struct checkpoint_snapshot *snapshot = array_new(1, sizeof(*snapshot), "a checkpoint");
    if (!snapshot) {
        free(state);
        return ERROR_MEMORY;
    }
    snapshot->state = state;
    snapshot->step = step;
    enum error error = describe(snapshot, layout, facts);
    if (error) {
        checkpoint_snapshot_free(snapshot);
        return error;
    }
    *ret_snapshot = snapshot;
    return OK;
}

enum error checkpoint_snapshot_new(struct model *model, const struct checkpoint_facts *facts,
                                   struct checkpoint_snapshot **ret_snapshot)
{
    float *state = array_new(model_state_count(model), sizeof(*state), "a model's state");
    if (!state)
        return ERROR_MEMORY;
    enum error error = model_read(model, state);
    if (!error)
        return checkpoint_snapshot_of(state, model_get_step(model), model_get_layout(model), facts,
                                      ret_snapshot);
    free(state);
    return error;
}

void checkpoint_snapshot_free(struct checkpoint_snapshot *snapshot)
{
    if (!snapshot)
        return;
    checkpoint_metadata_release(&snapshot->metadata);
    free(snapshot->state);
    free(snapshot->tensors);
    free(snapshot);
}

int64_t checkpoint_snapshot_step(const struct checkpoint_snapshot *snapshot)
{
    return snapshot->step;
}

static enum error check_finite(const struct checkpoint_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct model_tensor *view = &snapshot->tensors[i];
        const float *values = snapshot->state + view->offset;
        size_t at = not_finite_at(values, view->count);
        if (at < view->count)
            return error_set(ERROR_INPUT,
                             "training diverged: after step %" PRId64 " element %zu of %s is "
                             "%g; not saved (a smaller --learning-rate may help)",
                             snapshot->step, at, view->name, (double)values[at]);
    }
    return OK;
}

static size_t describe_tensors(const struct checkpoint_snapshot *snapshot,
                               struct safetensors_entry *entries)
{
    const struct feature_norm *norm = snapshot->norm;
    size_t count = snapshot->count;
    for (size_t i = 0; i < count; i++) {
        const struct model_tensor *view = &snapshot->tensors[i];
        entries[i] = (struct safetensors_entry){.name = view->name,
                                                .type = SAFETENSORS_F32,
                                                .rank = view->dimensions,
                                                .shape = {view->shape[0], view->shape[1]},
                                                .data = snapshot->state + view->offset};
    }
    entries[count++] = (struct safetensors_entry){
        .name = STEP_NAME, .type = SAFETENSORS_I64, .data = &snapshot->step};
    if (norm->features == 0)
        return count;
    struct safetensors_entry entry = {
        .type = SAFETENSORS_F32, .rank = 1, .shape = {norm->features}};
    entries[count] = entry;
    entries[count].name = CHECKPOINT_MEAN;
    entries[count++].data = norm->mean;
    entries[count] = entry;
    entries[count].name = CHECKPOINT_DEVIATION;
    entries[count++].data = norm->deviation;
    return count;
}

enum error checkpoint_snapshot_write(const struct checkpoint_snapshot *snapshot, const char *path)
{
    enum error error = check_finite(snapshot);
    if (error)
        return error;
    struct safetensors_entry *entries =
        array_new(snapshot->count + 3, sizeof(*entries), "a checkpoint's tensors");
    if (!entries)
        return ERROR_MEMORY;
    size_t count = describe_tensors(snapshot, entries);
    error =
        safetensors_write(path, entries, count, snapshot->metadata.pairs, snapshot->metadata.count);
    free(entries);
    return error;
}

enum error checkpoint_print_facts(const struct checkpoint_facts *facts, int64_t step,
                                  struct buffer *out)
{
    struct checkpoint_snapshot snapshot = {.step = step, .norm = &facts->norm};
    struct safetensors_entry entries[3];
    enum error error = checkpoint_facts_print(facts, &snapshot.metadata);
    if (!error)
        error = safetensors_print(entries, describe_tensors(&snapshot, entries),
                                  snapshot.metadata.pairs, snapshot.metadata.count, out);
    checkpoint_metadata_release(&snapshot.metadata);
    return error;
}
