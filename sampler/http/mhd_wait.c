#include "sampler/http/mhd_wait.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>

static int most_looks;

/* Whether this thread has more than one request at a time, or found some by looking again. */
static _Thread_local bool under_load;

void mhd_wait_install(int looks)
{
    most_looks = looks;
}

/* Requests that came within some microseconds, how many; 0: none, and the load is over. */
static int look_again(int epoll, struct epoll_event *events, int room)
{
    for (int look = 0; look < most_looks; look++) {
        int ready = epoll_pwait(epoll, events, room, 0, NULL);
        if (ready)
            return ready;
        sched_yield();
    }
    under_load = false;
    return 0;
}

__attribute__((visibility("default"))) int epoll_wait(int epoll, struct epoll_event *events,
                                                      int most, int timeout_ms)
{
    int room = most > 1 ? most - 1 : most;
    int ready = under_load && timeout_ms ? look_again(epoll, events, room) : 0;
    if (ready)
        return ready;
    ready = epoll_pwait(epoll, events, room, timeout_ms, NULL);
    if (ready > 1)
        under_load = true;
    return ready;
}
