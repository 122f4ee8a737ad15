/* SPDX-License-Identifier: MIT */
#include "loader/csv/store_csv_fill.h"

#include <string.h>

#include "common/log.h"
#include "common/text.h"
#include "loader/store/row_cache.h"

void csv_fill_start(struct csv_fill *fill, const struct csv_columns *columns, uint64_t bytes,
                    uint64_t cache_bytes)
{
    bool ids = columns->column_of[COLUMN_ID] >= 0;
    uint64_t fit = cache_bytes / row_cache_row_bytes(columns->features, fill->element, ids);
    uint64_t most = bytes / columns->count;
    uint64_t rows = fit <= most ? fit : most + 1;
    atomic_store(&fill->ended, rows == 0);
    if (rows > 0 && row_slots_map(&fill->slots, columns->features, fill->element, rows)) {
        log_debug("rows are not kept during the first pass: %s", error_message());
        atomic_store(&fill->ended, true);
    }
}

void csv_fill_release(struct csv_fill *fill)
{
    row_slots_release(&fill->slots);
}

void csv_fill_claim(struct csv_fill *fill, const struct csv_block *block,
                    struct csv_fill_block *ret_share)
{
    uint64_t first = (uint64_t)(block->first_line - fill->first_line);
    uint64_t rows = (uint64_t)block->lines;
    *ret_share = (struct csv_fill_block){.first = first};
    if (!fill->slots.memory || atomic_load_explicit(&fill->ended, memory_order_relaxed))
        return;
    if (first + rows <= fill->slots.capacity)
        ret_share->rows = rows;
    else
        atomic_store_explicit(&fill->ended, true, memory_order_relaxed);
}

uint8_t *csv_fill_slot(struct csv_fill *fill, const struct csv_fill_block *share, size_t index)
{
    return index < share->rows ? row_slots_at(&fill->slots, share->first + index) : NULL;
}

void csv_fill_label(const struct csv_fill *fill, uint8_t *slot, const struct store_row *row,
                    size_t number)
{
    double value = 0;
    if (row->status == ROW_BAD)
        memset(slot + sizeof(value), 0, fill->slots.row_bytes);
    else if (fill->texts)
        value = (double)number;
    else if (row->label.length > 0 && !text_parse_real(row->label.data, row->label.length, &value))
        value = 0; /* such a label ends the pass */
    memcpy(slot, &value, sizeof(value));
}

static void renumber(struct csv_fill *fill, uint64_t row, uint64_t rows, const uint32_t *numbers)
{
    for (uint64_t i = row; i < row + rows; i++) {
        uint8_t *slot = row_slots_at(&fill->slots, i);
        double value;
        memcpy(&value, slot, sizeof(value));
        value = numbers[(size_t)value];
        memcpy(slot, &value, sizeof(value));
    }
}

void csv_fill_take(struct csv_fill *fill, const struct csv_fill_block *share, uint64_t row,
                   size_t rows, const uint32_t *numbers)
{
    if (rows > share->rows)
        atomic_store_explicit(&fill->ended, true, memory_order_relaxed);
    if (rows > share->rows || rows == 0)
        return;
    if (share->first != row)
        memmove(row_slots_at(&fill->slots, row), row_slots_at(&fill->slots, share->first),
                rows * fill->slots.stride);
    if (numbers)
        renumber(fill, row, rows, numbers);
}

void csv_fill_finish(struct csv_fill *fill, uint64_t rows, const uint32_t *ranks)
{
    if (!fill->slots.memory)
        return;
    if (atomic_load(&fill->ended) || rows == 0) {
        csv_fill_release(fill);
        return;
    }
    row_slots_trim(&fill->slots, rows);
    if (ranks)
        renumber(fill, 0, rows, ranks);
}
