/* SPDX-License-Identifier: MIT */
/*
 * Scanning a store for a program that a signal may end meanwhile: on a thread of its own, which is
 * left behind where it hangs (a file server that is away).
 */
#ifndef LOADER_STORE_SCAN_APART_H
#define LOADER_STORE_SCAN_APART_H

#include "loader/store/store.h"

/* As store_scan(), with the sink on that thread; it has returned, and is not called again, when
 * this returns. ERROR_CANCELLED soon after stop_requested() is true, whatever hangs in the store;
 * a sink that takes long heeds stop_requested() itself. */
enum error store_scan_apart(struct store *store, enum scan_columns columns, store_sink *sink,
                            void *context) MUST_CHECK;

/* For the result of errand_run(): a thread that is left behind is said to read this store. */
enum error store_name_left(enum error error, const char *uri);

#endif
