/* SPDX-License-Identifier: MIT */
#include "trainer/compute/kernel.h"

#include <math.h>

#include "config.h"
#include "trainer/compute/kernel_variants.h"

enum error kernel_open(struct device *device, struct device_queue *queue,
                       const struct kernel_options *options, struct kernel **ret_kernel)
{
    static const struct kernel_options defaults = {.blas = NULL, .threads = 0};
    if (!options)
        options = &defaults;
    if (device->kind == DEVICE_CPU)
        return kernel_cpu_open(device, queue, options, ret_kernel);
#ifdef HAVE_CUDA
    return kernel_cuda_open(device, queue, options, ret_kernel);
#else
    return error_set(ERROR_UNAVAILABLE, "this program was built without CUDA (configure says why)");
#endif
}

void kernel_close(struct kernel *kernel)
{
    if (kernel)
        kernel->ops->close(kernel);
}

enum error kernel_read(struct kernel *kernel, const float *from_device, size_t count,
                       float *ret_to_host)
{
    enum error error = device_copy_out(kernel->device, kernel->queue, ret_to_host, from_device,
                                       count * sizeof(*from_device));
    return error ? error : device_queue_wait(kernel->device, kernel->queue);
}

enum error kernel_write(struct kernel *kernel, const float *from_host, size_t count,
                        float *ret_to_device)
{
    enum error error = device_copy_in(kernel->device, kernel->queue, ret_to_device, from_host,
                                      count * sizeof(*from_host));
    return error ? error : device_queue_wait(kernel->device, kernel->queue);
}

enum error kernel_reserve(struct kernel *kernel, size_t rows, size_t columns)
{
    return kernel->ops->reserve(kernel, rows, columns);
}

enum error kernel_input(struct kernel *kernel, const float *values, size_t rows, size_t columns,
                        struct kernel_input *ret_input)
{
    return kernel->ops->input(kernel, values, rows, columns, ret_input);
}

enum error kernel_input_bytes(struct kernel *kernel, const uint8_t *bytes, float scale, size_t rows,
                              size_t columns, struct kernel_input *ret_input)
{
    return kernel->ops->input_bytes(kernel, bytes, scale, rows, columns, ret_input);
}

bool kernel_takes_bytes(const struct kernel *kernel, float scale)
{
    return kernel->ops->input_bytes && isnormal(scale);
}

enum error kernel_standardize(struct kernel *kernel, const struct kernel_features *wanted,
                              const float *values, size_t rows, size_t columns, float *ret_values)
{
    return kernel->ops->standardize(kernel, wanted, values, rows, columns, ret_values);
}

enum error kernel_forward(struct kernel *kernel, const struct kernel_input *input,
                          const float *weights, const float *bias, size_t outputs,
                          enum activation activation, float *ret_y)
{
    return kernel->ops->forward(kernel, input, weights, bias, outputs, activation, ret_y);
}

enum error kernel_backward(struct kernel *kernel, const struct kernel_input *input,
                           const float *y_gradient, size_t outputs, float *ret_weights_gradient,
                           float *ret_bias_gradient)
{
    return kernel->ops->backward(kernel, input, y_gradient, outputs, ret_weights_gradient,
                                 ret_bias_gradient);
}

enum error kernel_backward_input(struct kernel *kernel, const struct kernel_input *input,
                                 const float *y_gradient, const float *weights, size_t outputs,
                                 float *ret_input_gradient)
{
    return kernel->ops->backward_input(kernel, input, y_gradient, weights, outputs,
                                       ret_input_gradient);
}

enum error kernel_softmax(struct kernel *kernel, const float *logits, size_t rows, size_t classes,
                          float *ret_probabilities)
{
    return kernel->ops->softmax(kernel, logits, rows, classes, ret_probabilities);
}

enum error kernel_cross_entropy(struct kernel *kernel, enum loss loss, const float *logits,
                                const int32_t *labels, size_t rows, size_t classes,
                                float *ret_gradient, struct kernel_result *ret_result)
{
    return kernel->ops->cross_entropy(kernel, loss, logits, labels, rows, classes, ret_gradient,
                                      ret_result);
}

enum error kernel_squared_error(struct kernel *kernel, enum loss loss, const float *y,
                                const float *targets, size_t rows, float *ret_gradient,
                                struct kernel_result *ret_result)
{
    return kernel->ops->squared_error(kernel, loss, y, targets, rows, ret_gradient, ret_result);
}

enum error kernel_dropout(struct kernel *kernel, const struct dropout_mask *mask, float *values,
                          size_t count)
{
    return kernel->ops->dropout(kernel, mask, values, count);
}

enum error kernel_scale(struct kernel *kernel, float *values, size_t count, float factor)
{
    return kernel->ops->scale(kernel, values, count, factor);
}

enum error kernel_clip(struct kernel *kernel, const struct gradient_clip *clip, float *gradient,
                       size_t count)
{
    return kernel->ops->clip(kernel, clip, gradient, count);
}

enum error kernel_update(struct kernel *kernel, const struct optimizer *optimizer, int64_t t,
                         const struct kernel_update *update)
{
    return kernel->ops->update(kernel, optimizer, t, update);
}

enum error kernel_fill(struct kernel *kernel, float value, size_t count, float *ret_values)
{
    return kernel->ops->fill(kernel, value, count, ret_values);
}

enum error kernel_add(struct kernel *kernel, const float *from, size_t count, float *to)
{
    return kernel->ops->add(kernel, from, count, to);
}

enum error kernel_settle(struct kernel *kernel, const struct kernel_settlement *settlement)
{
    return kernel->ops->settle(kernel, settlement);
}

bool kernel_captures(const struct kernel *kernel)
{
    return kernel->captures;
}

enum error kernel_copy(struct kernel *kernel, const float *from, size_t count, float *to)
{
    return kernel->ops->copy(kernel, from, count, to);
}

enum error kernel_capture_begin(struct kernel *kernel)
{
    return kernel->ops->capture_begin(kernel);
}

enum error kernel_capture_end(struct kernel *kernel, struct kernel_graph **ret_graph)
{
    return kernel->ops->capture_end(kernel, ret_graph);
}

enum error kernel_graph_launch(struct kernel *kernel, struct kernel_graph *graph)
{
    return kernel->ops->graph_launch(kernel, graph);
}

void kernel_graph_free(struct kernel *kernel, struct kernel_graph *graph)
{
    if (graph)
        kernel->ops->graph_free(kernel, graph);
}
