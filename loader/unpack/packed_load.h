/* SPDX-License-Identifier: MIT */
/*
 * Unpacks one piece of a packed file's text (packed_text.h) into a page, on one thread, which has
 * exclusive use of page and lane meanwhile.
 */
#ifndef LOADER_UNPACK_PACKED_LOAD_H
#define LOADER_UNPACK_PACKED_LOAD_H

#include <stdbool.h>
#include <xxhash.h>

#include "common/file.h"
#include "loader/unpack/unpacker.h"

struct packed_file {
    const char *path; /* borrowed */
    struct file_identity identity;
    const struct packing *packing;
    size_t piece_bytes, limit_bytes; /* of a piece, if it can end there; if it cannot */
};

struct packed_piece {
    uint64_t offset; /* in the text */
    uint64_t packed_offset;
    size_t bytes;
    XXH64_hash_t hash;
    bool marked;
    struct unpack_point point; /* where it begins, if marked */
    size_t from;               /* the last marked piece up to this one */
};

enum page_state { PAGE_EMPTY, PAGE_LOADING, PAGE_READY };

struct packed_page {
    enum page_state state;
    size_t piece;
    char *data; /* owned; [limit_bytes] */
    unsigned pins;
    uint64_t used; /* clock of its last request */
};

struct packed_lane {
    bool open, busy;
    struct unpacker unpacker;
    uint64_t offset;
    uint64_t used;
};

/* A thread's work to fill a page. */
struct packed_load {
    const struct packed_file *file;
    struct packed_page *page;
    struct packed_lane *lane;
    size_t number;             /* of the piece */
    struct packed_piece piece; /* a copy, or a new one */
    bool found;                /* it is new */
    bool open;                 /* the lane was closed */
    bool begin;                /* the lane begins at `point`, else continues where it is */
    struct unpack_point point; /* its memory is a piece's */
    uint64_t begin_offset;     /* in the text: where the lane then is */
    bool ended;                /* nothing follows the piece */
};

/* Fills the page. Sets a new piece's bytes, hash and point. ERROR_INPUT: the file is damaged, or
 * has changed. */
enum error packed_load_run(struct packed_load *load) MUST_CHECK;
/* Is this too much to unpack in vain? */
bool packed_load_is_detour(const struct packed_file *file, uint64_t bytes);

#endif
