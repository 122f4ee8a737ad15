/* SPDX-License-Identifier: MIT */
/*
 * Places where a thread may hang in the system, which nothing interrupts: in a file whose server or
 * disk does not answer. A program says where it is; once a signal came and such a place lasts, the
 * program's own thread for that says so and ends the process, with exit status 128 + the signal.
 *
 * A place is chosen so that what is left half done there harms nobody, as after kill -9. It may be
 * on any thread, and within another one: the inner one's text is said, if both last too long.
 *
 * Without hang_install(), as in a library, nothing is watched.
 */
#ifndef COMMON_HANG_H
#define COMMON_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define HANG_MS 900 /* what hangs in a store is named before, after 500 (errand.h) */

/* The caller's; its fields are private. */
struct hang {
    char text[ERROR_MESSAGE_BYTES];
    int64_t limit_ms, since_ns;
    bool warns;
    struct hang *outer;
};

/* From main, after stop_install(): places are watched from now on. Both names are literals. */
void hang_install(const char *program, const char *command);

/* `limit_ms`: how long the place may last after the signal. The text is said after "stopped ". */
__attribute__((format(printf, 3, 4))) void hang_begin(struct hang *hang, int64_t limit_ms,
                                                      const char *format, ...);
/* A warning says so, once, when the place lasts for some seconds, without a signal too. Not for
 * places in which the program also waits for something else. */
void hang_warn(struct hang *hang);
void hang_end(struct hang *hang);

#endif
