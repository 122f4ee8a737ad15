/* SPDX-License-Identifier: MIT */
/*
 * The two records that a row has in a row file, each with a CRC-32C in front.
 *
 *   key   struct rows_key_start; then, each only where the file has it: the label (double, with
 *         LABEL_INTEGER and LABEL_REAL), the id (int64), the weight (double), struct rows_key_texts
 *   row   struct rows_row, F features, zeros up to a multiple of 8 bytes; with ROWS_VARY as many
 *         features as it has, and nothing else
 *
 * A key's checksum goes over its row number (int64) and the record behind the checksum, a row's
 * over its id (int64) and the record: a record that lies in another's place does not pass. In a row
 * cache both begin with the first four bytes of its key instead of 0: a record of another file does
 * not pass either. All is
 * written and read with memcpy(): records may begin at any address.
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
    uint64_t end;         /* of the row's texts, from where those of row 0 begin */
    uint32_t label_bytes; /* the label comes first; the rest is the group */
    uint32_t checksum;    /* CRC-32C of both */
};

struct rows_row {
    uint32_t checksum;
    uint32_t zero;
    double label; /* as fetch() gives it */
};

/* A key in memory. */
struct rows_key {
    int64_t id;
    uint32_t code;
    double label, weight; /* 0 and 1 where the file has none */
    struct rows_key_texts texts;
};

/* Of a key of such a file. */
size_t rows_key_bytes(const struct rows_header *header);
void rows_key_write(const struct rows_header *header, int64_t row, const struct rows_key *key,
                    uint8_t *out);
/* NULL: *ret_key is set; else what is wrong with it, behind "row 7 ". */
const char *rows_key_read(const struct rows_header *header, int64_t row, const uint8_t *record,
                          struct rows_key *ret_key);

/* How many bytes the record of a row of `features` takes. */
size_t rows_row_bytes(const struct rows_header *header, size_t features);
/* `features`: [length] of the file's element, F unless ROWS_VARY. */
void rows_row_write(const struct rows_header *header, int64_t id, double label,
                    const void *features, size_t length, uint8_t *out);
/* NULL: it is sound, its features, *ret_length of them, lie behind struct rows_row; else what is
 * wrong with it. `bytes`: of the record. */
const char *rows_row_read(const struct rows_header *header, int64_t id, const uint8_t *record,
                          size_t bytes, double *ret_label, size_t *ret_length);

#endif
