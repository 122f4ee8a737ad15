/*
 * Chunks behind the rule begin at the row where the rule ends, wherever that is: chunk k holds the
 * rows from rule_rows + k * SPOOL_CHUNK on.
 */
#include "sampler/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"
#include "common/large.h"
#include "sampler/packed.h"

#define ARENA_BYTES ((size_t)4 << 20)

/* ---- the file ---------------------------------------------------------------------------------
 */
void spool_store_init(struct spool_store *store, const char *beside, uint64_t memory_bytes)
{
    *store = (struct spool_store){.beside = beside, .memory_bytes = memory_bytes, .descriptor = -1};
}

void spool_store_release(struct spool_store *store)
{
    if (store->descriptor >= 0)
        close(store->descriptor);
    store->descriptor = -1;
    for (size_t i = 0; i < store->arena_count; i++)
        large_free(store->arenas[i], ARENA_BYTES);
    free(store->arenas);
    store->arenas = NULL;
    store->arena_count = store->arena_capacity = 0;
}

/* Not every file system knows files without a name; there it has one for an instant. */
static enum error create_and_unlink(struct spool_store *store)
{
    size_t bytes = strlen(store->beside) + 64;
    char *path = array_new(bytes, 1, "a file's name");
    if (!path)
        return ERROR_MEMORY;
    snprintf(path, bytes, "%s.tmp.%d.rows", store->beside, (int)getpid());
    store->descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    enum error error = OK;
    if (store->descriptor < 0)
        error = error_set_errno(ERROR_IO, errno, "cannot create %s", path);
    else
        unlink(path);
    free(path);
    return error;
}

static enum error open_file(struct spool_store *store)
{
    if (store->descriptor >= 0)
        return OK;
    char *folder = strdup(store->beside);
    if (!folder)
        return error_set_memory(strlen(store->beside), "a folder's name");
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    store->descriptor = open(slash ? folder : ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    free(folder);
    return store->descriptor >= 0 ? OK : create_and_unlink(store);
}

static enum error write_chunk(struct spool *spool, struct spool_chunk *chunk, const void *data)
{
    struct spool_store *store = spool->store;
    size_t bytes = (size_t)chunk->count * chunk->width;
    enum error error = open_file(store);
    for (size_t done = 0; done < bytes && !error;) {
        ssize_t put = pwrite(store->descriptor, (const uint8_t *)data + done, bytes - done,
                             (off_t)(store->file_bytes + done));
        if (put < 0 && errno != EINTR)
            error = error_set_errno(
                ERROR_IO, errno, "cannot put %s aside: byte %llu of a temporary file beside %s",
                spool->what, (unsigned long long)store->file_bytes, store->beside);
        done += put > 0 ? (size_t)put : 0;
    }
    chunk->offset = store->file_bytes;
    store->file_bytes += bytes;
    return error;
}

/* ---- writing ----------------------------------------------------------------------------------
 */
enum error spool_init(struct spool *spool, struct spool_store *store, bool is_round,
                      const char *what)
{
    *spool = (struct spool){.store = store, .what = what, .is_round = is_round};
    spool->open = array_new(SPOOL_CHUNK, sizeof(*spool->open), what);
    return spool->open ? OK : ERROR_MEMORY;
}

void spool_release(struct spool *spool)
{
    free(spool->chunks);
    free(spool->open);
    free(spool->narrowed);
    *spool = (struct spool){.rows = 0};
}

static void narrow(void *to, unsigned width, const uint64_t *values, size_t count)
{
    switch (width) {
    case 1:
        for (size_t i = 0; i < count; i++)
            ((uint8_t *)to)[i] = (uint8_t)values[i];
        break;
    case 2:
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)to)[i] = (uint16_t)values[i];
        break;
    case 4:
        for (size_t i = 0; i < count; i++)
            ((uint32_t *)to)[i] = (uint32_t)values[i];
        break;
    default:
        memcpy(to, values, count * sizeof(*values));
    }
}

/* `bytes` of an arena; the file comes next where there is no memory left. */
static enum error take_memory(struct spool_store *store, size_t bytes, void **ret_data)
{
    bytes = (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
    if (store->arena_count == 0 || ARENA_BYTES - store->arena_used < bytes) {
        enum error error =
            array_grow((void **)&store->arenas, &store->arena_capacity, store->arena_count + 1,
                       sizeof(*store->arenas), "columns of units");
        if (error)
            return error;
        void *arena = large_new(ARENA_BYTES, "columns of units");
        if (!arena)
            return ERROR_MEMORY;
        store->arenas[store->arena_count++] = arena;
        store->arena_used = 0;
        store->memory_bytes -=
            store->memory_bytes < ARENA_BYTES ? store->memory_bytes : ARENA_BYTES;
    }
    *ret_data = (uint8_t *)store->arenas[store->arena_count - 1] + store->arena_used;
    store->arena_used += bytes;
    return OK;
}

/* Is there memory for that many bytes more? */
static bool has_memory(const struct spool_store *store, size_t bytes)
{
    return !store->beside || store->memory_bytes >= ARENA_BYTES ||
           (store->arena_count > 0 && ARENA_BYTES - store->arena_used >= bytes + sizeof(uint64_t));
}

static enum error place_chunk(struct spool *spool, struct spool_chunk *chunk)
{
    struct spool_store *store = spool->store;
    size_t bytes = (size_t)chunk->count * chunk->width;
    if (!has_memory(store, bytes)) {
        if (!spool->narrowed)
            spool->narrowed = array_new(SPOOL_CHUNK, sizeof(uint64_t), spool->what);
        if (!spool->narrowed)
            return ERROR_MEMORY;
        narrow(spool->narrowed, chunk->width, spool->open, chunk->count);
        return write_chunk(spool, chunk, spool->narrowed);
    }
    enum error error = take_memory(store, bytes, &chunk->data);
    if (!error)
        narrow(chunk->data, chunk->width, spool->open, chunk->count);
    return error;
}

static enum error close_chunk(struct spool *spool)
{
    uint64_t all = 0;
    if (spool->open_count == 0)
        return OK;
    enum error error = array_grow((void **)&spool->chunks, &spool->chunk_capacity,
                                  spool->chunk_count + 1, sizeof(*spool->chunks), spool->what);
    if (error)
        return error;
    for (size_t i = 0; i < spool->open_count; i++)
        all |= spool->open[i];
    struct spool_chunk chunk = {.count = (uint32_t)spool->open_count, .width = packed_width(all)};
    error = place_chunk(spool, &chunk);
    if (error)
        return error;
    spool->chunks[spool->chunk_count++] = chunk;
    spool->open_count = 0;
    return OK;
}

/* How many of `values` go on as the first rows did. */
static size_t follow_count(struct spool *spool, const uint64_t *values, size_t count)
{
    size_t done = 0;
    if (spool->rows == 0)
        spool->rule_first = values[0];
    uint64_t expected = spool->rule_first + spool->rule_rows;
    while (done < count && values[done] == expected + done)
        done++;
    return done;
}

static size_t follow_round(struct spool *spool, const uint64_t *values, size_t count)
{
    size_t done = 0;
    uint64_t rows = spool->rule_rows;
    while (done < count && spool->rule_period == 0) { /* the first round: each value is new */
        if (values[done] == rows + done)
            done++;
        else if (values[done] == 0)
            spool->rule_period = rows + done;
        else
            return done;
    }
    if (done == count)
        return done;
    uint64_t expected = (rows + done) % spool->rule_period;
    while (done < count && values[done] == expected) {
        expected = expected + 1 == spool->rule_period ? 0 : expected + 1;
        done++;
    }
    return done;
}

static size_t follow_rule(struct spool *spool, const uint64_t *values, size_t count)
{
    if (spool->rule_rows < spool->rows)
        return 0;
    size_t done =
        spool->is_round ? follow_round(spool, values, count) : follow_count(spool, values, count);
    spool->rule_rows += done;
    return done;
}

static uint64_t largest_of(const uint64_t *values, size_t count, uint64_t largest)
{
    for (size_t i = 0; i < count; i++)
        largest = values[i] > largest ? values[i] : largest;
    return largest;
}

enum error spool_add(struct spool *spool, const uint64_t *values, size_t count)
{
    enum error error = OK;
    if (count == 0)
        return OK;
    size_t done = follow_rule(spool, values, count);
    spool->largest = largest_of(values, count, spool->largest);
    spool->rows += done;
    while (done < count && !error) {
        size_t room = SPOOL_CHUNK - spool->open_count;
        size_t step = count - done < room ? count - done : room;
        memcpy(spool->open + spool->open_count, values + done, step * sizeof(*values));
        spool->open_count += step;
        spool->rows += step;
        done += step;
        if (spool->open_count == SPOOL_CHUNK)
            error = close_chunk(spool);
    }
    return error;
}

enum error spool_finish(struct spool *spool)
{
    enum error error = close_chunk(spool);
    free(spool->open);
    free(spool->narrowed);
    spool->open = NULL;
    spool->narrowed = NULL;
    return error;
}

/* ---- reading ----------------------------------------------------------------------------------
 */
enum error spool_cursor_open(struct spool_cursor *cursor, const struct spool *spool)
{
    *cursor = (struct spool_cursor){.spool = spool};
    cursor->bytes = array_new(SPOOL_CHUNK, sizeof(uint64_t), spool->what);
    return cursor->bytes ? OK : ERROR_MEMORY;
}

void spool_cursor_close(struct spool_cursor *cursor)
{
    free(cursor->bytes);
    cursor->bytes = NULL;
}

void spool_cursor_rewind(struct spool_cursor *cursor)
{
    cursor->row = 0;
}

void spool_cursor_skip_rule(struct spool_cursor *cursor)
{
    cursor->row = cursor->spool->rule_rows;
}

/* The rule's next value is *ret_value, and then it counts up for so many rows, at most `limit`. */
static size_t ruled_run(const struct spool_cursor *cursor, size_t limit, uint64_t *ret_value)
{
    const struct spool *spool = cursor->spool;
    uint64_t left = spool->rule_rows - cursor->row;
    uint64_t value = spool->is_round ? cursor->row : spool->rule_first + cursor->row;
    if (spool->is_round && spool->rule_period > 0) {
        value = cursor->row % spool->rule_period;
        left = left < spool->rule_period - value ? left : spool->rule_period - value;
    }
    *ret_value = value;
    return left < limit ? (size_t)left : limit;
}

/* The chunk that the cursor stands at, in memory. */
static enum error load(struct spool_cursor *cursor, struct packed *ret_view)
{
    const struct spool *spool = cursor->spool;
    const struct spool_chunk *chunk =
        &spool->chunks[(cursor->row - spool->rule_rows) / SPOOL_CHUNK];
    struct packed view = {.data = chunk->data, .count = chunk->count, .width = chunk->width};
    if (!view.data) {
        enum error error =
            file_read_at(spool->store->descriptor, "what was put aside", cursor->bytes,
                         (size_t)chunk->count * chunk->width, chunk->offset);
        if (error)
            return error;
        view.data = cursor->bytes;
    }
    *ret_view = view;
    return OK;
}

/* The next rows as numbers of one width. What is stored is not wider than that
 * (spool_cursor_next32: the caller's word). */
#define COPY(stored)                                \
    for (size_t i = 0; i < view.count; i++)         \
        values[i] = ((const stored *)view.data)[i]; \
    break

#define DEFINE_NEXT(name, number)                                                               \
    enum error name(struct spool_cursor *cursor, number values[SPOOL_CHUNK], size_t *ret_count) \
    {                                                                                           \
        struct packed view = {.count = 0};                                                      \
        size_t count = 0;                                                                       \
        while (count < SPOOL_CHUNK && cursor->row < cursor->spool->rule_rows) {                 \
            uint64_t value;                                                                     \
            size_t run = ruled_run(cursor, SPOOL_CHUNK - count, &value);                        \
            for (size_t i = 0; i < run; i++)                                                    \
                values[count + i] = (number)(value + i);                                        \
            count += run;                                                                       \
            cursor->row += run;                                                                 \
        }                                                                                       \
        *ret_count = count;                                                                     \
        if (count > 0 || cursor->row == cursor->spool->rows)                                    \
            return OK;                                                                          \
        enum error error = load(cursor, &view);                                                 \
        if (error)                                                                              \
            return error;                                                                       \
        switch (view.width) {                                                                   \
        case 1:                                                                                 \
            COPY(uint8_t);                                                                      \
        case 2:                                                                                 \
            COPY(uint16_t);                                                                     \
        case 4:                                                                                 \
            COPY(uint32_t);                                                                     \
        default:                                                                                \
            memcpy(values, view.data, view.count * sizeof(*values));                            \
        }                                                                                       \
        cursor->row += view.count;                                                              \
        *ret_count = view.count;                                                                \
        return OK;                                                                              \
    }

DEFINE_NEXT(spool_cursor_next, uint64_t)
DEFINE_NEXT(spool_cursor_next32, uint32_t)
