/* SPDX-License-Identifier: MIT */
/*
 * The reader of a store whose rows are in one file, with one length or a list of their ends: reads
 * a batch in file order, neighbours with one read or, on a local disk, some hundred rows with one
 * system call (row_gather.h), or with none if all rows are in memory. The kind of store interprets
 * the records. One thread; blocks.
 */
#ifndef LOADER_STORE_STRIDED_READER_H
#define LOADER_STORE_STRIDED_READER_H

#include "loader/store/fetch_call.h"
#include "loader/store/store.h"
#include "loader/store/strided_rows.h"

struct strided_layout {
    const char *path; /* borrowed, as is the identity */
    const struct file_identity *identity;
    const char *name;                /* of the store, in messages about missing rows; borrowed */
    const struct strided_text *text; /* the source of rows; borrowed; NULL: the file */
    uint64_t begin;                  /* of row 0, in bytes */
    size_t row_bytes;                /* of a record, or of the longest */
    const uint64_t *ends; /* of records that differ in length (strided_rows.h); borrowed; NULL: they
                           * do not */
    bool is_copy; /* rows exist elsewhere, and `take` tells them from those of any other file:
                   * failures are not retried, and the file is not checked for changes */
    /* The row with an id; -1: none. */
    int64_t (*find)(const struct store *store, int64_t id);
    /* Calls fetch_call_set() with the status of the row at place->index, number place->key, whose
     * bytes are `record`. A result other than OK: no row is valid. */
    enum error (*take)(const struct store *store, struct fetch_call *call,
                       const struct fetch_place *place, const uint8_t *record) MUST_CHECK;
};

enum error strided_reader_open(struct store *store, const struct strided_layout *layout,
                               struct reader **ret_reader) MUST_CHECK;
/* For struct store_ops. */
void strided_reader_close(struct reader *reader);
enum error strided_reader_fetch(struct reader *reader, const int64_t *ids, size_t count,
                                void *features, size_t stride_bytes, double *labels,
                                enum row_status *status) MUST_CHECK;

#endif
