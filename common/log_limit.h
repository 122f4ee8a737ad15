/* SPDX-License-Identifier: MIT */
/*
 * Limits one kind of line: at most `most` per minute are written; the rest are counted and reported
 * in one line when the minute is over. Any thread.
 */
#ifndef COMMON_LOG_LIMIT_H
#define COMMON_LOG_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_SECONDS 60

struct log_limit {
    pthread_mutex_t mutex;
    int64_t most; /* lines per minute */
    int64_t until_ms;
    int64_t written; /* in this minute */
    int64_t held;    /* suppressed and not yet reported */
};

#define LOG_LIMIT_INIT(lines)                               \
    {                                                       \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .most = (lines) \
    }

/* May this line be written now? If not, it is counted. Times are of a monotonic clock. */
bool log_limit_pass(struct log_limit *limit, int64_t now_ms);

/* Returns how many lines were suppressed, once their minute is over (0: none), and resets the
 * count, so that a new minute may begin. Call regularly. */
int64_t log_limit_take(struct log_limit *limit, int64_t now_ms);

#endif
