/* SPDX-License-Identifier: MIT */
/*
 * The pace of a scan that fills a row cache: is it about to end? Who needs a row then waits for it:
 * fetching single rows takes several times as long, and takes processors from the scan.
 */
#ifndef LOADER_STORE_FILL_PACE_H
#define LOADER_STORE_FILL_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define FILL_PACE_SOON_NS INT64_C(500000000)
#define FILL_PACE_STILL_NS INT64_C(100000000) /* without rows for so long, it may hang */

struct fill_pace {
    int64_t started_ns; /* the scan; all times as of clock_now_ns() */
    int64_t moved_ns;   /* when it last brought rows */
    int64_t rows, room; /* that it has brought; that it will bring */
};

/* At its pace so far it ends within half a second, and it brought rows just now. */
static inline bool fill_pace_ends_soon(const struct fill_pace *pace, int64_t now_ns)
{
    if (pace->rows <= 0 || now_ns - pace->moved_ns > FILL_PACE_STILL_NS)
        return false;
    double ns_a_row = (double)(now_ns - pace->started_ns) / (double)pace->rows;
    return ns_a_row * (double)(pace->room - pace->rows) < (double)FILL_PACE_SOON_NS;
}

#endif
