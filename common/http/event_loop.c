/* SPDX-License-Identifier: MIT */
#include "common/http/event_loop.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/thread.h"

#define LOOKS_BEFORE_SLEEP 10 /* each about 1 us; 5 and 20 did no worse */
#define IDLE_RUNS_MOST 10     /* that did nothing, one after the other, before a sleep */
#define NAP_MOST_MS 20        /* between two looks at handshakes that wait for their clients */
#define RUNS_PER_NAP 64       /* while a response is being sent, too: each may send 16 KiB of it */

/* To wake the thread, set RUNG, and ring the bell if it slept. Before it sleeps the thread goes
 * from AWAKE to ASLEEP, which fails if another thread was faster. */
enum { AWAKE, ASLEEP, RUNG };

struct arrival {
    struct arrival *next;
    int descriptor;
    socklen_t address_bytes;
    struct sockaddr_storage address;
};

/* ---- new connections ---------------------------------------------------- */

static void free_arrivals(struct event_loop *loop)
{
    struct arrival *arrival = atomic_exchange(&loop->arrivals, NULL);
    while (arrival) {
        struct arrival *next = arrival->next;
        close(arrival->descriptor);
        loop->lost(loop->context);
        free(arrival);
        arrival = next;
    }
}

/* Simultaneous arrivals are taken in any order. */
static void take_arrivals(struct event_loop *loop)
{
    struct arrival *arrival = atomic_exchange(&loop->arrivals, NULL);
    while (arrival) {
        struct arrival *next = arrival->next;
        if (MHD_add_connection(loop->daemon, arrival->descriptor,
                               (struct sockaddr *)&arrival->address,
                               arrival->address_bytes) != MHD_YES)
            loop->lost(loop->context);
        free(arrival);
        arrival = next;
    }
}

void event_loop_add(struct event_loop *loop, int descriptor, const struct sockaddr_storage *address,
                    socklen_t address_bytes)
{
    struct arrival *arrival = malloc(sizeof(*arrival));
    if (!arrival) {
        close(descriptor);
        loop->lost(loop->context);
        return;
    }
    arrival->descriptor = descriptor;
    arrival->address = *address;
    arrival->address_bytes = address_bytes;
    arrival->next = atomic_load(&loop->arrivals);
    while (!atomic_compare_exchange_weak(&loop->arrivals, &arrival->next, arrival))
        ;
    event_loop_wake(loop);
}

/* ---- sleep -------------------------------------------------------------- */

void event_loop_wake(struct event_loop *loop)
{
    if (atomic_exchange(&loop->state, RUNG) == ASLEEP)
        (void)eventfd_write(loop->bell, 1);
}

/* How long the daemon can wait: 0 if it has more to do, -1: forever. */
static int patience_ms(struct event_loop *loop)
{
    MHD_UNSIGNED_LONG_LONG timeout;
    if (MHD_get_timeout(loop->daemon, &timeout) != MHD_YES)
        return -1;
    return timeout < INT_MAX ? (int)timeout : INT_MAX;
}

/* The daemon's set stays ready until MHD_run() has emptied it: no edge is lost here. */
static void sleep_until_ready(struct event_loop *loop, int timeout_ms)
{
    struct epoll_event events[2];
    eventfd_t rings;
    int awake = AWAKE;
    int ready = 0;
    if (atomic_compare_exchange_strong(&loop->state, &awake, ASLEEP))
        ready = epoll_wait(loop->epoll, events, 2, timeout_ms);
    atomic_store(&loop->state, AWAKE);
    for (int i = 0; i < ready; i++) {
        if (events[i].data.fd == loop->bell)
            (void)eventfd_read(loop->bell, &rings);
    }
}

/* How often to poll before sleeping, after these requests. Loaded: several requests at once, or one
 * found by polling while under load. After a single request, poll once: if its client shared the
 * processor, the next request is already there, and polling costs less than sleeping. */
static int looks_after(uint64_t requests, bool *loaded)
{
    *loaded = *loaded || requests > 1;
    return *loaded ? LOOKS_BEFORE_SLEEP : 1;
}

/* Reflects what the daemon's runs do. */
static uint64_t moves(const struct event_loop *loop)
{
    return loop->requests + loop->pieces;
}

/* How long to sleep although the daemon says it has more to do, since that may be handshakes that
 * wait. 0: not at all. */
static int nap_ms(const struct event_loop *loop, unsigned idle_runs)
{
    if (loop->handshakes == 0)
        return loop->responses == 0 && idle_runs > IDLE_RUNS_MOST;
    if (loop->responses > 0)
        return idle_runs % RUNS_PER_NAP == RUNS_PER_NAP - 1;
    return idle_runs < NAP_MOST_MS ? (int)idle_runs : NAP_MOST_MS;
}

static void *run(void *context)
{
    struct event_loop *loop = context;
    bool loaded = false;
    int looks = 0; /* that are left */
    unsigned idle_runs = 0;
    while (!atomic_load(&loop->ending)) {
        uint64_t before = loop->requests;
        uint64_t moves_before = moves(loop);
        if (atomic_load(&loop->arrivals)) /* never before AWAKE is stored */
            take_arrivals(loop);
        (void)MHD_run(loop->daemon);
        uint64_t requests = loop->requests - before;
        if (requests > 0)
            looks = looks_after(requests, &loaded);
        idle_runs = moves(loop) == moves_before ? idle_runs + 1 : 0;
        int timeout_ms = patience_ms(loop);
        if (timeout_ms == 0) {
            timeout_ms = nap_ms(loop, idle_runs);
            if (timeout_ms == 0)
                continue;
            looks = 0; /* each costs a system call for each handshake */
        }
        if (looks == 0) {
            loaded = false;
            sleep_until_ready(loop, timeout_ms);
        } else if (requests == 0) {
            looks--;
            if (loaded)
                sched_yield();
        }
    }
    return NULL;
}

/* ---- life cycle --------------------------------------------------------- */

static bool watch(int epoll, int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

static enum error open_descriptors(struct event_loop *loop)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(loop->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (info && loop->epoll >= 0 && loop->bell >= 0 && watch(loop->epoll, info->epoll_fd) &&
        watch(loop->epoll, loop->bell))
        return OK;
    return error_set_errno(ERROR_NETWORK, errno, "cannot wait for requests");
}

enum error event_loop_start(struct event_loop *loop, struct MHD_Daemon *daemon,
                            void (*lost)(void *context), void *context)
{
    *loop = (struct event_loop){.daemon = daemon, .lost = lost, .context = context};
    enum error error = open_descriptors(loop);
    if (!error)
        error = thread_start("http", run, loop, &loop->thread);
    loop->started = !error;
    if (error)
        event_loop_stop(loop);
    return error;
}

void event_loop_stop(struct event_loop *loop)
{
    if (!loop->daemon)
        return;
    atomic_store(&loop->ending, true);
    event_loop_wake(loop);
    if (loop->started)
        pthread_join(loop->thread, NULL);
    free_arrivals(loop);
    MHD_stop_daemon(loop->daemon);
    loop->daemon = NULL;
    if (loop->bell >= 0)
        close(loop->bell);
    if (loop->epoll >= 0)
        close(loop->epoll);
}
