/* SPDX-License-Identifier: MIT */
#include "sampler/build/spool_team.h"

#include "common/stop.h"

struct reading {
    struct spool_team *team;
    unsigned runs;
    spool_step *step;
    void *context;
};

enum error spool_team_open(struct spool_team *team, const struct spool *spool, const char *what)
{
    uint64_t pieces = spool_pieces(spool);
    unsigned hands = team_hands();
    enum error error = OK;
    *team = (struct spool_team){.spool = spool, .what = what};
    team->hands = pieces < hands ? (unsigned)pieces : hands;
    for (unsigned hand = 0; hand < team->hands && !error; hand++)
        error = spool_cursor_open(&team->cursors[hand], spool);
    if (error)
        spool_team_close(team);
    return error;
}

void spool_team_close(struct spool_team *team)
{
    for (unsigned hand = 0; hand < team->hands; hand++)
        spool_cursor_close(&team->cursors[hand]);
    *team = (struct spool_team){.hands = 0};
}

static enum error read_run(void *context, unsigned hand, uint64_t run)
{
    const struct reading *reading = context;
    struct spool_cursor *cursor = &reading->team->cursors[hand];
    uint64_t pieces = spool_pieces(reading->team->spool);
    uint64_t end = pieces * (run + 1) / reading->runs;
    enum error error = OK;
    for (uint64_t piece = pieces * run / reading->runs; piece < end && !error; piece++) {
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped while %s", reading->team->what);
        spool_cursor_seek(cursor, piece);
        error = reading->step(reading->context, (unsigned)run, cursor);
    }
    return error;
}

enum error spool_team_read(struct spool_team *team, unsigned runs, spool_step *step, void *context)
{
    struct reading reading = {.team = team, .runs = runs, .step = step, .context = context};
    struct team_work work = {
        .what = team->what, .parts = runs, .work = read_run, .context = &reading};
    return team_run(&work, team->hands);
}
