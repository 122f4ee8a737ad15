#include "sampler/partition.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/partition_view.h"

static const char column_memory[] = "the units' labels";

void partition_release(struct partition *partition)
{
    partition_view_free(partition->view);
    partition->view = NULL;
    names_release(&partition->names);
    packed_release(&partition->codes);
    packed_release(&partition->rows);
    packed_release(&partition->starts);
}

/* ---- building ---------------------------------------------------------------------------------
 */
static void renumber(struct packed *codes, const uint32_t *ranks)
{
    for (size_t i = 0; i < codes->count; i++)
        packed_set(codes, i, ranks[packed_get(codes, i)]);
}

/* Is class(row) = (row + class(0)) mod L throughout? */
static bool looks_cyclic(const struct packed *codes, uint32_t count)
{
    uint64_t expected = packed_get(codes, 0);
    for (size_t i = 0; i < codes->count; i++) {
        if (packed_get(codes, i) != expected)
            return false;
        if (++expected == count)
            expected = 0;
    }
    return true;
}

static enum error count_starts(struct partition *partition)
{
    enum error error = packed_init(&partition->starts, (size_t)partition->count + 1,
                                   (uint64_t)partition->units, column_memory);
    if (error)
        return error;
    struct packed *starts = &partition->starts;
    for (size_t i = 0; i < partition->codes.count; i++) {
        size_t class = (size_t)packed_get(&partition->codes, i);
        packed_set(starts, class + 1, packed_get(starts, class + 1) + 1);
    }
    for (size_t class = 0; class < partition->count; class ++)
        packed_set(starts, class + 1, packed_get(starts, class) + packed_get(starts, class + 1));
    return OK;
}

/* Counting sort: stable, so that rows ascend within a class. */
static enum error sort_rows(struct partition *partition)
{
    size_t units = (size_t)partition->units;
    size_t *next = array_new(partition->count, sizeof(*next), column_memory);
    enum error error = ERROR_MEMORY;
    if (!next)
        return error;
    error = packed_init(&partition->rows, units, units - 1, column_memory);
    if (error)
        goto out;
    for (uint32_t class = 0; class < partition->count; class ++)
        next[class] = (size_t)packed_get(&partition->starts, class);
    for (size_t row = 0; row < units; row++)
        packed_set(&partition->rows, next[packed_get(&partition->codes, row)]++, row);
out:
    free(next);
    return error;
}

/* From names, count and codes to the form that fits. */
static enum error finish(struct partition *partition)
{
    if (looks_cyclic(&partition->codes, partition->count)) {
        partition->is_cyclic = true;
        partition->shift = (uint32_t)packed_get(&partition->codes, 0);
        packed_release(&partition->codes);
        return OK;
    }
    packed_trim(&partition->codes);
    enum error error = count_starts(partition);
    return error ? error : sort_rows(partition);
}

enum error partition_init(struct partition *partition, const struct names_builder *builder,
                          struct packed *codes)
{
    struct partition made = {.units = (int64_t)codes->count, .codes = *codes};
    uint32_t *ranks = NULL;
    *codes = (struct packed){.width = 1};
    enum error error = names_build(builder, &made.names, &ranks);
    if (error)
        goto out;
    made.count = made.names.count;
    renumber(&made.codes, ranks);
    error = finish(&made);
    if (error)
        goto out;
    *partition = made;
    made = (struct partition){.units = 0};
out:
    free(ranks);
    partition_release(&made);
    return error;
}

enum error partition_of_range(struct partition *partition, int64_t units, uint32_t labels)
{
    uint32_t count = units < (int64_t)labels ? (uint32_t)units : labels;
    struct partition made = {.units = units, .count = count, .is_cyclic = true};
    enum error error = names_of_range(count, &made.names);
    if (!error)
        *partition = made;
    return error;
}

enum error partition_of_nothing(struct partition *partition, int64_t units)
{
    return partition_of_range(partition, units, 1);
}

/* ---- questions --------------------------------------------------------------------------------
 */
/* Where a cyclic class begins: its first row. */
static int64_t cyclic_first(const struct partition *partition, uint32_t class)
{
    return (class + (int64_t)partition->count - partition->shift) % partition->count;
}

void partition_gather(const struct partition *partition, uint32_t class, const uint64_t *ranks,
                      size_t count, int64_t *ret_rows)
{
    if (partition->is_cyclic) {
        int64_t first = cyclic_first(partition, class);
        for (size_t i = 0; i < count; i++)
            ret_rows[i] = first + (int64_t)ranks[i] * partition->count;
    } else if (partition->view) {
        partition_view_gather(partition, class, ranks, count, ret_rows);
    } else {
        for (size_t i = 0; i < count; i++)
            ret_rows[i] = partition_row(partition, class, (int64_t)ranks[i]);
    }
}

void partition_gather_classes(const struct partition *partition, const int64_t *rows, size_t count,
                              uint32_t *ret_classes)
{
    if (partition->view) {
        partition_view_gather_classes(partition, rows, count, ret_classes);
        return;
    }
    for (size_t i = 0; i < count; i++)
        ret_classes[i] = partition_class(partition, rows[i]);
}

void partition_read_classes(const struct partition *partition, int64_t first, size_t count,
                            uint32_t *ret_classes)
{
    if (partition->view) {
        partition_view_read_classes(partition, first, count, ret_classes);
        return;
    }
    for (size_t i = 0; i < count; i++)
        ret_classes[i] = partition_class(partition, first + (int64_t)i);
}

int64_t partition_units(const struct partition *partition, uint32_t class)
{
    if (partition->is_cyclic)
        return partition_rows_before(partition, class, partition->units);
    return (int64_t)(packed_get(&partition->starts, (size_t) class + 1) -
                     packed_get(&partition->starts, class));
}

int64_t partition_start(const struct partition *partition, uint32_t class)
{
    if (!partition->is_cyclic)
        return (int64_t)packed_get(&partition->starts, class);
    int64_t first = cyclic_first(partition, class);
    int64_t longer = partition->units % partition->count; /* classes with a unit more */
    return first * (partition->units / partition->count) + (first < longer ? first : longer);
}

int64_t partition_rows_before(const struct partition *partition, uint32_t class, int64_t row)
{
    if (partition->is_cyclic) {
        int64_t first = cyclic_first(partition, class);
        return row > first ? (row - first - 1) / partition->count + 1 : 0;
    }
    if (partition->view)
        return partition_view_rows_before(partition, class, row);
    size_t start = (size_t)packed_get(&partition->starts, class);
    size_t low = start, high = (size_t)packed_get(&partition->starts, (size_t) class + 1);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (packed_get(&partition->rows, middle) < (uint64_t)row)
            low = middle + 1;
        else
            high = middle;
    }
    return (int64_t)(low - start);
}

int64_t partition_rank(const struct partition *partition, int64_t row)
{
    uint32_t class = partition_class(partition, row);
    int64_t rank = partition_rows_before(partition, class, row);
    int64_t units = partition_units(partition, class);
    return rank < units ? rank : units - 1; /* only a damaged file gets there */
}
