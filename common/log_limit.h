/* SPDX-License-Identifier: MIT */
/*
 * Keeps one kind of line from filling the log: so many a minute are written, those beyond are
 * counted and reported in one line when the minute is over. Safe from every thread.
 */
#ifndef COMMON_LOG_LIMIT_H
#define COMMON_LOG_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_SECONDS 60

struct log_limit {
    pthread_mutex_t mutex;
    int64_t most; /* lines a minute */
    int64_t until_ms;
    int64_t written; /* in this minute */
    int64_t held;    /* that were not, and are to be reported */
};

#define LOG_LIMIT_INIT(lines)                               \
    {                                                       \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .most = (lines) \
    }

/* May this line be written now? Otherwise it is counted. Times are of a clock that only goes
 * forward. */
bool log_limit_pass(struct log_limit *limit, int64_t now_ms);

/* How many lines were not written, once their minute is over; 0: none. They are forgotten then, and
 * a new minute may begin. Ask now and then. */
int64_t log_limit_take(struct log_limit *limit, int64_t now_ms);

#endif
