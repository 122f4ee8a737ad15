/* SPDX-License-Identifier: MIT */
/*
 * Loads the module (parquet_module.h) when the first Parquet file is opened: programs start without
 * it, and carry neither Arrow nor C++. Looked for: where TOMBOLA_PARQUET_MODULE says, else in the
 * build that the program stands in, else where it is installed. It stays loaded.
 */
#ifndef LOADER_PARQUET_PARQUET_DOOR_H
#define LOADER_PARQUET_PARQUET_DOOR_H

#include "common/error.h"
#include "loader/parquet/parquet_module.h"

/* Any thread. ERROR_UNAVAILABLE: there is none, or it cannot be loaded, and what to do instead. */
enum error parquet_door_open(const struct parquet_module **ret_module) MUST_CHECK;

#endif
