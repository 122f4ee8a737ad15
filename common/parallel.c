#include "common/parallel.h"

#include "common/team.h"

struct loop {
    int64_t count, grain;
    parallel_body body;
    void *context;
};

static enum error work_on_block(void *context, unsigned hand, uint64_t block)
{
    const struct loop *loop = context;
    int64_t begin = (int64_t)block * loop->grain;
    int64_t left = loop->count - begin;
    (void)hand;
    return loop->body(loop->context, begin, begin + (left < loop->grain ? left : loop->grain));
}

enum error parallel_run(int64_t count, int64_t grain, parallel_body body, void *context)
{
    struct loop loop = {.count = count, .grain = grain, .body = body, .context = context};
    struct team_work work = {.what = "a frame's rows were looked at",
                             .parts = (uint64_t)((count + grain - 1) / grain),
                             .work = work_on_block,
                             .context = &loop};
    return team_run(&work, team_hands());
}
