/* SPDX-License-Identifier: MIT */
/*
 * Where import writes: a file or a table of rows. All or nothing: what is there when commit returns
 * is complete, was read back, and is on the disk; whatever fails before, an earlier one stays as it
 * was, also when the process dies. One thread; blocks.
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

/* What a kind of store that is written implements. */
struct store_writer_ops {
    const struct store_ops *store; /* its URIs, and how what was written is read back */
    bool is_server;                /* it has deadlines of its own, which no disk can take from it */
    bool has_table;
    /* Looks at what is there, on a server after connecting. ERROR_CONFLICT: that is not import's to
     * replace, and `replace` is false. `table`: of those that have one. */
    enum error (*open)(struct uri *uri, const char *table, bool replace,
                       struct store_writer **ret_writer) MUST_CHECK;
    enum error (*begin)(struct store_writer *writer) MUST_CHECK;
    enum error (*add)(struct store_writer *writer, const struct store_block *block) MUST_CHECK;
    /* All rows are there: ends what nobody else sees yet. *ret_path: the file to be read back;
     * untouched: there is none before it is published. Sets writer->bytes. */
    enum error (*finish)(struct store_writer *writer, const char **ret_path) MUST_CHECK;
    enum error (*publish)(struct store_writer *writer) MUST_CHECK;
    void (*close)(struct store_writer *writer);
};

/* The tables of all kinds. */
extern const struct store_writer_ops store_writer_postgres_ops; /* only where HAVE_LIBPQ */
extern const struct store_writer_ops store_writer_rows_ops;
extern const struct store_writer_ops store_writer_sqlite_ops;

/* Every implementation's struct begins with this. */
struct store_writer {
    const struct store_writer_ops *ops;
    const char *place;             /* for messages; the kind's */
    const char *table;             /* the kind's; NULL: it has none */
    const char *replaces;          /* the kind's: the table that was there when it was opened, as
                                    * info.table names it; NULL: none, or it did not look */
    const char *database;          /* the kind's: as info.database of a server's; else NULL */
    const struct store_info *info; /* what comes; borrowed */
    const uint8_t *key;            /* row files: of a row cache; borrowed; NULL: it is none */
    int64_t rows;                  /* so far */
    struct content_digest digest;
    char digest_text[CONTENT_DIGEST_TEXT_BYTES]; /* once all rows are there */
    uint64_t bytes;                              /* that were written, once they are */
};

enum error store_writer_open(const struct store_writer_ops *ops, struct uri *uri, const char *table,
                             bool replace, struct store_writer **ret_writer) MUST_CHECK;
/* Discards what was not committed. NULL is legal. */
void store_writer_close(struct store_writer *writer);

/* `info` describes what will come; borrowed until close. */
enum error store_writer_begin(struct store_writer *writer,
                              const struct store_info *info) MUST_CHECK;
/* A store_sink for a scan with SCAN_FEATURES; `writer` is a struct store_writer. ERROR_INPUT: an id
 * was there already, as far as the kind notices. ERROR_CANCELLED: the program is to stop. */
enum error store_writer_add(void *writer, const struct store_block *block) MUST_CHECK;
/* ERROR_INPUT: rows are missing, or an id was there twice. ERROR_IO: a file reads back as something
 * else; it was not published. Afterwards only the two below are legal. */
enum error store_writer_commit(struct store_writer *writer) MUST_CHECK;
/* Reads what the URI now leads to; ERROR_IO: its rows are not those that were written. */
enum error store_writer_read_back(const struct store_writer *writer, struct uri *uri) MUST_CHECK;

#endif
