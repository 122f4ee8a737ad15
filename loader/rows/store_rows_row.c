/* SPDX-License-Identifier: MIT */
/* One row's record, checked. */
#include "loader/rows/rows_file.h"
#include "loader/rows/rows_record.h"
#include "loader/rows/store_rows.h"

enum error rows_store_read(const struct rows_store *store, int64_t row, int64_t id,
                           const uint8_t *record, double *ret_label, size_t *ret_length)
{
    size_t bytes = rows_store_row_bytes(store, row);
    const char *wrong = rows_row_read(&store->header, id, record, bytes, ret_label, ret_length);
    if (!wrong)
        return OK;
    return rows_file_refuse(store->path, row, id,
                            store->header.head.rows_at + rows_store_row_at(store, row), bytes,
                            wrong);
}

size_t rows_store_longest(const struct rows_store *store)
{
    return rows_row_bytes(&store->header, store->store.info.longest);
}
