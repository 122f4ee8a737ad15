#include "sampler/frame/partition.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/frame/partition_view.h"

void partition_release(struct partition *partition)
{
    partition_view_free(partition->view);
    partition->view = NULL;
    dictionary_release(&partition->names);
    packed_release(&partition->codes);
    packed_release(&partition->rows);
    packed_release(&partition->starts);
}

/* ---- building ----------------------------------------------------------- */
enum error partition_of_range(struct partition *partition, int64_t units, uint32_t labels)
{
    uint32_t count = units < (int64_t)labels ? (uint32_t)units : labels;
    struct partition made = {.units = units, .count = count, .is_cyclic = true};
    enum error error = dictionary_of_range(count, &made.names);
    if (!error)
        *partition = made;
    return error;
}

enum error partition_of_nothing(struct partition *partition, int64_t units)
{
    return partition_of_range(partition, units, 1);
}

/* ---- questions ---------------------------------------------------------- */
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
