/* SPDX-License-Identifier: MIT */
/*
 * SIGINT and SIGTERM as a flag and a descriptor. program_main() calls stop_install() before it
 * calls the command, whose options are not even read then; SIGPIPE is ignored from then on. Nothing
 * happens in the handler but setting the flag and writing to an eventfd, so that poll loops wake
 * up. A second SIGINT ends the process at once (exit 130).
 */
#ifndef COMMON_STOP_H
#define COMMON_STOP_H

#include <stdbool.h>

#include "common/error.h"

enum error stop_install(void) MUST_CHECK;

/* SIGINT and SIGTERM come to the main thread. To have them come to another one, that one (made by
 * thread_start(), before it does anything else) takes them, and the main thread leaves them. */
void stop_take_signals(void);
void stop_leave_signals(void);

/* Was it asked for? From every thread. */
bool stop_requested(void);

/* For this thread it is asked for, too, once *flag is true, which its work's owner sets to get rid
 * of it: every wait of the thread that heeds signals then ends. NULL: signals only, again. */
void stop_follow(const _Atomic bool *flag);

/* From now on a signal stops this thread's waits no more: it does what must be done before the
 * process ends, and watches its own deadline. stop_signal() still tells. */
void stop_spare_thread(void);

/* The signal's number (SIGTERM, SIGINT), 0 while none came. The shell's exit status is 128 + it. */
int stop_signal(void);
/* "SIGINT" or "SIGTERM" */
const char *stop_signal_name(void);

/* Readable from the first signal on, for poll(); -1 for a thread that is spared. Owned here. */
int stop_descriptor(void);

/* Waits until stop_requested() or the deadline (common/clock.h); true when it was. */
bool stop_wait(long long deadline_ns);

#endif
