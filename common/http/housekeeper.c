/* SPDX-License-Identifier: MIT */
#include "common/http/housekeeper.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/http/refusals.h"
#include "common/http/systemd.h"
#include "common/stop.h"
#include "common/thread.h"

#define SWEEP_MS 1000

struct housekeeper {
    pthread_t thread;
    struct guard *guard;
    struct connections *connections;
    void (*tick)(int64_t now_ms);
    int64_t watchdog_ms; /* 0: nobody watches */
    _Atomic bool ending;
};

static _Atomic bool reloads; /* SIGHUP is blocked, and belongs to the housekeeper */

/* What ends its wait. SIGHUP that is not blocked stops the process: a housekeeper that waited for
 * it would take it from there. SIGURG is ignored by everybody else. */
static int wake_signal(void)
{
    return atomic_load(&reloads) ? SIGHUP : SIGURG;
}

static sigset_t block_wake_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, wake_signal());
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return set;
}

void housekeeper_block_signals(void)
{
    stop_leave_hangup();
    atomic_store(&reloads, true);
    (void)block_wake_signal();
}

static void reload(struct housekeeper *housekeeper)
{
    systemd_reloading();
    guard_reload(housekeeper->guard);
    systemd_reloaded();
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void tell_sums(const struct housekeeper *housekeeper, int64_t now_ms)
{
    refusals_tick(now_ms);
    if (housekeeper->tick)
        housekeeper->tick(now_ms);
}

static void *run(void *context)
{
    struct housekeeper *housekeeper = context;
    sigset_t set = block_wake_signal();
    int64_t next_sweep_ns = clock_deadline_ns(SWEEP_MS);
    int64_t next_word_ns = housekeeper->watchdog_ms > 0 ? 0 : INT64_MAX;
    while (!atomic_load(&housekeeper->ending)) {
        int64_t now_ns = clock_now_ns();
        if (now_ns >= next_sweep_ns) {
            (void)connections_sweep(housekeeper->connections, now_ns);
            tell_sums(housekeeper, now_ns / 1000000);
            next_sweep_ns = clock_deadline_ns(SWEEP_MS);
        }
        if (now_ns >= next_word_ns) {
            systemd_alive();
            next_word_ns = clock_deadline_ns(housekeeper->watchdog_ms);
        }
        int64_t left_ms = clock_left_ms(earlier(next_sweep_ns, next_word_ns));
        struct timespec wait = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
        if (sigtimedwait(&set, NULL, &wait) == SIGHUP && !atomic_load(&housekeeper->ending))
            reload(housekeeper);
    }
    tell_sums(housekeeper, INT64_MAX);
    return NULL;
}

enum error housekeeper_new(struct guard *guard, struct connections *connections,
                           void (*tick)(int64_t now_ms), struct housekeeper **ret_housekeeper)
{
    struct housekeeper *housekeeper = array_new(1, sizeof(*housekeeper), "the housekeeper");
    if (!housekeeper)
        return ERROR_MEMORY;
    housekeeper->guard = guard;
    housekeeper->connections = connections;
    housekeeper->tick = tick;
    housekeeper->watchdog_ms = systemd_watchdog_ms();
    enum error error = thread_start("housekeeper", run, housekeeper, &housekeeper->thread);
    if (!error)
        *ret_housekeeper = housekeeper;
    else
        free(housekeeper);
    return error;
}

void housekeeper_free(struct housekeeper *housekeeper)
{
    if (!housekeeper)
        return;
    atomic_store(&housekeeper->ending, true);
    pthread_kill(housekeeper->thread, wake_signal()); /* ends its wait */
    pthread_join(housekeeper->thread, NULL);
    free(housekeeper);
}
