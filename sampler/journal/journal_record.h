/* SPDX-License-Identifier: MIT */
/*
 * The bytes of DIR/journal: a header, then records, each with one entry, until a place where there
 * is none. RECOVERY.md has the layout byte by byte.
 *
 * Every byte has a number, its LSN, that goes on through compactions: LSN = offset in
 * the file + `shift` of the header. A record's checksum is seeded with the journal's id and the
 * record's LSN, so that bytes of another file or place are never taken for a record, and records
 * can be copied into a new file as they are.
 *
 * In a page of its own behind the header stands a watermark, written again now and then: how far
 * the file is known to be whole on the disk, and how long it is. It is never ahead of the disk, so
 * less than it says is damage. A watermark that is torn says nothing.
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
#define JOURNAL_HEADER_BYTES 8192 /* with the watermark's page */
#define JOURNAL_RECORD_HEAD_BYTES 16

struct journal_header {
    uint64_t id;        /* of the state folder, drawn at random */
    int64_t shift;      /* LSN - offset */
    uint64_t whole_end; /* offset; all up to here was on the disk before the file got its name */
    uint64_t length;    /* of the file then; it only ever grows, by whole blocks */
};

#define JOURNAL_WATERMARK_OFFSET 4096 /* a page of its own: the header outlives it */
#define JOURNAL_WATERMARK_BYTES 32

struct journal_watermark {
    uint64_t whole;  /* LSN; all up to here is on the disk */
    uint64_t length; /* of the file, at least */
    bool closed;     /* the orderly end */
};

void journal_header_encode(const struct journal_header *header, uint8_t out[JOURNAL_HEADER_BYTES]);
void journal_watermark_encode(const struct journal_watermark *watermark, uint64_t id,
                              uint8_t out[JOURNAL_WATERMARK_BYTES]);

/* A record with an entry of that length: a multiple of 8. */
static inline size_t journal_record_bytes(size_t entry_bytes)
{
    return JOURNAL_RECORD_HEAD_BYTES + ((entry_bytes + 7) & ~(size_t)7);
}

/* Fills in the head and the padding of a record whose entry stands at record + 16 already.
 * `unsynced`: how many bytes before the record were not known to be on the disk. `ordered`: it lies
 * in pages that the system keeps when the process is killed; only power loss can take what stands
 * before it and leave it. */
void journal_record_seal(uint8_t *record, size_t entry_bytes, uint64_t id, uint64_t lsn,
                         uint64_t unsynced, bool ordered);

/* How long the record with that head says that it is; not judged. */
size_t journal_record_length(const uint8_t head[JOURNAL_RECORD_HEAD_BYTES]);
/* Is there a whole and sound record? *ret_entry_bytes: the length of the entry in it. */
bool journal_record_is_sound(const uint8_t *record, size_t length, uint64_t id, uint64_t lsn,
                             size_t *ret_entry_bytes);

/* What `visit` gets: entries in order; an error ends the reading. */
typedef enum error (*journal_visit)(void *context, const uint8_t *entry, size_t length);

struct journal_found {
    struct journal_header header;
    size_t end; /* offset where the records end */
    bool torn;  /* there was a part of a record, or records, behind it */
    bool lost;  /* what stood behind it is given up */
};

/* Reads a journal of `length` bytes, header included. What is behind a torn tail counts as never
 * written. ERROR_INPUT, naming the offset: the header is damaged; the file was cut; what must be
 * whole is not; records behind the damage say that it was there before. Damage that ends the
 * records at offset `accept_loss` (0: none) is no error. */
enum error journal_read(const uint8_t *bytes, size_t length, uint64_t accept_loss,
                        journal_visit visit, void *context,
                        struct journal_found *ret_found) MUST_CHECK;

#endif
