/* SPDX-License-Identifier: MIT */
#include "common/clock.h"

#define NS_PER_SECOND 1000000000LL
#define NS_PER_MS 1000000LL

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

int64_t clock_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_boot_ns(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

double clock_wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    long microseconds = now.tv_nsec / 1000;
    return (double)now.tv_sec + (double)microseconds * 1e-6;
}

int64_t clock_deadline_ns(int64_t milliseconds)
{
    return clock_after_ns(clock_now_ns(), milliseconds);
}

int64_t clock_after_ns(int64_t from_ns, int64_t milliseconds)
{
    if (milliseconds < 0 || milliseconds > INT64_MAX / NS_PER_MS / 2)
        return INT64_MAX;
    return from_ns + milliseconds * NS_PER_MS;
}

int64_t clock_left_ms(int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX)
        return INT64_MAX;
    int64_t left_ns = deadline_ns - clock_now_ns();
    return left_ns <= 0 ? 0 : (left_ns + NS_PER_MS - 1) / NS_PER_MS;
}

struct timespec clock_timespec(int64_t deadline_ns)
{
    return (struct timespec){.tv_sec = deadline_ns / NS_PER_SECOND,
                             .tv_nsec = deadline_ns % NS_PER_SECOND};
}

void clock_sleep_ms(int64_t milliseconds)
{
    struct timespec pause = {.tv_sec = milliseconds / 1000,
                             .tv_nsec = (milliseconds % 1000) * NS_PER_MS};
    nanosleep(&pause, NULL);
}
