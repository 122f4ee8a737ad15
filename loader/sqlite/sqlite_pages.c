/* SPDX-License-Identifier: MIT */
#include "loader/sqlite/sqlite_pages.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/sqlite/sqlite_door.h"
#include "loader/store/row_gather.h"

#define WINDOW_BYTES ((size_t)256 << 10) /* stays in the second-level cache */
#define BEHIND_BYTES 4096 /* readable: SQLite may read a little beyond the end of a damaged page */
#define INTERIOR_BYTES ((size_t)1 << 20) /* of interior pages kept */
#define LEAVES (WINDOW_BYTES / 512)      /* smallest page */
#define INTERIORS (INTERIOR_BYTES / 512)
#define PLACES ((size_t)4096) /* more than LEAVES: few pages share a place */
#define DEPTH_LIMIT 20        /* as SQLite's */
#define INTERIOR_KIND 5
#define LEAF_KIND 13
#define INTERIOR_HEADER_BYTES 12
#define CHILD_BYTES 4
#define VARINT_BYTES 9

struct sqlite_pages {
    const struct source_file *file;
    size_t page_bytes;
    uint32_t root;
    int depth; /* interior pages above each leaf; -1: not known yet */
    size_t borrowed;
    struct row_gather gather;
    uint32_t leaves[LEAVES]; /* the window's pages by number; [count] */
    size_t count;
    uint16_t places[PLACES];       /* by number: where in `leaves` it would be; else anything */
    size_t interior_count;         /* a power of two */
    uint32_t interiors[INTERIORS]; /* numbers of the pages kept, each at its only place; 0: none */
    uint8_t *kept; /* owned; [interior_count, page_bytes]; behind it, the rest of a last varint */
};

static uint32_t big_endian(const uint8_t *at, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static uint64_t offset_of(const struct sqlite_pages *pages, uint32_t number)
{
    return (uint64_t)(number - 1) * pages->page_bytes;
}

/* ---- life cycle --------------------------------------------------------- */

static bool read_page_bytes(struct sqlite_pages *pages)
{
    uint8_t header[18];
    const struct source_file *file = pages->file;
    if (file->door->read(file->handle, header, sizeof(header), 0) != sizeof(header))
        return false;
    size_t bytes = big_endian(header + 16, 2);
    pages->page_bytes = bytes == 1 ? 65536 : bytes;
    return pages->page_bytes >= 512 && pages->page_bytes <= 65536 &&
           (pages->page_bytes & (pages->page_bytes - 1)) == 0;
}

static bool open_gather(struct sqlite_pages *pages)
{
    const struct source_file *file = pages->file;
    uint64_t bytes = file->identity.size_bytes;
    if (!row_gather_helps(file->path, bytes, WINDOW_BYTES + BEHIND_BYTES))
        return false;
    uint8_t *mapped = sqlite_door_map(file->handle, (size_t)bytes);
    return mapped &&
           row_gather_take(&pages->gather, mapped, (size_t)bytes, WINDOW_BYTES + BEHIND_BYTES);
}

struct sqlite_pages *sqlite_pages_new(const struct source_file *file, uint32_t root)
{
    struct sqlite_pages *pages = array_new(1, sizeof(*pages), "pages of an SQLite file");
    if (!pages)
        return NULL;
    pages->file = file;
    pages->root = root;
    pages->depth = -1;
    if (read_page_bytes(pages)) {
        pages->interior_count = INTERIOR_BYTES / pages->page_bytes;
        pages->kept = array_new(INTERIOR_BYTES + VARINT_BYTES, 1, "pages of an SQLite file");
    }
    if (pages->kept && open_gather(pages))
        return pages;
    sqlite_pages_free(pages);
    return NULL;
}

void sqlite_pages_free(struct sqlite_pages *pages)
{
    if (!pages)
        return;
    row_gather_close(&pages->gather);
    free(pages->kept);
    free(pages);
}

/* ---- from the root to a leaf -------------------------------------------- */

/* Reads an interior page to its place, if another one is there. NULL: it is none, or cannot be read
 * (SQLite will report that); *ret_leaf: it is a leaf. */
static const uint8_t *find_interior(struct sqlite_pages *pages, uint32_t number, bool *ret_leaf)
{
    size_t place = number & (pages->interior_count - 1), bytes = pages->page_bytes;
    uint8_t *page = pages->kept + place * bytes;
    const struct source_file *file = pages->file;
    *ret_leaf = false;
    if (pages->interiors[place] == number)
        return page;
    pages->interiors[place] = 0;
    if (file->door->read(file->handle, page, bytes, offset_of(pages, number)) != (ssize_t)bytes)
        return NULL;
    *ret_leaf = page[0] == LEAF_KIND;
    if (page[0] != INTERIOR_KIND)
        return NULL;
    pages->interiors[place] = number;
    return page;
}

/* 7 bits a byte, most significant first; 8 in the ninth. */
static int64_t read_varint(const uint8_t *at)
{
    uint64_t value = 0;
    for (int i = 0; i < VARINT_BYTES - 1; i++) {
        value = value << 7 | (at[i] & 0x7f);
        if (!(at[i] & 0x80))
            return (int64_t)value;
    }
    return (int64_t)(value << 8 | at[VARINT_BYTES - 1]);
}

/* The child before the first key that is not below `key`; 0: the page is damaged. */
static uint32_t find_child(const struct sqlite_pages *pages, const uint8_t *page, int64_t key)
{
    size_t low = 0, high = big_endian(page + 3, 2);
    uint32_t child = big_endian(page + 8, CHILD_BYTES); /* after all keys */
    if (INTERIOR_HEADER_BYTES + 2 * high > pages->page_bytes)
        return 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        size_t cell = big_endian(page + INTERIOR_HEADER_BYTES + 2 * middle, 2);
        if (cell + CHILD_BYTES >= pages->page_bytes)
            return 0;
        if (read_varint(page + cell + CHILD_BYTES) < key) {
            low = middle + 1;
        } else {
            child = big_endian(page + cell, CHILD_BYTES);
            high = middle;
        }
    }
    return child;
}

/* The leaf that would hold the row; 0: not known. */
static uint32_t find_leaf(struct sqlite_pages *pages, int64_t row)
{
    uint32_t number = pages->root;
    bool is_leaf;
    for (int depth = 0; depth < DEPTH_LIMIT && number > 0; depth++) {
        if (depth == pages->depth)
            return number;
        const uint8_t *page = find_interior(pages, number, &is_leaf);
        if (is_leaf && pages->depth < 0)
            pages->depth = depth;
        if (!page)
            return is_leaf ? number : 0;
        number = find_child(pages, page, row);
    }
    return 0;
}

/* ---- a batch ------------------------------------------------------------ */

/* False: the window is full. */
static bool add_leaf(struct sqlite_pages *pages, uint32_t number)
{
    uint64_t end = (uint64_t)number * pages->page_bytes;
    if (number == 0 || end > pages->file->identity.size_bytes ||
        (pages->count > 0 && pages->leaves[pages->count - 1] == number))
        return true;
    if (pages->count == WINDOW_BYTES / pages->page_bytes ||
        !row_gather_add(&pages->gather, offset_of(pages, number), pages->page_bytes))
        return false;
    pages->places[number % PLACES] = (uint16_t)pages->count;
    pages->leaves[pages->count++] = number;
    return true;
}

size_t sqlite_pages_gather(struct sqlite_pages *pages, const struct fetch_place *rows, size_t count)
{
    size_t done = 0;
    if (pages->borrowed > 0)
        return count;
    pages->count = 0;
    row_gather_clear(&pages->gather);
    while (done < count && add_leaf(pages, find_leaf(pages, rows[done].key)))
        done++;
    if (pages->count > 0 && !row_gather_copy(&pages->gather))
        pages->count = 0; /* truncated, for example: SQLite reads the pages itself */
    return done;
}

/* 0: not a whole page. */
static uint64_t number_at(const struct sqlite_pages *pages, uint64_t offset, size_t bytes)
{
    bool is_page = bytes == pages->page_bytes && offset % pages->page_bytes == 0;
    return is_page ? offset / pages->page_bytes + 1 : 0;
}

/* NULL: it is not in the window. */
static uint8_t *find_gathered(const struct sqlite_pages *pages, uint64_t number)
{
    size_t at = pages->places[number % PLACES];
    if (at >= pages->count || pages->leaves[at] != number)
        return NULL;
    return pages->gather.window + at * pages->page_bytes;
}

/* SQLite would check an interior page each time that it borrows it. */
void *sqlite_pages_borrow(struct sqlite_pages *pages, uint64_t offset, size_t bytes)
{
    uint8_t *page = find_gathered(pages, number_at(pages, offset, bytes));
    if (!page || page[0] != LEAF_KIND)
        return NULL;
    pages->borrowed++;
    return page;
}

void sqlite_pages_put(struct sqlite_pages *pages)
{
    pages->borrowed--;
}

bool sqlite_pages_copy(const struct sqlite_pages *pages, void *out, size_t bytes, uint64_t offset)
{
    uint64_t number = number_at(pages, offset, bytes);
    size_t place = number & (pages->interior_count - 1);
    const uint8_t *page = find_gathered(pages, number);
    if (!page && number > 0 && pages->interiors[place] == number)
        page = pages->kept + place * bytes;
    if (page)
        memcpy(out, page, bytes);
    return page != NULL;
}
