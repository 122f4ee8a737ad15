/* SPDX-License-Identifier: MIT */
#include "trainer/compute/engine.h"

#include "common/log.h"

enum error engine_open(const struct engine_options *options, struct engine *engine)
{
    struct kernel_options kernel = {.blas = options->blas, .threads = options->threads};
    *engine = (struct engine){.device = NULL};
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
