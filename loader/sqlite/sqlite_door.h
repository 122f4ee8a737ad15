/* SPDX-License-Identifier: MIT */
/*
 * Reads a database file's bytes through SQLite's own VFS. POSIX: a process loses its locks on a
 * file when it closes any descriptor of it. So if we called close(), a program that writes to the
 * database through SQLite would lose its locks, and another could write at the same time. SQLite's
 * VFS tracks everything that is open, and closes when no lock is left
 * (https://www.sqlite.org/howtocorrupt.html, 2.2).
 */
#ifndef LOADER_SQLITE_SQLITE_DOOR_H
#define LOADER_SQLITE_SQLITE_DOOR_H

#include "loader/store/source_file.h"

extern const struct source_door sqlite_door;

/* Maps the first `bytes` of an open handle's file for reading, for munmap(); it needs the handle no
 * longer. NULL: SQLite or the system does not map files. */
void *sqlite_door_map(void *handle, size_t bytes);

#endif
