/* SPDX-License-Identifier: MIT */
#include "loader/store/fill_pace.h"

#define SOON_NS INT64_C(500000000)
#define STILL_NS INT64_C(100000000) /* without rows for so long, it may hang */

bool fill_pace_ends_soon(const struct fill_pace *pace, int64_t now_ns)
{
    if (pace->rows <= 0 || now_ns - pace->moved_ns > STILL_NS)
        return false;
    double ns_a_row = (double)(now_ns - pace->started_ns) / (double)pace->rows;
    return ns_a_row * (double)(pace->room - pace->rows) < (double)SOON_NS;
}
