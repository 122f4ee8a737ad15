/* SPDX-License-Identifier: MIT */
#include "common/team.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "common/machine.h"
#include "common/stop.h"
#include "common/thread.h"

struct team {
    const struct team_work *work;
    _Atomic uint64_t next; /* the part that begins next */
    atomic_bool has_failed;
    struct error_report report; /* of the failure that came first; read when all have ended */
};

struct hand {
    struct team *team;
    unsigned number;
    pthread_t thread;
};

unsigned team_hands(void)
{
    struct machine machine;
    machine_look(&machine);
    return machine.processors > TEAM_LIMIT ? TEAM_LIMIT : machine.processors;
}

static void *work_on(void *argument)
{
    const struct hand *hand = argument;
    struct team *team = hand->team;
    const struct team_work *work = team->work;
    enum error error = OK;
    while (!error && !atomic_load(&team->has_failed)) {
        if (stop_requested()) {
            error = error_set(ERROR_CANCELLED, "stopped while %s", work->what);
            break;
        }
        uint64_t part = atomic_fetch_add(&team->next, 1);
        if (part >= work->parts)
            break;
        error = work->work(work->context, hand->number, part);
    }
    if (error && !atomic_exchange(&team->has_failed, true))
        error_report_take(error, &team->report);
    return NULL;
}

enum error team_run(const struct team_work *work, unsigned hands)
{
    struct team team = {.work = work};
    struct hand list[TEAM_LIMIT];
    unsigned started = 1;
    list[0] = (struct hand){.team = &team};
    while (started < hands && started < work->parts) {
        struct hand *hand = &list[started];
        *hand = (struct hand){.team = &team, .number = started};
        if (thread_start("team", work_on, hand, &hand->thread))
            break; /* those that are there do it */
        started++;
    }
    work_on(&list[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(list[i].thread, NULL);
    return team.report.code ? error_restore(&team.report) : OK;
}

struct loop {
    int64_t count, grain;
    team_block *block;
    void *context;
};

static enum error work_on_block(void *context, unsigned hand, uint64_t part)
{
    const struct loop *loop = context;
    int64_t begin = (int64_t)part * loop->grain;
    int64_t left = loop->count - begin;
    (void)hand;
    return loop->block(loop->context, begin, begin + (left < loop->grain ? left : loop->grain));
}

enum error team_run_blocks(const char *what, int64_t count, int64_t grain, team_block *block,
                           void *context)
{
    struct loop loop = {.count = count, .grain = grain, .block = block, .context = context};
    struct team_work work = {.what = what,
                             .parts = (uint64_t)((count + grain - 1) / grain),
                             .work = work_on_block,
                             .context = &loop};
    return team_run(&work, team_hands());
}
