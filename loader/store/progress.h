/* SPDX-License-Identifier: MIT */
/* Long work over rows or bytes, in the log: how far it is, how fast, how long it will take. */
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
/* A line every two seconds: `done` of `total` bytes or rows; 0: not known how many. */
void progress_show(struct progress *progress, uint64_t done, uint64_t total);

#endif
