/* SPDX-License-Identifier: MIT */
#include "loader/store/feature_range.h"

#include <math.h>
#include <string.h>

#include "common/stop.h"
#include "loader/store/scan_apart.h"

static void add_bytes(struct feature_range *range, const uint8_t *bytes, size_t count)
{
    int largest = range->largest;
    for (size_t i = 0; i < count; i++)
        largest = bytes[i] > largest ? bytes[i] : largest;
    range->largest = largest;
}

void feature_range_add_floats(struct feature_range *range, const void *features, size_t count,
                              size_t rows)
{
    const uint8_t *bytes = features;
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, bytes + i * sizeof(value), sizeof(value));
        range->has_fractions |= value != truncf(value);
        range->largest_float = fmaxf(range->largest_float, fabsf(value));
    }
    range->rows += (int64_t)rows;
}

void feature_range_add(struct feature_range *range, const struct store_info *info,
                       const struct store_block *block)
{
    size_t count = 0;
    for (size_t i = 0; i < block->rows; i++)
        count += store_block_row_bytes(block, i, info);
    if (info->element != ELEMENT_U8) {
        feature_range_add_floats(range, block->features, count / sizeof(float), block->rows);
        return;
    }
    add_bytes(range, block->features, count);
    range->rows += (int64_t)block->rows;
}

struct finding {
    const struct store_info *info;
    struct feature_range range;
};

static enum error look(void *context, const struct store_block *block)
{
    struct finding *finding = context;
    struct store_block few = *block;
    int64_t left = FEATURE_RANGE_ROWS - finding->range.rows;
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while reading %s", finding->info->uri);
    if ((int64_t)few.rows > left)
        few.rows = (size_t)left;
    feature_range_add(&finding->range, finding->info, &few);
    return finding->range.rows < FEATURE_RANGE_ROWS ? OK
                                                    : error_set(ERROR_END, "enough rows were seen");
}

enum error feature_range_find(struct store *store, struct feature_range *ret_range)
{
    struct finding finding = {.info = store_info(store)};
    enum error error = OK;
    if (finding.info->element != ELEMENT_I32 && finding.info->features > 0)
        error = store_scan_apart(store, SCAN_FEATURES | SCAN_BAD_ROWS, look, &finding);
    if (error && error != ERROR_END)
        return error;
    *ret_range = finding.range;
    return OK;
}

bool feature_range_is_rounded(const struct feature_range *range)
{
    return !range->has_fractions && range->largest_float >= 0x1p24f &&
           range->largest_float <= 0x1p31f;
}

bool feature_range_is_small(const struct feature_range *range)
{
    return range->largest > 0 && range->largest < FEATURE_RANGE_SMALL;
}
