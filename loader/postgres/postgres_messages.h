/* Errors of a PostgreSQL store name server, table and row. Private to store_postgres*.c. */
#ifndef LOADER_POSTGRES_POSTGRES_MESSAGES_H
#define LOADER_POSTGRES_POSTGRES_MESSAGES_H

#include "loader/postgres/store_postgres.h"

/* "postgresql:PLACE, table T, id N: " in front of this thread's message; returns `code`. */
enum error postgres_store_prefix(const struct postgres_store *store, enum error code, int64_t id);

#endif
