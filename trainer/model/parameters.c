/* SPDX-License-Identifier: MIT */
#include "trainer/model/parameters.h"

enum error parameters_init(struct parameters *parameters, size_t count,
                           const struct optimizer *optimizer, struct kernel *kernel)
{
    *parameters = (struct parameters){.optimizer = *optimizer, .kernel = kernel, .count = count};
    return device_floats_new(kernel->device, 1 + optimizer_slots(optimizer), count,
                             &parameters->state);
}

void parameters_release(struct parameters *parameters)
{
    if (parameters->kernel)
        device_memory_free(parameters->kernel->device, parameters->state);
    parameters->state = NULL;
}

size_t parameters_state_count(const struct parameters *parameters)
{
    return parameters->count * (1 + optimizer_slots(&parameters->optimizer));
}

static enum error update(struct parameters *parameters, const struct gradient_part parts[],
                         size_t count, const int32_t *only_if)
{
    enum error error = OK;
    for (size_t i = 0; i < count && !error; i++) {
        const struct gradient_part *part = &parts[i];
        float *first = parameters->state + part->first;
        struct kernel_update one = {.count = part->count,
                                    .gradient = part->values,
                                    .parameters = first,
                                    .only_if = only_if};
        for (size_t slot = 0; slot < optimizer_slots(&parameters->optimizer); slot++)
            one.slots[slot] = first + (1 + slot) * parameters->count;
        error =
            kernel_update(parameters->kernel, &parameters->optimizer, parameters->step + 1, &one);
    }
    if (!error)
        parameters->step++;
    return error;
}

enum error parameters_update_parts(struct parameters *parameters,
                                   const struct gradient_part parts[], size_t count)
{
    return update(parameters, parts, count, NULL);
}

enum error parameters_update(struct parameters *parameters, const float *gradient)
{
    return parameters_update_if(parameters, gradient, NULL);
}

enum error parameters_update_if(struct parameters *parameters, const float *gradient,
                                const int32_t *only_if)
{
    struct gradient_part whole = {.count = parameters->count, .values = gradient};
    return update(parameters, &whole, 1, only_if);
}

enum error parameters_read(const struct parameters *parameters, float *ret_state)
{
    return kernel_read(parameters->kernel, parameters->state, parameters_state_count(parameters),
                       ret_state);
}

enum error parameters_write(struct parameters *parameters, const float *state, int64_t step)
{
    enum error error = kernel_write(parameters->kernel, state, parameters_state_count(parameters),
                                    parameters->state);
    if (!error)
        parameters->step = step;
    return error;
}
