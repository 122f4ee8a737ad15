/* SPDX-License-Identifier: MIT */
/*
 * Scans a store in a program that a signal may end meanwhile: on a separate thread, which is left
 * behind if it hangs (a file server that does not answer).
 */
#ifndef LOADER_STORE_SCAN_APART_H
#define LOADER_STORE_SCAN_APART_H

#include "loader/store/store.h"

/* Like store_scan(), with the sink on that thread; once this returns, the sink has returned and is
 * not called again. ERROR_CANCELLED soon after stop_requested(), whatever hangs in the store; a
 * slow sink must check stop_requested() itself. */
enum error store_scan_apart(struct store *store, enum scan_columns columns, store_sink *sink,
                            void *context) MUST_CHECK;

/* For the result of errand_run(): logs that a thread left behind is reading this store. */
enum error store_name_left(enum error error, const char *uri);

#endif
