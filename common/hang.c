/* SPDX-License-Identifier: MIT */
/* A hanging thread handles no signal: watched threads leave signals to the watching one, which
 * exists from the first place on. */
#include "common/hang.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/thread.h"

#define STEP_MS 20
#define WARN_MS 5000
#define WARN_STEP_MS 500

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static const char *program_name, *command_name;          /* NULL: not installed */
static bool is_watched;
static struct hang *innermost; /* of all threads, the newest first */

static void end_process(const char *text)
{
    char message[ERROR_MESSAGE_BYTES + 16];
    snprintf(message, sizeof(message), "stopped %s", text);
    log_failure(program_name, command_name, message);
    _exit(128 + stop_signal()); /* other threads have what exit() would free */
}

static void look(int64_t stopped_ns)
{
    int64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&lock);
    for (const struct hang *hang = innermost; hang; hang = hang->outer) {
        int64_t since_ns = hang->since_ns > stopped_ns ? hang->since_ns : stopped_ns;
        if (now_ns - since_ns > hang->limit_ms * INT64_C(1000000))
            end_process(hang->text);
    }
    pthread_mutex_unlock(&lock);
}

static void warn(void)
{
    int64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&lock);
    for (struct hang *hang = innermost; hang; hang = hang->outer) {
        if (!hang->warns || now_ns - hang->since_ns < WARN_MS * INT64_C(1000000))
            continue;
        hang->warns = false;
        log_warning("waiting for %d s now, %s", WARN_MS / 1000, hang->text);
    }
    pthread_mutex_unlock(&lock);
}

static void *watch(void *context)
{
    (void)context;
    stop_take_signals();
    while (!stop_wait(clock_deadline_ns(WARN_STEP_MS)))
        warn();
    for (int64_t stopped_ns = clock_now_ns();; clock_sleep_ms(STEP_MS))
        look(stopped_ns);
    return NULL;
}

/* If no thread can be started, signals end what they ended before. */
static void start_watching(void)
{
    pthread_t thread;
    if (is_watched || !program_name || thread_start("hang", watch, NULL, &thread))
        return;
    pthread_detach(thread);
    is_watched = true;
}

void hang_install(const char *program, const char *command)
{
    pthread_mutex_lock(&lock);
    program_name = program;
    command_name = command;
    pthread_mutex_unlock(&lock);
}

void hang_begin(struct hang *hang, int64_t limit_ms, const char *format, ...)
{
    va_list values;
    *hang = (struct hang){.limit_ms = limit_ms, .since_ns = clock_now_ns()};
    va_start(values, format);
    vsnprintf(hang->text, sizeof(hang->text), format, values);
    va_end(values);
    pthread_mutex_lock(&lock);
    start_watching();
    if (is_watched)
        stop_leave_signals();
    hang->outer = innermost;
    innermost = hang;
    pthread_mutex_unlock(&lock);
}

void hang_warn(struct hang *hang)
{
    pthread_mutex_lock(&lock);
    hang->warns = true;
    pthread_mutex_unlock(&lock);
}

void hang_end(struct hang *hang)
{
    pthread_mutex_lock(&lock);
    struct hang **link = &innermost;
    while (*link != hang)
        link = &(*link)->outer;
    *link = hang->outer;
    pthread_mutex_unlock(&lock);
}
