/* SPDX-License-Identifier: MIT */
/* The tables of all kinds of store; loader/store_uri.c lists them. */
#ifndef LOADER_STORE_STORE_KINDS_H
#define LOADER_STORE_STORE_KINDS_H

#include "loader/store/store.h"

extern const struct store_ops store_csv_ops;
extern const struct store_ops store_idx_ops;
extern const struct store_ops store_parquet_ops;
extern const struct store_ops store_postgres_ops; /* only with HAVE_LIBPQ */
extern const struct store_ops store_range_ops;
extern const struct store_ops store_rows_ops;
extern const struct store_ops store_sqlite_ops;

#endif
