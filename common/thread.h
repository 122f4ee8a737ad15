/* SPDX-License-Identifier: MIT */
/*
 * Starts threads, named so that a debugger and `top -H` can tell them apart, with all signals
 * blocked except those of faults, so that a library's user (and our own main thread) keeps
 * receiving its signals. Their stack has room for a log line and a resolver, whatever `ulimit -s`
 * is.
 */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H

#include <pthread.h>

#include "common/error.h"

/* `name`: at most 15 characters. ERROR_MEMORY: the system starts no more threads. */
enum error thread_start(const char *name, void *(*body)(void *), void *context,
                        pthread_t *ret_thread) MUST_CHECK;

#endif
