/* SPDX-License-Identifier: MIT */
/*
 * fork() copies a lock held by another thread as one that is never released. So the forking thread
 * holds all of them meanwhile. They are SQLite's static mutexes, which it names for its VFSes, in
 * the order in which it takes them itself: a file is opened under OPEN, random numbers look for a
 * VFS, and memory may be allocated under any.
 */
#include "loader/sqlite/sqlite_fork.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stddef.h>

static const int kinds[] = {
    SQLITE_MUTEX_STATIC_OPEN, SQLITE_MUTEX_STATIC_PRNG, SQLITE_MUTEX_STATIC_MASTER,
    SQLITE_MUTEX_STATIC_VFS1, SQLITE_MUTEX_STATIC_VFS2, SQLITE_MUTEX_STATIC_VFS3,
    SQLITE_MUTEX_STATIC_LRU,  SQLITE_MUTEX_STATIC_PMEM, SQLITE_MUTEX_STATIC_MEM};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* SQLite's; NULL in a single-threaded build. */
static _Atomic(sqlite3_mutex *) mutexes[KINDS];

static void enter_all(void)
{
    for (size_t i = 0; i < KINDS; i++)
        sqlite3_mutex_enter(atomic_load(&mutexes[i]));
}

static void leave_all(void)
{
    for (size_t i = KINDS; i-- > 0;)
        sqlite3_mutex_leave(atomic_load(&mutexes[i]));
}

static void prepare(void)
{
    for (size_t i = 0; i < KINDS; i++)
        atomic_store(&mutexes[i], sqlite3_mutex_alloc(kinds[i]));
    pthread_atfork(enter_all, leave_all, leave_all);
}

void sqlite_fork_prepare(void)
{
    pthread_once(&once, prepare);
}
