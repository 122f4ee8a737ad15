/* SPDX-License-Identifier: MIT */
/*
 * Opening a store for a program that a signal may end meanwhile: on a thread of its own, which is
 * left behind where it hangs (a file server that is away).
 */
#ifndef LOADER_STORE_APART_H
#define LOADER_STORE_APART_H

#include "loader/store_open.h"

/* As store_open_with(). ERROR_CANCELLED soon after stop_requested() is true, whatever hangs. */
enum error store_open_apart(const char *uri, const struct store_open_options *options,
                            struct store **ret_store) MUST_CHECK;

#endif
