/* SPDX-License-Identifier: MIT */
/*
 * Marks places where a thread may hang in an uninterruptible system call: a file whose server or
 * disk does not answer. If a signal arrives and such a place lasts too long, a watching thread
 * reports it and ends the process with exit status 128 + the signal.
 *
 * Choose places where unfinished work is harmless, as after kill -9. They may be on any thread, and
 * nested: if both last too long, the inner one's text is reported.
 *
 * Without hang_install(), as in a library, nothing is watched.
 */
#ifndef COMMON_HANG_H
#define COMMON_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define HANG_MS 900 /* hangs in a store are reported earlier, after 500 (errand.h) */

/* Caller's storage; fields are private. */
struct hang {
    char text[ERROR_MESSAGE_BYTES];
    int64_t limit_ms, since_ns;
    bool warns;
    struct hang *outer;
};

/* From main, after stop_install(): starts to watch places. Both names are literals. */
void hang_install(const char *program, const char *command);

/* `limit_ms`: how long the place may last after the signal. The text follows "stopped ". */
__attribute__((format(printf, 3, 4))) void hang_begin(struct hang *hang, int64_t limit_ms,
                                                      const char *format, ...);
/* Also warns, once, if the place lasts for some seconds without a signal. Not for places where the
 * program also waits for something else. */
void hang_warn(struct hang *hang);
void hang_end(struct hang *hang);

#endif
