/* SPDX-License-Identifier: MIT */
#include "common/log_limit.h"

bool log_limit_pass(struct log_limit *limit, int64_t now_ms)
{
    pthread_mutex_lock(&limit->mutex);
    if (limit->held == 0 && now_ms >= limit->until_ms) {
        limit->written = 0;
        limit->until_ms = now_ms + LOG_LIMIT_SECONDS * INT64_C(1000);
    }
    bool passes = limit->written < limit->most;
    limit->written += passes;
    limit->held += !passes;
    pthread_mutex_unlock(&limit->mutex);
    return passes;
}

int64_t log_limit_take(struct log_limit *limit, int64_t now_ms)
{
    int64_t held = 0;
    pthread_mutex_lock(&limit->mutex);
    if (now_ms >= limit->until_ms) {
        held = limit->held;
        limit->held = 0;
    }
    pthread_mutex_unlock(&limit->mutex);
    return held;
}
