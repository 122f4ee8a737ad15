/* SPDX-License-Identifier: MIT */
/* State of a frame build; for frame_build*.c only. */
#ifndef SAMPLER_BUILD_FRAME_BUILD_PRIVATE_H
#define SAMPLER_BUILD_FRAME_BUILD_PRIVATE_H

#include <pthread.h>

#include "sampler/build/frame_build.h"
#include "sampler/build/frame_ingest.h"
#include "sampler/frame/frame_output.h"

struct frame_build {
    struct frame_ingest ingest;
    struct frame_output *output; /* owned */
    struct sort_arena arena;     /* used by the team */
    struct frame_digest digest;
    struct id_twice twice;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    int running; /* number of threads */
    struct error_report columns_report, rows_report;
};

/* Writes the sections in frame order - ids, codes, weights - with names, and the digest. */
enum error frame_build_columns(struct frame_build *build) MUST_CHECK;
/* Writes the sorted sections: rows by id, and by label and group with their starts. */
enum error frame_build_rows(struct frame_build *build) MUST_CHECK;

#endif
