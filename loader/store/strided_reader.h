/* SPDX-License-Identifier: MIT */
/*
 * The reader of a store whose rows lie in one file, with one length or a list of where they end: a
 * batch in the order of the file, neighbours by one read, or, on a local disk, some hundred rows by
 * one system call (row_gather.h), or without any where all rows are in memory. What a record means,
 * the kind of store says. One thread; blocks.
 */
#ifndef LOADER_STORE_STRIDED_READER_H
#define LOADER_STORE_STRIDED_READER_H

#include "loader/store/fetch_call.h"
#include "loader/store/store.h"
#include "loader/store/strided_rows.h"

struct strided_layout {
    const char *path; /* borrowed, as the identity */
    const struct file_identity *identity;
    const char *name; /* of the store, in messages about rows that it does not have; borrowed */
    const struct strided_text *text; /* where the rows are; borrowed; NULL: in the file */
    uint64_t begin;                  /* of row 0, in bytes */
    size_t row_bytes;                /* of a record, of the longest */
    const uint64_t *ends; /* of records that differ in length (strided_rows.h); borrowed; NULL: they
                           * do not */
    bool
        is_copy; /* of rows that can be had elsewhere, and that `take` knows from those of any other
                   * file: what fails is not tried again, nor is it checked whether the file is
                   * still what it was */
    /* The row that has an id; -1: none. */
    int64_t (*find)(const struct store *store, int64_t id);
    /* Says by fetch_call_set() what became of the row at place->index, number place->key, whose
     * bytes are `record`. Another result than OK: no row can be trusted. */
    enum error (*take)(const struct store *store, struct fetch_call *call,
                       const struct fetch_place *place, const uint8_t *record) MUST_CHECK;
};

enum error strided_reader_open(struct store *store, const struct strided_layout *layout,
                               struct reader **ret_reader) MUST_CHECK;
/* As struct store_ops has them. */
void strided_reader_close(struct reader *reader);
enum error strided_reader_fetch(struct reader *reader, const int64_t *ids, size_t count,
                                void *features, size_t stride_bytes, double *labels,
                                enum row_status *status) MUST_CHECK;

#endif
