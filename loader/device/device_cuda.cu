/* SPDX-License-Identifier: MIT */
/*
 * CUDA as a device. The runtime is linked statically and loads the driver itself: a machine without
 * driver or GPU fails only in cudaGetDeviceCount(). Every call selects its GPU first, because CUDA
 * keeps that choice per thread and there are many calling threads.
 */
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

extern "C" {
#include "loader/device/device_cuda_private.h"
}

static int cuda_choice(void)
{
    int index = -1;
    if (cudaGetDevice(&index) != cudaSuccess) {
        cudaGetLastError();
        return -1;
    }
    return index;
}

static void cuda_choose(int index)
{
    if (cuda_choice() != index && cudaSetDevice(index) != cudaSuccess)
        cudaGetLastError();
}

static enum error count_devices(int *ret_count)
{
    int driver = 0;
    cudaError_t status = cudaGetDeviceCount(ret_count);
    if (status == cudaSuccess && *ret_count > 0)
        return OK;
    cudaGetLastError();
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        driver = 0;
    cudaGetLastError();
    if (driver == 0)
        return error_set(ERROR_UNAVAILABLE,
                         "device \"cuda\": no NVIDIA driver on this machine (%s)",
                         cudaGetErrorString(status));
    if (status == cudaSuccess || status == cudaErrorNoDevice)
        return error_set(ERROR_UNAVAILABLE,
                         "device \"cuda\": the driver (CUDA %d.%d) is there, but no GPU",
                         driver / 1000, driver % 1000 / 10);
    return error_set(
        ERROR_UNAVAILABLE,
        "device \"cuda\": %s (the driver knows CUDA %d.%d, this program was built with "
        "%d.%d)",
        cudaGetErrorString(status), driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
        CUDART_VERSION % 1000 / 10);
}

static enum error describe(struct device *device)
{
    struct cudaDeviceProp properties;
    int driver = 0;
    cudaError_t status = cudaGetDeviceProperties(&properties, device->index);
    if (status == cudaSuccess)
        status = cudaDriverGetVersion(&driver);
    if (status != cudaSuccess)
        return device_cuda_fail(device, status, "the GPU does not answer");
    snprintf(device->description, sizeof(device->description), "%.100s, %.0f GiB, driver %d.%d",
             properties.name, (double)properties.totalGlobalMem / (1 << 30), driver / 1000,
             driver % 1000 / 10);
    return OK;
}

/* Makes the context now, not in the first batch. If that fails, there is no device by which others
 * could put back what the thread had chosen. */
static enum error begin(struct device *device)
{
    int chosen;
    cudaError_t status = cudaGetDevice(&chosen);
    if (status != cudaSuccess)
        return device_cuda_fail(device, status, "the GPU does not answer");
    status = cudaSetDevice(device->index);
    if (status == cudaSuccess)
        status = cudaFree(NULL);
    enum error error = status == cudaSuccess
                           ? device_cuda_check_code(device)
                           : device_cuda_fail(device, status, "the GPU cannot be used");
    if (error)
        cuda_choose(chosen);
    return error;
}

static enum error cuda_open(int index, struct device **ret_device)
{
    int count = 0;
    enum error error = count_devices(&count);
    if (error)
        return error;
    if (index >= count)
        return error_set(ERROR_UNAVAILABLE,
                         "device \"cuda:%d\" is not there; this machine has cuda:0 to cuda:%d",
                         index, count - 1);
    struct device *device = (struct device *)calloc(1, sizeof(*device));
    if (!device)
        return error_set_memory(sizeof(*device), "a device");
    device->kind = DEVICE_CUDA;
    device->index = index;
    device->ops = &device_cuda_ops;
    error = describe(device);
    if (!error)
        error = begin(device);
    if (error) {
        free(device);
        return error == ERROR_MEMORY ? error : ERROR_UNAVAILABLE;
    }
    *ret_device = device;
    return OK;
}

static void cuda_close(struct device *device)
{
    free(device);
}

/* In the order of struct device_ops; "extern" because C++ constants are otherwise local. */
extern "C" const struct device_ops device_cuda_ops = {
    "cuda",
    cuda_open,
    cuda_close,
    device_cuda_host_new,
    device_cuda_host_free,
    device_cuda_memory_new,
    device_cuda_memory_free,
    device_cuda_queue_new,
    device_cuda_queue_borrow,
    device_cuda_queue_free,
    device_cuda_queue_native,
    device_cuda_copy_in,
    device_cuda_copy_out,
    device_cuda_u8_to_f32,
    device_cuda_scale_f32,
    device_cuda_normalize_f32,
    device_cuda_gather,
    device_cuda_gather_u8,
    device_cuda_gather_f32,
    device_cuda_one_hot,
    device_cuda_memory_left,
    device_cuda_queue_wait,
    device_cuda_event_new,
    device_cuda_event_free,
    device_cuda_event_record,
    device_cuda_event_wait,
    device_cuda_queue_await,
    cuda_choice,
    cuda_choose,
};
