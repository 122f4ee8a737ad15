/* SPDX-License-Identifier: MIT */
/* Monotonic time and deadlines. A deadline is a value of clock_now_ns(). */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t clock_now_ns(void);
/* CLOCK_BOOTTIME in nanoseconds: the same, but goes on while the machine is suspended. Not for
 * deadlines. */
int64_t clock_boot_ns(void);

/* Seconds since 1970, with microseconds, for people and event files. */
double clock_wall_seconds(void);

/* The deadline `milliseconds` from now; a negative number means never (INT64_MAX). */
int64_t clock_deadline_ns(int64_t milliseconds);
/* The same, from a time of either clock. */
int64_t clock_after_ns(int64_t from_ns, int64_t milliseconds);

/* Milliseconds left, rounded up; 0 when the deadline has passed. */
int64_t clock_left_ms(int64_t deadline_ns);

/* The deadline as pthread_cond_clockwait(CLOCK_MONOTONIC) wants it. */
struct timespec clock_timespec(int64_t deadline_ns);

/* Sleeps; a signal may end it early. */
void clock_sleep_ms(int64_t milliseconds);

#endif
