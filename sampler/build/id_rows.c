#include "sampler/build/id_rows_private.h"

#include <string.h>

#define TABLE_WASTE 8 /* a table may have so many entries for each id */
#define SMALL_RANGE ((uint64_t)1 << 20)

void id_rows_narrow(void *rows, size_t count, unsigned stride, unsigned width)
{
    uint8_t *to = rows;
    const uint8_t *from = rows;
    for (size_t i = 0; i < count && width < stride; i++)
        memmove(to + i * width, from + i * stride, width); /* little-endian */
}

enum error id_rows_write_range(struct id_rows *all, const struct id_range *range)
{
    uint64_t slots = range->last - range->first; /* one less */
    return slots / TABLE_WASTE < range->rows || slots < SMALL_RANGE ? id_table_write(all, range)
                                                                    : id_pairs_write(all, range);
}

enum error id_rows_write(const struct spool *ids, uint64_t smallest, struct sort_arena *arena,
                         struct section_writer *writer, struct id_twice *ret_twice)
{
    struct id_rows all = {.arena = arena, .writer = writer, .twice = ret_twice};
    struct id_range range = {.first = smallest, .last = ids->largest, .rows = ids->rows};
    enum error error = spool_team_open(&all.team, ids, "sorting the ids");
    if (!error)
        error = id_rows_write_range(&all, &range);
    spool_team_close(&all.team);
    return error;
}
