/* SPDX-License-Identifier: MIT */
#include "loader/store/progress.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"

#define PROGRESS_NS INT64_C(2000000000)

static struct progress begin(const char *what, const char *name, const char *unit, double unit_size)
{
    int64_t now_ns = clock_now_ns();
    return (struct progress){.what = what,
                             .name = name,
                             .unit = unit,
                             .unit_size = unit_size,
                             .start_ns = now_ns,
                             .next_ns = now_ns + PROGRESS_NS};
}

struct progress progress_of_bytes(const char *what, const char *name)
{
    return begin(what, name, "MB", 1e6);
}

struct progress progress_of_rows(const char *what, const char *name)
{
    return begin(what, name, "rows", 1);
}

void progress_show(struct progress *progress, uint64_t done, uint64_t total)
{
    int64_t now_ns = clock_now_ns();
    if (now_ns < progress->next_ns)
        return;
    progress->next_ns = now_ns + PROGRESS_NS;
    double size = progress->unit_size;
    double a_second = (double)done / ((double)(now_ns - progress->start_ns) / 1e9);
    char rest[96] = "";
    if (total > done && a_second > 0)
        snprintf(rest, sizeof(rest), " of %.0f (%.0f %%)", (double)total / size,
                 100 * (double)done / (double)total);
    char left[64] = "";
    if (rest[0])
        snprintf(left, sizeof(left), ", %.0f s left", (double)(total - done) / a_second);
    log_info("%s %s: %.0f%s %s, %.0f %s/s%s", progress->what, progress->name, (double)done / size,
             rest, progress->unit, a_second / size, progress->unit, left);
}
