/* SPDX-License-Identifier: MIT */
#include "trainer/exchange/joint_step.h"

#include <stdatomic.h>

enum error joint_step_init(struct joint_step *step, const struct engine *engine,
                           struct model *model)
{
    struct device *device = engine->device;
    void *memory = NULL;
    *step = (struct joint_step){.engine = engine, .model = model};
    enum error error = device_floats_new(device, 1, model_parameters(model) + 1, &step->sum);
    if (!error)
        error = device_memory_new(device, sizeof(*step->makes), &memory);
    step->makes = memory;
    memory = NULL;
    if (!error)
        error = device_host_new(device, sizeof(*step->board), &memory);
    step->board = memory;
    return error;
}

void joint_step_release(struct joint_step *step)
{
    if (!step->engine)
        return;
    device_memory_free(step->engine->device, step->sum);
    device_memory_free(step->engine->device, step->makes);
    device_host_free(step->engine->device, step->board);
}

void joint_step_begin(struct joint_step *step, int64_t made)
{
    step->is_begun = false;
    atomic_store(&step->board->made, made);
    atomic_store(&step->board->stop, 0);
    model_set_step(step->model, made);
}

static enum error clear_sum(struct joint_step *step)
{
    if (step->is_begun)
        return OK;
    step->is_begun = true;
    step->gradients = 0;
    return kernel_fill(step->engine->kernel, 0, model_parameters(step->model), step->sum);
}

enum error joint_step_add(struct joint_step *step)
{
    enum error error = clear_sum(step);
    step->gradients++;
    return error ? error
                 : kernel_add(step->engine->kernel, model_gradient_values(step->model),
                              model_parameters(step->model), step->sum);
}

enum error joint_step_make(struct joint_step *step, struct nccl *nccl)
{
    const struct engine *engine = step->engine;
    size_t parameters = model_parameters(step->model);
    struct kernel_settlement settlement = {.count = parameters,
                                           .sum = step->sum,
                                           .number = model_get_step(step->model) + 1,
                                           .stop = (const int32_t *)&step->board->stop,
                                           .ret_makes = step->makes,
                                           .ret_made = (int64_t *)&step->board->made};
    enum error error = clear_sum(step);
    if (!error)
        error = kernel_fill(engine->kernel, (float)step->gradients, 1, step->sum + parameters);
    if (!error)
        error = nccl_sum(nccl, step->sum, parameters + 1,
                         device_queue_native(engine->device, engine->queue));
    if (!error)
        error = kernel_settle(engine->kernel, &settlement);
    if (!error)
        error = model_apply_if(step->model, step->sum, step->makes);
    step->is_begun = false;
    return error;
}

void joint_step_stop(struct joint_step *step)
{
    atomic_store(&step->board->stop, 1);
}

bool joint_step_is_stopped(const struct joint_step *step)
{
    return atomic_load(&step->board->stop) != 0;
}

int64_t joint_step_made(const struct joint_step *step)
{
    return atomic_load(&step->board->made);
}
