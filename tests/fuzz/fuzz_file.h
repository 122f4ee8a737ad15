/* SPDX-License-Identifier: MIT */
/* Input of a fuzz target as a file: libraries want a path. One file a process, gone at its end. */
#ifndef TESTS_FUZZ_FUZZ_FILE_H
#define TESTS_FUZZ_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/log.h"

static char fuzz_path[512];
static int fuzz_descriptor = -1;

static inline void fuzz_file_remove(void)
{
    unlink(fuzz_path);
}

static inline void fuzz_file_make(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(fuzz_path, sizeof(fuzz_path), "%s/tombola-fuzz-XXXXXX",
             base && base[0]                 ? base
             : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                             : "/tmp");
    fuzz_descriptor = mkstemp(fuzz_path);
    if (fuzz_descriptor < 0 || atexit(fuzz_file_remove))
        abort();
    log_set_level(LOG_ERROR);
}

/* The path of a file that holds exactly these bytes. */
static inline const char *fuzz_file_write(const uint8_t *data, size_t length)
{
    if (fuzz_descriptor < 0)
        fuzz_file_make();
    if (ftruncate(fuzz_descriptor, 0) ||
        pwrite(fuzz_descriptor, data, length, 0) != (ssize_t)length)
        abort();
    return fuzz_path;
}

#endif
