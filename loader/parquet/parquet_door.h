/* SPDX-License-Identifier: MIT */
/*
 * Loads the module (parquet_module.h) when the first Parquet file is opened, so that programs start
 * without Arrow and C++. Search order: TOMBOLA_PARQUET_MODULE, the build that contains the program,
 * the installation. It stays loaded.
 */
#ifndef LOADER_PARQUET_PARQUET_DOOR_H
#define LOADER_PARQUET_PARQUET_DOOR_H

#include "common/error.h"
#include "loader/parquet/parquet_module.h"

/* Any thread. ERROR_UNAVAILABLE: there is none, or it cannot be loaded; the message says what to
 * do. */
enum error parquet_door_open(const struct parquet_module **ret_module) MUST_CHECK;

#endif
