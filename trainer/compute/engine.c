/* SPDX-License-Identifier: MIT */
#include "trainer/compute/engine.h"

#include <string.h>

#include "common/log.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* Threads inherit the mode from the thread that starts them. */
static void flush_denormals(void)
{
#if defined(__SSE2__)
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    _mm_setcsr(_mm_getcsr() | 0x0040); /* DAZ: operands too */
#elif defined(__aarch64__)
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | (uint64_t)1 << 24)); /* FZ */
#endif
}

static enum error open_parts(const struct engine_options *options, const char *device,
                             struct engine *engine)
{
    struct kernel_options kernel = {.blas = options->blas,
                                    .threads = options->threads,
                                    .precision = options->precision,
                                    .no_graphs = options->no_graphs};
    *engine = (struct engine){.device = NULL};
    enum error error = device_open(device, &engine->device);
    if (!error)
        error = device_queue_new(engine->device, &engine->queue);
    if (!error)
        error = kernel_open(engine->device, engine->queue, &kernel, &engine->kernel);
    return error;
}

/* A GPU without cuBLAS is no failure unless a GPU was requested. */
static enum error open_auto(const struct engine_options *options, struct engine *engine)
{
    enum error error = open_parts(options, "auto", engine);
    if (error != ERROR_UNAVAILABLE || !engine->device || engine->device->kind != DEVICE_CUDA)
        return error;
    log_warning("no GPU is used: %s", error_message());
    engine_close(engine);
    return open_parts(options, "cpu", engine);
}

enum error engine_open(const struct engine_options *options, struct engine *engine)
{
    flush_denormals();
    enum error error = strcmp(options->device, "auto") == 0
                           ? open_auto(options, engine)
                           : open_parts(options, options->device, engine);
    if (error) {
        engine_close(engine);
        return error;
    }
    if (engine->device->kind == DEVICE_CPU && options->precision &&
        strcmp(options->precision, "f32") != 0)
        log_warning("--precision %s has no effect: the CPU computes in f32", options->precision);
    log_info("computing on %s", engine->kernel->description);
    return OK;
}

void engine_close(struct engine *engine)
{
    kernel_close(engine->kernel);
    if (engine->queue)
        device_queue_free(engine->device, engine->queue);
    if (engine->device)
        device_close(engine->device);
    *engine = (struct engine){.device = NULL};
}

size_t engine_rows(size_t features)
{
    size_t rows = (16 << 20) / sizeof(float) / (features ? features : 1);
    if (rows > 1000)
        return 1000;
    return rows ? rows : 1;
}
