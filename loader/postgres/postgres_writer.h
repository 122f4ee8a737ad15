/* SPDX-License-Identifier: MIT */
/*
 * The table that `import` makes on a PostgreSQL server, within one transaction: nobody sees it
 * before commit, and whatever fails before, nothing of it is left. Rows go by COPY in binary form,
 * in bounded memory.
 *
 * The table: id bigint PRIMARY KEY, label (bigint, or text) where there are labels, weight double
 * precision and "group" text where the source named them, features bytea (F bytes, or F
 * little-endian 32-bit floats); its comment is postgres_facts.h's.
 */
#ifndef LOADER_POSTGRES_POSTGRES_WRITER_H
#define LOADER_POSTGRES_POSTGRES_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/uri.h"
#include "loader/store/store.h"

struct postgres_writer;

/* Connects to the server that the URI names; takes libpq's parameters out of its query. `table`:
 * NAME or SCHEMA.NAME. ERROR_CONFLICT when there is such a table and `replace` is false. */
enum error postgres_writer_open(struct uri *uri, const char *table, bool replace,
                                struct postgres_writer **ret_writer) MUST_CHECK;
/* Discards uncommitted rows. NULL is legal. */
void postgres_writer_close(struct postgres_writer *writer);

/* `info` describes what will come; borrowed until close. */
enum error postgres_writer_begin(struct postgres_writer *writer,
                                 const struct store_info *info) MUST_CHECK;
/* A block of a scan with SCAN_FEATURES. */
enum error postgres_writer_add(struct postgres_writer *writer,
                               const struct store_block *block) MUST_CHECK;
/* ERROR_INPUT when an id was there twice. Afterwards only close is legal. */
enum error postgres_writer_commit(struct postgres_writer *writer) MUST_CHECK;

/* Where it went, for messages: "postgresql://...". */
const char *postgres_writer_place(const struct postgres_writer *writer);
/* Valid once committed: bytes that were sent, digest of the rows. */
uint64_t postgres_writer_bytes(const struct postgres_writer *writer);
const char *postgres_writer_digest(const struct postgres_writer *writer);

#endif
