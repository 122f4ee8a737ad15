/* SPDX-License-Identifier: MIT */
/*
 * Updates on a GPU: trainer/compute/optimizer.h. Each operation is rounded separately (__fmul_rn
 * and similar functions are never fused), so that they give the CPU's bits.
 */
#include <cuda_runtime_api.h>

extern "C" {
#include "trainer/compute/kernel_cuda_private.h"
}

/* Of one update; the same for all its elements. */
struct factors {
    float rate, decay;
};

/* The gradient of the loss and of l2. */
static __device__ float with_l2(float gradient, float l2, float parameter)
{
    return l2 != 0 ? __fadd_rn(gradient, __fmul_rn(l2, parameter)) : gradient;
}

static __global__ void update_sgd(size_t count, struct factors by, struct optimizer o,
                                  const int32_t *only_if, const float *gradient, float *parameters)
{
    if (only_if && !*only_if)
        return;
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        float parameter = __fmul_rn(parameters[i], by.decay);
        float g = with_l2(gradient[i], o.l2, parameter);
        parameters[i] = __fsub_rn(parameter, __fmul_rn(by.rate, g));
    }
}

static __global__ void update_momentum(size_t count, struct factors by, struct optimizer o,
                                       const int32_t *only_if, const float *gradient,
                                       float *parameters, float *slot)
{
    if (only_if && !*only_if)
        return;
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        float parameter = __fmul_rn(parameters[i], by.decay);
        float g = with_l2(gradient[i], o.l2, parameter);
        float sum = __fadd_rn(__fmul_rn(o.momentum, slot[i]), g);
        float change = o.nesterov ? __fadd_rn(g, __fmul_rn(o.momentum, sum)) : sum;
        slot[i] = sum;
        parameters[i] = __fsub_rn(parameter, __fmul_rn(by.rate, change));
    }
}

static __global__ void update_adagrad(size_t count, struct factors by, struct optimizer o,
                                      const int32_t *only_if, const float *gradient,
                                      float *parameters, float *slot)
{
    if (only_if && !*only_if)
        return;
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        float parameter = __fmul_rn(parameters[i], by.decay);
        float g = with_l2(gradient[i], o.l2, parameter);
        float sum = __fadd_rn(slot[i], __fmul_rn(g, g));
        float inverse = __fdiv_rn(1.0f, __fsqrt_rn(sum));
        slot[i] = sum;
        parameters[i] = __fsub_rn(parameter, __fmul_rn(__fmul_rn(by.rate, g), inverse));
    }
}

static __global__ void update_adam(size_t count, struct factors by, struct optimizer o,
                                   const int32_t *only_if, const float *gradient, float *parameters,
                                   float *first, float *second)
{
    if (only_if && !*only_if)
        return;
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        float parameter = __fmul_rn(parameters[i], by.decay);
        float g = with_l2(gradient[i], o.l2, parameter);
        float m = __fadd_rn(__fmul_rn(o.beta1, first[i]), __fmul_rn(__fsub_rn(1.0f, o.beta1), g));
        float v = __fadd_rn(__fmul_rn(o.beta2, second[i]),
                            __fmul_rn(__fsub_rn(1.0f, o.beta2), __fmul_rn(g, g)));
        first[i] = m;
        second[i] = v;
        float change = __fdiv_rn(__fmul_rn(by.rate, m), __fadd_rn(__fsqrt_rn(v), o.epsilon));
        parameters[i] = __fsub_rn(parameter, change);
    }
}

enum error kernel_cuda_update(struct kernel *kernel, const struct optimizer *optimizer, int64_t t,
                              const struct kernel_update *u)
{
    cudaStream_t stream = kernel_cuda_stream(kernel);
    unsigned blocks = kernel_cuda_blocks(u->count, THREADS);
    const struct factors by = {optimizer_rate(optimizer, t), optimizer_decay(optimizer, t)};
    /* An earlier failure must not be taken for that of an update, which is then not made. */
    enum error error = kernel_cuda_check(kernel, "before an update");
    if (error)
        return error;
    switch (optimizer->kind) {
    case OPTIMIZER_SGD:
        update_sgd<<<blocks, THREADS, 0, stream>>>(u->count, by, *optimizer, u->only_if,
                                                   u->gradient, u->parameters);
        break;
    case OPTIMIZER_MOMENTUM:
        update_momentum<<<blocks, THREADS, 0, stream>>>(u->count, by, *optimizer, u->only_if,
                                                        u->gradient, u->parameters, u->slots[0]);
        break;
    case OPTIMIZER_ADAGRAD:
        update_adagrad<<<blocks, THREADS, 0, stream>>>(u->count, by, *optimizer, u->only_if,
                                                       u->gradient, u->parameters, u->slots[0]);
        break;
    case OPTIMIZER_ADAM:
        update_adam<<<blocks, THREADS, 0, stream>>>(u->count, by, *optimizer, u->only_if,
                                                    u->gradient, u->parameters, u->slots[0],
                                                    u->slots[1]);
        break;
    }
    return kernel_cuda_check(kernel, "update");
}
