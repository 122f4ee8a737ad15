#include "sampler/class_rows.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/large.h"
#include "common/stop.h"

#define MEMORY_LEAST ((uint64_t)1 << 20)

static const char sorting[] = "sorting the labels";

struct class_rows {
    struct spool_cursor cursor;
    uint32_t *codes; /* owned; [SPOOL_CHUNK] */
    const uint32_t *ranks;
    uint64_t *next; /* owned; by code: the place of its next row */
    unsigned width;
    uint64_t first, count; /* the part of the result that is made */
    void *rows;            /* owned; [count] */
};

/* One loop for each width. */
#define DEFINE_PLACE(name, type)                                                 \
    static void place_##name(struct class_rows *all, size_t count, uint64_t row) \
    {                                                                            \
        type *rows = all->rows;                                                  \
        for (size_t i = 0; i < count; i++) {                                     \
            uint64_t place = all->next[all->codes[i]]++ - all->first;            \
            if (place < all->count)                                              \
                rows[place] = (type)(row + i);                                   \
        }                                                                        \
    }

DEFINE_PLACE(8, uint8_t)
DEFINE_PLACE(16, uint16_t)
DEFINE_PLACE(32, uint32_t)
DEFINE_PLACE(64, uint64_t)

static void place(struct class_rows *all, size_t count, uint64_t row)
{
    switch (all->width) {
    case 1:
        place_8(all, count, row);
        break;
    case 2:
        place_16(all, count, row);
        break;
    case 4:
        place_32(all, count, row);
        break;
    default:
        place_64(all, count, row);
    }
}

static enum error make_part(struct class_rows *all, const uint64_t *starts, uint32_t classes)
{
    size_t count = 0;
    enum error error = OK;
    for (uint32_t code = 0; code < classes; code++)
        all->next[code] = starts[all->ranks[code]];
    spool_cursor_rewind(&all->cursor);
    do {
        uint64_t row = all->cursor.row;
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped while the labels were sorted");
        error = spool_cursor_next32(&all->cursor, all->codes, &count);
        if (!error)
            place(all, count, row);
    } while (!error && count > 0);
    return error;
}

static enum error make_parts(struct class_rows *all, const uint64_t *starts, uint32_t classes,
                             struct section_writer *writer)
{
    uint64_t units = all->cursor.spool->rows;
    uint64_t most = all->count;
    enum error error = OK;
    for (all->first = 0; all->first < units && !error; all->first += most) {
        all->count = units - all->first < most ? units - all->first : most;
        error = make_part(all, starts, classes);
        if (!error)
            error = section_add(writer, all->rows, all->count * all->width);
    }
    return error;
}

enum error class_rows_write(const struct spool *codes, const uint32_t *ranks,
                            const uint64_t *starts, uint32_t count, uint64_t memory_bytes,
                            struct section_writer *writer)
{
    struct class_rows all = {.ranks = ranks, .width = writer->section->width};
    uint64_t most = (memory_bytes > MEMORY_LEAST ? memory_bytes : MEMORY_LEAST) / all.width;
    all.count = codes->rows < most ? codes->rows : most;
    all.codes = array_new(SPOOL_CHUNK, sizeof(*all.codes), sorting);
    all.next = array_new(count, sizeof(*all.next), sorting);
    size_t bytes = all.count * all.width;
    all.rows = large_new(bytes, sorting);
    enum error error = all.codes && all.next && all.rows ? OK : ERROR_MEMORY;
    if (!error)
        error = spool_cursor_open(&all.cursor, codes);
    if (!error)
        error = make_parts(&all, starts, count, writer);
    spool_cursor_close(&all.cursor);
    free(all.codes);
    free(all.next);
    large_free(all.rows, bytes);
    return error;
}
