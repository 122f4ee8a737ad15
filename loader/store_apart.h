/* SPDX-License-Identifier: MIT */
/*
 * Opens a store in a program that a signal may end meanwhile: on a separate thread, which is left
 * behind if it hangs (a file server that does not answer).
 */
#ifndef LOADER_STORE_APART_H
#define LOADER_STORE_APART_H

#include "loader/store_open.h"

/* Like store_open_with(). ERROR_CANCELLED soon after stop_requested(), whatever hangs. */
enum error store_open_apart(const char *uri, const struct store_open_options *options,
                            struct store **ret_store) MUST_CHECK;

#endif
