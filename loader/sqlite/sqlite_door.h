/* SPDX-License-Identifier: MIT */
/*
 * How the bytes of a database file are read: through SQLite's own VFS. A process loses its locks
 * on a file when it closes any descriptor of it (POSIX): a program which writes to the database
 * through SQLite would lose them by a close() of ours, and another one could write at the same
 * time. SQLite's VFS keeps a list of all that is open, and closes when no lock is left
 * (https://www.sqlite.org/howtocorrupt.html, 2.2).
 */
#ifndef LOADER_SQLITE_SQLITE_DOOR_H
#define LOADER_SQLITE_SQLITE_DOOR_H

#include "loader/store/source_file.h"

extern const struct source_door sqlite_door;

#endif
