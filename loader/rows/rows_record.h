/* SPDX-License-Identifier: MIT */
/*
 * A row's two records in a row file, each preceded by a CRC-32C.
 *
 *   key   struct rows_key_start; then, each only if the file has it: the label (double, with
 *         LABEL_INTEGER and LABEL_REAL), the id (int64), the weight (double), struct rows_key_texts
 *   row   struct rows_row, F features, zeros up to a multiple of 8 bytes; with ROWS_VARY as many
 *         features as it has, and nothing else
 *
 * A key's checksum covers its row number (int64) and the record after the checksum, a row's covers
 * its id (int64) and the record, so a misplaced record fails. In a row cache both start from the
 * first four bytes of its key instead of 0, so a record of another file fails too. Everything is
 * written and read with memcpy(): records may be unaligned.
 */
#ifndef LOADER_ROWS_ROWS_RECORD_H
#define LOADER_ROWS_ROWS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text.h"

struct rows_header;

#define ROWS_RECORD_ALIGNMENT 8

struct rows_key_start {
    uint32_t checksum;
    uint32_t code; /* of the label with LABEL_TEXT, else 0 */
};

struct rows_key_texts {
    uint64_t end;         /* of the row's texts, from the start of row 0's */
    uint32_t label_bytes; /* the label comes first, then the group */
    uint32_t checksum;    /* CRC-32C of both */
};

struct rows_row {
    uint32_t checksum;
    uint32_t zero;
    double label; /* as fetch() returns it */
};

/* A key in memory. */
struct rows_key {
    int64_t id;
    uint32_t code;
    double label, weight; /* 0 and 1 if the file has none */
    struct rows_key_texts texts;
};

/* Size of a key in such a file. */
size_t rows_key_bytes(const struct rows_header *header);
void rows_key_write(const struct rows_header *header, int64_t row, const struct rows_key *key,
                    uint8_t *out);
/* NULL: *ret_key is set; else what is wrong with it, to follow "row 7 ". */
const char *rows_key_read(const struct rows_header *header, int64_t row, const uint8_t *record,
                          struct rows_key *ret_key);

/* Size of the record of a row of `features`. */
size_t rows_row_bytes(const struct rows_header *header, size_t features);
/* `features`: [length] of the file's element, F unless ROWS_VARY. */
void rows_row_write(const struct rows_header *header, int64_t id, double label,
                    const void *features, size_t length, uint8_t *out);
/* NULL: it is intact, and its *ret_length features follow struct rows_row; else what is wrong with
 * it. `bytes`: size of the record. */
const char *rows_row_read(const struct rows_header *header, int64_t id, const uint8_t *record,
                          size_t bytes, double *ret_label, size_t *ret_length);

#endif
