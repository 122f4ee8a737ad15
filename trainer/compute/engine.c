/* SPDX-License-Identifier: MIT */
#include "trainer/compute/engine.h"

#include "common/log.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* Threads take the mode over from the one that starts them. */
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

enum error engine_open(const struct engine_options *options, struct engine *engine)
{
    struct kernel_options kernel = {.blas = options->blas, .threads = options->threads};
    *engine = (struct engine){.device = NULL};
    flush_denormals();
    enum error error = device_open(options->device, &engine->device);
    if (!error)
        error = device_queue_new(engine->device, &engine->queue);
    if (!error)
        error = kernel_open(engine->device, engine->queue, &kernel, &engine->kernel);
    if (error) {
        engine_close(engine);
        return error;
    }
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
