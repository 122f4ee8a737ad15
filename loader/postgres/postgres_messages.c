#include "loader/postgres/postgres_messages.h"

enum error postgres_store_prefix(const struct postgres_store *store, enum error code, int64_t id)
{
    return error_prefix(code, "postgresql:%s, table %s, id %lld: ", store->place.shown,
                        store->table.name, (long long)id);
}
