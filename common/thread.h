/* SPDX-License-Identifier: MIT */
/*
 * Threads, named so that a debugger and `top -H` can tell them apart, with all signals but those of
 * faults blocked, so that a library's user (and our own main thread) keeps getting its signals.
 */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H

#include <pthread.h>

#include "common/error.h"

/* `name`: at most 15 characters. ERROR_MEMORY when the system starts no more threads. */
enum error thread_start(const char *name, void *(*body)(void *), void *context,
                        pthread_t *ret_thread) MUST_CHECK;

#endif
