/* SPDX-License-Identifier: MIT */
/*
 * A process may fork while threads of it read databases: SQLite's own locks, one of which each of
 * its allocations takes, are free in the child then. Connections of before are still the parent's
 * alone.
 */
#ifndef LOADER_SQLITE_SQLITE_FORK_H
#define LOADER_SQLITE_SQLITE_FORK_H

/* Before a database is opened; again and again. */
void sqlite_fork_prepare(void);

#endif
