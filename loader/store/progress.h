/* SPDX-License-Identifier: MIT */
/* Logs the progress of long work over rows or bytes: amount, speed, time left. */
#ifndef LOADER_STORE_PROGRESS_H
#define LOADER_STORE_PROGRESS_H

#include <stdint.h>

struct progress {
    const char *what, *name; /* "reading", "train.csv"; borrowed */
    const char *unit;        /* "MB", "rows" */
    double unit_size;        /* 1e6 for bytes in MB */
    int64_t start_ns, next_ns;
};

/* Begins now. */
struct progress progress_of_bytes(const char *what, const char *name);
struct progress progress_of_rows(const char *what, const char *name);
/* Logs every two seconds: `done` of `total` bytes or rows; 0: unknown. */
void progress_show(struct progress *progress, uint64_t done, uint64_t total);

#endif
