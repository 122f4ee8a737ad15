#include "sampler/http/housekeeper.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "sampler/http/audit.h"
#include "sampler/http/systemd.h"

#define SWEEP_MS 1000

struct housekeeper {
    pthread_t thread;
    struct guard *guard;
    struct connections *connections;
    int64_t watchdog_ms; /* 0: nobody watches */
    _Atomic bool ending;
};

static sigset_t reload_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    return set;
}

void housekeeper_block_signals(void)
{
    sigset_t set = reload_signal();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void reload(struct housekeeper *attendant)
{
    systemd_reloading();
    guard_reload(attendant->guard);
    systemd_send("READY=1");
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void *attend(void *context)
{
    struct housekeeper *attendant = context;
    sigset_t set = reload_signal();
    int64_t next_sweep_ns = clock_deadline_ns(SWEEP_MS);
    int64_t next_word_ns = attendant->watchdog_ms > 0 ? 0 : INT64_MAX;
    while (!atomic_load(&attendant->ending)) {
        int64_t now_ns = clock_now_ns();
        if (now_ns >= next_sweep_ns) {
            (void)connections_sweep(attendant->connections, now_ns);
            audit_tick(now_ns / 1000000);
            next_sweep_ns = clock_deadline_ns(SWEEP_MS);
        }
        if (now_ns >= next_word_ns) {
            systemd_send("WATCHDOG=1");
            next_word_ns = clock_deadline_ns(attendant->watchdog_ms);
        }
        int64_t left_ms = clock_left_ms(earlier(next_sweep_ns, next_word_ns));
        struct timespec wait = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
        if (sigtimedwait(&set, NULL, &wait) == SIGHUP && !atomic_load(&attendant->ending))
            reload(attendant);
    }
    audit_tick(INT64_MAX);
    return NULL;
}

enum error housekeeper_new(struct guard *guard, struct connections *connections,
                           struct housekeeper **ret_attendant)
{
    struct housekeeper *attendant = array_new(1, sizeof(*attendant), "the attendant");
    if (!attendant)
        return ERROR_MEMORY;
    attendant->guard = guard;
    attendant->connections = connections;
    attendant->watchdog_ms = systemd_watchdog_ms();
    housekeeper_block_signals(); /* whoever starts us without: at least this thread must wait for it
                                */
    int code = pthread_create(&attendant->thread, NULL, attend, attendant);
    if (code != 0) {
        free(attendant);
        return error_set_errno(ERROR_MEMORY, code, "cannot start a thread");
    }
    *ret_attendant = attendant;
    return OK;
}

void housekeeper_free(struct housekeeper *attendant)
{
    if (!attendant)
        return;
    atomic_store(&attendant->ending, true);
    pthread_kill(attendant->thread, SIGHUP); /* ends its wait */
    pthread_join(attendant->thread, NULL);
    free(attendant);
}
