/* SPDX-License-Identifier: MIT */
/*
 * Where import writes: a file or a table of rows. All or nothing: when commit returns, the result
 * is complete, was read back, and is on disk; if anything fails before, even if the process dies,
 * an earlier one stays unchanged. One thread; blocks.
 */
#ifndef LOADER_STORE_STORE_WRITER_H
#define LOADER_STORE_STORE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/uri.h"
#include "loader/store/content_digest.h"
#include "loader/store/store.h"

struct store_writer;

/* Implemented by each kind of store that can be written. */
struct store_writer_ops {
    const struct store_ops *store; /* its URIs, and how the result is read back */
    bool is_server;                /* has its own deadlines, unaffected by disks */
    bool has_table;
    /* Examines what exists, on a server after connecting. ERROR_CONFLICT: import must not replace
     * that, and `replace` is false. `table`: for kinds that have one. */
    enum error (*open)(struct uri *uri, const char *table, bool replace,
                       struct store_writer **ret_writer) MUST_CHECK;
    enum error (*begin)(struct store_writer *writer) MUST_CHECK;
    enum error (*add)(struct store_writer *writer, const struct store_block *block) MUST_CHECK;
    /* All rows are there: completes the still unpublished result. *ret_path: the file to read back;
     * untouched: there is none before it is published. Sets writer->bytes. */
    enum error (*finish)(struct store_writer *writer, const char **ret_path) MUST_CHECK;
    enum error (*publish)(struct store_writer *writer) MUST_CHECK;
    void (*close)(struct store_writer *writer);
};

/* The tables of all kinds. */
extern const struct store_writer_ops store_writer_postgres_ops; /* only with HAVE_LIBPQ */
extern const struct store_writer_ops store_writer_rows_ops;
extern const struct store_writer_ops store_writer_sqlite_ops;

/* First member of every implementation's struct. */
struct store_writer {
    const struct store_writer_ops *ops;
    const char *place;             /* for messages; set by the kind */
    const char *table;             /* set by the kind; NULL: it has none */
    const char *replaces;          /* set by the kind: the table that existed at the open, as in
                                    * info.table; NULL: none, or not examined */
    const char *database;          /* set by the kind: as info.database for a server; else NULL */
    const struct store_info *info; /* what will be written; borrowed */
    const uint8_t *key;            /* row files: the key of a row cache; borrowed; NULL: not one */
    const char *source;            /* row caches: the URIs of the rows' store; borrowed */
    int64_t rows;                  /* so far */
    struct content_digest digest;
    char digest_text[CONTENT_DIGEST_TEXT_BYTES]; /* set once all rows are there */
    uint64_t bytes;                              /* written, set once they are */
};

enum error store_writer_open(const struct store_writer_ops *ops, struct uri *uri, const char *table,
                             bool replace, struct store_writer **ret_writer) MUST_CHECK;
/* Discards anything not committed. NULL is legal. */
void store_writer_close(struct store_writer *writer);

/* `info` describes the rows to come; borrowed until close. */
enum error store_writer_begin(struct store_writer *writer,
                              const struct store_info *info) MUST_CHECK;
/* A store_sink for a scan with SCAN_FEATURES; `writer` is a struct store_writer. ERROR_INPUT: a
 * duplicate id, if the kind detects it. ERROR_CANCELLED: the program should stop. */
enum error store_writer_add(void *writer, const struct store_block *block) MUST_CHECK;
/* ERROR_INPUT: rows are missing, or an id is duplicate. ERROR_IO: a file reads back differently and
 * was not published. Afterwards only the two below are legal. */
enum error store_writer_commit(struct store_writer *writer) MUST_CHECK;
/* Reads what the URI now refers to; ERROR_IO: its rows are not those written. */
enum error store_writer_read_back(const struct store_writer *writer, struct uri *uri) MUST_CHECK;

#endif
