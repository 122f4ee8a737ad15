/* SPDX-License-Identifier: MIT */
#include "sampler/frame/partition.h"

/* ---- cyclic ------------------------------------------------------------- */

enum error partition_of_range(struct partition *partition, int64_t units, uint32_t labels)
{
    uint32_t count = units < (int64_t)labels ? (uint32_t)units : labels;
    struct partition made = {.ops = &partition_cyclic, .units = units, .count = count};
    enum error error = dictionary_of_range(count, &made.dictionary);
    if (!error)
        *partition = made;
    return error;
}

enum error partition_of_nothing(struct partition *partition, int64_t units)
{
    return partition_of_range(partition, units, 1);
}

static uint32_t cyclic_category(const struct partition *partition, int64_t row)
{
    return (uint32_t)(((uint64_t)row + partition->shift) % partition->count);
}

/* The first row of a category. */
static int64_t cyclic_first(const struct partition *partition, uint32_t category)
{
    return (category + (int64_t)partition->count - partition->shift) % partition->count;
}

static void cyclic_gather(const struct partition *partition, uint32_t category,
                          const uint64_t *ranks, size_t count, int64_t *ret_rows)
{
    int64_t first = cyclic_first(partition, category);
    for (size_t i = 0; i < count; i++)
        ret_rows[i] = first + (int64_t)ranks[i] * partition->count;
}

static void cyclic_gather_categories(const struct partition *partition, const int64_t *rows,
                                     size_t count, uint32_t *ret_categories)
{
    for (size_t i = 0; i < count; i++)
        ret_categories[i] = cyclic_category(partition, rows[i]);
}

static void cyclic_read_categories(const struct partition *partition, int64_t first, size_t count,
                                   uint32_t *ret_categories)
{
    uint32_t category = cyclic_category(partition, first);
    for (size_t i = 0; i < count; i++) {
        ret_categories[i] = category++;
        if (category == partition->count)
            category = 0;
    }
}

static int64_t cyclic_rows_before(const struct partition *partition, uint32_t category, int64_t row)
{
    int64_t first = cyclic_first(partition, category);
    return row > first ? (row - first - 1) / partition->count + 1 : 0;
}

const struct partition_ops partition_cyclic = {
    .category = cyclic_category,
    .gather = cyclic_gather,
    .gather_categories = cyclic_gather_categories,
    .read_categories = cyclic_read_categories,
    .rows_before = cyclic_rows_before,
};

/* ---- stored: values read are kept below L and N ------------------------- */

static inline uint32_t stored_category(const struct partition *partition, int64_t row)
{
    uint32_t category = (uint32_t)packed_get(&partition->codes, (size_t)row);
    return __builtin_expect(category < partition->count, 1) ? category : partition->count - 1;
}

static void stored_gather(const struct partition *partition, uint32_t category,
                          const uint64_t *ranks, size_t count, int64_t *ret_rows)
{
    uint64_t units = (uint64_t)partition->units;
    uint64_t start = packed_get(&partition->starts, category);
    for (size_t i = 0; i < count; i++) {
        uint64_t row = packed_get(&partition->rows, (size_t)(start + ranks[i]));
        ret_rows[i] = (int64_t)(__builtin_expect(row < units, 1) ? row : units - 1);
    }
}

static void stored_gather_categories(const struct partition *partition, const int64_t *rows,
                                     size_t count, uint32_t *ret_categories)
{
    for (size_t i = 0; i < count; i++)
        ret_categories[i] = stored_category(partition, rows[i]);
}

static void stored_read_categories(const struct partition *partition, int64_t first, size_t count,
                                   uint32_t *ret_categories)
{
    for (size_t i = 0; i < count; i++)
        ret_categories[i] = stored_category(partition, first + (int64_t)i);
}

static int64_t stored_rows_before(const struct partition *partition, uint32_t category, int64_t row)
{
    size_t start = (size_t)packed_get(&partition->starts, category);
    size_t low = start, high = (size_t)packed_get(&partition->starts, (size_t)category + 1);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (packed_get(&partition->rows, middle) < (uint64_t)row)
            low = middle + 1;
        else
            high = middle;
    }
    return (int64_t)(low - start);
}

const struct partition_ops partition_stored = {
    .category = stored_category,
    .gather = stored_gather,
    .gather_categories = stored_gather_categories,
    .read_categories = stored_read_categories,
    .rows_before = stored_rows_before,
};

/* ---- whatever the form -------------------------------------------------- */

void partition_release(struct partition *partition)
{
    if (partition->ops && partition->ops->release)
        partition->ops->release(partition);
    dictionary_release(&partition->dictionary);
    packed_release(&partition->codes);
    packed_release(&partition->rows);
    packed_release(&partition->starts);
}

uint32_t partition_category(const struct partition *partition, int64_t row)
{
    return partition->ops->category(partition, row);
}

int64_t partition_row(const struct partition *partition, uint32_t category, int64_t j)
{
    uint64_t rank = (uint64_t)j;
    int64_t row;
    partition->ops->gather(partition, category, &rank, 1, &row);
    return row;
}

void partition_gather(const struct partition *partition, uint32_t category, const uint64_t *ranks,
                      size_t count, int64_t *ret_rows)
{
    partition->ops->gather(partition, category, ranks, count, ret_rows);
}

void partition_gather_categories(const struct partition *partition, const int64_t *rows,
                                 size_t count, uint32_t *ret_categories)
{
    partition->ops->gather_categories(partition, rows, count, ret_categories);
}

void partition_read_categories(const struct partition *partition, int64_t first, size_t count,
                               uint32_t *ret_categories)
{
    partition->ops->read_categories(partition, first, count, ret_categories);
}

int64_t partition_rows_before(const struct partition *partition, uint32_t category, int64_t row)
{
    return partition->ops->rows_before(partition, category, row);
}

int64_t partition_units(const struct partition *partition, uint32_t category)
{
    if (partition_is_cyclic(partition))
        return cyclic_rows_before(partition, category, partition->units);
    return (int64_t)(packed_get(&partition->starts, (size_t)category + 1) -
                     packed_get(&partition->starts, category));
}

int64_t partition_start(const struct partition *partition, uint32_t category)
{
    if (!partition_is_cyclic(partition))
        return (int64_t)packed_get(&partition->starts, category);
    int64_t first = cyclic_first(partition, category);
    int64_t longer = partition->units % partition->count; /* categories with one more unit */
    return first * (partition->units / partition->count) + (first < longer ? first : longer);
}

int64_t partition_rank(const struct partition *partition, int64_t row)
{
    uint32_t category = partition_category(partition, row);
    int64_t rank = partition_rows_before(partition, category, row);
    int64_t units = partition_units(partition, category);
    return rank < units ? rank : units - 1; /* only a damaged file gets there */
}
