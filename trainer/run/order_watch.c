/* SPDX-License-Identifier: MIT */
#include "trainer/run/order_watch.h"

#include "common/stop.h"
#include "trainer/checkpoint/sampler_order.h"

#define ASK_MS 1000

static enum error compare(const struct order_watch *watch, const struct sampler_stream *now)
{
    struct stream_position theirs = watch->position;
    theirs.stream = *now;
    enum error error = sampler_order_compare(&watch->position, "this training", &theirs);
    return error ? error_prefix(error, "the sampler changed while it was trained from: ") : OK;
}

void order_watch_look(void *context)
{
    struct order_watch *watch = context;
    struct sampler_stream now;
    if (atomic_load(&watch->changed) || stop_requested() ||
        sampler_order_peek(watch->url, watch->stream, &now))
        return;
    enum error error = compare(watch, &now);
    if (!error)
        return;
    error_report_take(error, &watch->report);
    atomic_store(&watch->changed, true);
}

enum error order_watch_heed(const struct order_watch *watch)
{
    if (!atomic_load_explicit(&watch->changed, memory_order_acquire))
        return OK;
    return error_restore(&watch->report);
}

enum error order_watch_ask(const struct order_watch *watch)
{
    struct sampler_stream now;
    if (stop_requested() || sampler_order_fetch(watch->url, watch->stream, ASK_MS, &now))
        return OK;
    return compare(watch, &now);
}
