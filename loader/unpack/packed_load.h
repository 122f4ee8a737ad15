/* SPDX-License-Identifier: MIT */
/*
 * The unpacking of one piece of a packed file's text (packed_text.h) into a page, by one thread,
 * that has page and lane for itself meanwhile.
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
    size_t piece_bytes, limit_bytes; /* of a piece, where it can end; where it cannot */
};

struct packed_piece {
    uint64_t offset; /* in the text */
    uint64_t packed_offset;
    size_t bytes;
    XXH64_hash_t hash;
    bool marked;
    struct unpack_point point; /* where it begins, if it is marked */
    size_t from;               /* the last piece up to this one that is marked */
};

enum page_state { PAGE_EMPTY, PAGE_LOADING, PAGE_READY };

struct packed_page {
    enum page_state state;
    size_t piece;
    char *data; /* owned; [limit_bytes] */
    unsigned pins;
    uint64_t used; /* the clock when it was asked for */
};

struct packed_lane {
    bool open, busy;
    struct unpacker unpacker;
    uint64_t offset;
    uint64_t used;
};

/* What a thread does to fill a page. */
struct packed_load {
    const struct packed_file *file;
    struct packed_page *page;
    struct packed_lane *lane;
    size_t number;             /* of the piece */
    struct packed_piece piece; /* a copy, or a new one */
    bool found;                /* it is a new one */
    bool open;                 /* the lane was closed */
    bool begin; /* the lane begins at `point`, else it goes on from where it stands */
    struct unpack_point point; /* what it owns is a piece's */
    uint64_t begin_offset;     /* in the text: there the lane is then */
    bool ended;                /* nothing is behind the piece */
};

/* Fills the page. A new piece's bytes, hash and point are set. ERROR_INPUT: the file is damaged, or
 * is not what it was. */
enum error packed_load_run(struct packed_load *load) MUST_CHECK;
/* Is so much unpacked for nothing rather too long? */
bool packed_load_is_detour(const struct packed_file *file, uint64_t bytes);

#endif
