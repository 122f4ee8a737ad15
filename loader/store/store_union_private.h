/* SPDX-License-Identifier: MIT */
/* Private to store_union*.c. */
#ifndef LOADER_STORE_STORE_UNION_PRIVATE_H
#define LOADER_STORE_STORE_UNION_PRIVATE_H

#include "loader/column/label_dictionary.h"
#include "loader/store/id_index.h"
#include "loader/store/store_union.h"

struct union_part {
    struct store *store;  /* owned */
    int64_t first_row;    /* rows of all parts before */
    uint64_t first_bytes; /* bytes of all parts before */
    double *labels;       /* owned; maps each of its label texts to its number here, or NULL */
};

struct union_store {
    struct store store;       /* first */
    struct union_part *parts; /* owned; [count + 1]: the last one has only first_row */
    size_t count;
    uint64_t bytes; /* of all parts; 0: one part's is unknown */
    bool keys_only;
    bool is_numbered; /* no id column: row numbers continue from part to part */
    struct id_index ids;
    struct label_dictionary labels;
};

enum error union_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                      void *context) MUST_CHECK;
enum error union_reader_open(struct store *store, struct reader **ret_reader) MUST_CHECK;
void union_reader_close(struct reader *reader);
enum error union_fetch(struct reader *reader, const int64_t *ids, size_t count, void *features,
                       size_t stride_bytes, double *labels, enum row_status *status) MUST_CHECK;
enum error union_measure(struct reader *reader, const int64_t *ids, size_t count,
                         int64_t *lengths) MUST_CHECK;

#endif
