/* SPDX-License-Identifier: MIT */
/*
 * Splits CSV text into records and fields: RFC 4180 as libcsv reads it with CSV_STRICT |
 * CSV_STRICT_FINI:
 *
 *   - a record ends with LF or CR LF; LF inside quotes does not end it. A CR anywhere else outside
 *     quotes is an error
 *   - a record of nothing but spaces and tabs is blank: skipped
 *   - spaces and tabs around a field do not belong to it, unless inside its quotes
 *   - "" inside quotes is one quote; a quote inside an unquoted field, and anything but space after
 *     the closing quote, is an error
 *
 * Records without quotes, or whose fields are each either quoted or free of quotes, are split by
 * our own code; all others by libcsv (csv_split_quoted), which also describes errors. It would give
 * the same fields for every record: tests and a fuzz target compare them.
 *
 * Every record passed in ends with its LF; the caller appends one to a last line without. A
 * splitter belongs to one thread.
 */
#ifndef LOADER_CSV_CSV_SPLIT_H
#define LOADER_CSV_CSV_SPLIT_H

#include <csv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/csv/csv_count.h"
#include "loader/store/store.h"

/* Longer records are refused: a quote that is never closed would swallow the file. */
#define CSV_RECORD_LIMIT_BYTES ((size_t)64 << 20)

/* Only spaces and tabs before the line end? (A tab that is the delimiter is not blank.) */
bool csv_record_is_blank(const char *record, size_t length, char delimiter);

struct csv_splitter {
    char delimiter;
    struct text *fields; /* owned; [capacity]; valid until the next split or release */
    size_t capacity;     /* fields beyond are counted, not kept */
    size_t count;        /* fields of the record */
    struct csv_parser parser;
    bool parser_ready;
    char *write;    /* libcsv path: where to put the next unquoted field */
    bool row_ended; /* libcsv path */
};

enum error csv_splitter_init(struct csv_splitter *splitter, char delimiter,
                             size_t capacity) MUST_CHECK;
void csv_splitter_release(struct csv_splitter *splitter);
/* Keeps at least this many fields, from the next split on. */
enum error csv_splitter_reserve(struct csv_splitter *splitter, size_t capacity) MUST_CHECK;

/* Splits one record into splitter->fields; ERROR_INPUT says what is wrong, without file and line.
 * Fields point into the record, which may be overwritten with unquoted text. */
enum error csv_split(struct csv_splitter *splitter, char *record, size_t length) MUST_CHECK;
enum error csv_split_quoted(struct csv_splitter *splitter, char *record, size_t length) MUST_CHECK;

#endif
