/* SPDX-License-Identifier: MIT */
/*
 * SIGINT, SIGTERM and SIGHUP (a closed terminal, unless nohup has it ignored) as a flag and a
 * descriptor. program_main() calls stop_install() before the command, even before its options are
 * read; SIGPIPE is ignored from then on. The handler only sets the flag and writes to an eventfd,
 * which wakes poll loops. A second SIGINT ends the process at once (exit 130).
 */
#ifndef COMMON_STOP_H
#define COMMON_STOP_H

#include <stdbool.h>

#include "common/error.h"

enum error stop_install(void) MUST_CHECK;

/* They go to the main thread. To send them to another one, that thread (made by thread_start(),
 * before it does anything else) takes them, and the main thread leaves them. */
void stop_take_signals(void);
void stop_leave_signals(void);

/* SIGHUP stops nothing any more: a server blocks it, and takes it to read tokens again. Before the
 * first thread takes signals. */
void stop_leave_hangup(void);

/* Was a stop requested? Any thread. */
bool stop_requested(void);

/* A stop is also requested for this thread once *flag is true, which the owner of its work sets to
 * abandon it: every wait of the thread that heeds signals then ends. NULL: signals only, again. */
void stop_follow(const _Atomic bool *flag);

/* From now on a signal no longer ends this thread's waits: it does what must be done before the
 * process ends, and watches its own deadline. stop_signal() still reports it. */
void stop_spare_thread(void);

/* Has more than one signal come: is somebody in a hurry? Any thread. */
bool stop_repeated(void);

/* The signal's number (SIGTERM, SIGINT, SIGHUP), 0 if there was none. The shell's exit status is
 * 128 + it. */
int stop_signal(void);
/* "SIGINT", "SIGTERM" or "SIGHUP" */
const char *stop_signal_name(void);

/* Readable from the first signal on, for poll(); -1 for a spared thread. Owned here. */
int stop_descriptor(void);

/* Waits until stop_requested() or the deadline (common/clock.h); true if stop was requested. */
bool stop_wait(long long deadline_ns);

#endif
