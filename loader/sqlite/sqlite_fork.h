/* SPDX-License-Identifier: MIT */
/*
 * Lets a process fork while its threads read databases: SQLite's own locks, one of which each of
 * its allocations takes, are free in the child. Existing connections remain the parent's alone.
 */
#ifndef LOADER_SQLITE_SQLITE_FORK_H
#define LOADER_SQLITE_SQLITE_FORK_H

/* Before a database is opened; may be repeated. */
void sqlite_fork_prepare(void);

#endif
