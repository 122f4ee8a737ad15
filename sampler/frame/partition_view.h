/*
 * The rows of a partition that a view keeps; for partition*.c only. What it is made of is another
 * partition, so that a split of rows is a view of a view.
 *
 * Dimensions: N units of the view, L its classes; N', L' those of the whole.
 */
#ifndef SAMPLER_FRAME_PARTITION_VIEW_H
#define SAMPLER_FRAME_PARTITION_VIEW_H

#include "sampler/frame/partition.h"

struct partition_view {
    const struct partition *whole;    /* borrowed */
    int64_t begin;                    /* plain rows: the first of them */
    const struct rank_bitmap *chosen; /* borrowed: rows of the whole [N']; NULL: plain rows */
    struct rank_bitmap *in_class;     /* owned: [N'] as partition_start() lays them out; or NULL */
    struct packed numbers;            /* [L']: the view's number of a class; none: the same */
    struct packed classes;            /* [L]: the whole's number of a class; none: the same */
    struct packed skipped; /* [L]: rows of the whole's class before the view's first, or with
                            * in_class chosen ones before the class begins */
};

void partition_view_free(struct partition_view *view);

void partition_view_gather(const struct partition *partition, uint32_t class, const uint64_t *ranks,
                           size_t count, int64_t *ret_rows);
void partition_view_gather_classes(const struct partition *partition, const int64_t *rows,
                                   size_t count, uint32_t *ret_classes);
void partition_view_read_classes(const struct partition *partition, int64_t first, size_t count,
                                 uint32_t *ret_classes);
int64_t partition_view_rows_before(const struct partition *partition, uint32_t class, int64_t row);

#endif
