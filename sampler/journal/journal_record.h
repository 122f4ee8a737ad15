/* SPDX-License-Identifier: MIT */
/*
 * The bytes of DIR/journal: a header, then records of one entry each, up to the first place without
 * one. RECOVERY.md has the layout byte by byte.
 *
 * Every byte has a number, its LSN, which keeps counting across compactions: LSN = offset in the
 * file + `shift` of the header. A record's checksum is seeded with the journal's id and the
 * record's LSN, so bytes of another file or offset are never mistaken for a record, and records can
 * be copied unchanged into a new file.
 *
 * A watermark in a separate page after the header, rewritten periodically, says how far the file is
 * known to be whole on the disk, and how long it is. It is never ahead of the disk, so a file with
 * less is damaged. A torn watermark is ignored.
 *
 * Pure functions on bytes.
 */
#ifndef SAMPLER_JOURNAL_JOURNAL_RECORD_H
#define SAMPLER_JOURNAL_JOURNAL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define JOURNAL_MAGIC "TMBLJRN2"
#define JOURNAL_MAGIC_BYTES 8
#define JOURNAL_VERSION_AT 7      /* in the magic */
#define JOURNAL_HEADER_BYTES 8192 /* including the watermark's page */
#define JOURNAL_RECORD_HEAD_BYTES 16

struct journal_header {
    uint64_t id;        /* of the state folder, random */
    int64_t shift;      /* LSN - offset */
    uint64_t whole_end; /* offset; on the disk before the file got its name */
    uint64_t length;    /* of the file then; it only grows, by whole blocks */
};

#define JOURNAL_WATERMARK_OFFSET 4096 /* a separate page: the header survives a torn watermark */
#define JOURNAL_WATERMARK_BYTES 32

struct journal_watermark {
    uint64_t whole;  /* LSN; everything before it is on the disk */
    uint64_t length; /* of the file, at least */
    bool closed;     /* the orderly end */
};

void journal_header_encode(const struct journal_header *header, uint8_t out[JOURNAL_HEADER_BYTES]);
void journal_watermark_encode(const struct journal_watermark *watermark, uint64_t id,
                              uint8_t out[JOURNAL_WATERMARK_BYTES]);

/* Size of a record with an entry of this length: a multiple of 8. */
static inline size_t journal_record_bytes(size_t entry_bytes)
{
    return JOURNAL_RECORD_HEAD_BYTES + ((entry_bytes + 7) & ~(size_t)7);
}

/* Fills in the head and the padding of a record whose entry is already at record + 16. `unsynced`:
 * how many bytes before the record were not known to be on the disk. `ordered`: it is in pages that
 * survive the process being killed; only power loss can lose what precedes it and keep it. */
void journal_record_seal(uint8_t *record, size_t entry_bytes, uint64_t id, uint64_t lsn,
                         uint64_t unsynced, bool ordered);

/* The record's length according to its head; not validated. */
size_t journal_record_length(const uint8_t head[JOURNAL_RECORD_HEAD_BYTES]);
/* Is this a whole and sound record? *ret_entry_bytes: the length of its entry. */
bool journal_record_is_sound(const uint8_t *record, size_t length, uint64_t id, uint64_t lsn,
                             size_t *ret_entry_bytes);

/* Receives the entries in order; an error ends the reading. */
typedef enum error (*journal_visit)(void *context, const uint8_t *entry, size_t length);

struct journal_found {
    struct journal_header header;
    size_t end; /* offset where the records end */
    bool torn;  /* a partial record, or records, followed it */
    bool lost;  /* what followed was given up */
};

/* Reads a journal of `length` bytes, header included. Anything after a torn tail counts as never
 * written. ERROR_INPUT, naming the offset: the header is damaged; the file was cut; a part that
 * must be whole is not; later records show that damaged bytes were once valid. Damage that ends the
 * records at offset `accept_loss` (0: none) is no error. */
enum error journal_read(const uint8_t *bytes, size_t length, uint64_t accept_loss,
                        journal_visit visit, void *context,
                        struct journal_found *ret_found) MUST_CHECK;

#endif
