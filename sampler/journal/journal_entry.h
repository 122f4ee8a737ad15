/* SPDX-License-Identifier: MIT */
/*
 * One change of one stream, as it is applied and as it is stored in the journal. Every change to a
 * stream is an entry; applying the same entries again gives the same ledger.
 *
 * Encoding: u8 type, u16 bit mask of the fields present (bit i: field i below), then the stream's
 * number and those fields, each a zigzag varint (LEB128); a text is its length and its bytes; a
 * list is its length and the difference of each number from the one before.
 */
#ifndef SAMPLER_JOURNAL_JOURNAL_ENTRY_H
#define SAMPLER_JOURNAL_JOURNAL_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"

enum entry_type {
    /* Requested changes. The fields that an entry uses are named beside it. */
    ENTRY_CREATE = 1,    /* text: the stream's definition and binding; value: position; attempt:
                            generation */
    ENTRY_DEFINE = 2,    /* text: the new definition (tail, epochs or lease changed) */
    ENTRY_DELETE = 3,    /* */
    ENTRY_WORKER = 4,    /* text: name of a new worker; worker: the worker that it replaces, which
                            is forgotten, -1: none, it gets the next number; seq: earlier holders of
                            the name used the seqs below it */
    ENTRY_DRAW = 5,      /* first, positions, units; worker, seq, asked if it has a worker */
    ENTRY_REDRAW = 6,    /* first: of a leased or waiting batch; worker, seq, asked; value: the mean
                            time that a batch is held, in ms, 0: unchanged */
    ENTRY_ACK = 7,       /* worker; list: seqs; value: as above */
    ENTRY_RELEASE = 8,   /* worker; list: seqs, or none: all its leases */
    ENTRY_UNDO_DRAW = 9, /* first, positions, units, attempt: a draw without a response */
    ENTRY_PAUSE = 10,    /* */
    ENTRY_RESUME = 11,   /* */
    ENTRY_SEEK = 12,     /* value: position */
    ENTRY_RESTORE = 13,  /* value: position; list: begin and end of each gap */
    /* State of a ledger, at the start of a compacted journal. */
    ENTRY_LEDGER = 14,    /* list: position, paused, acked, redelivered, handed, mean */
    ENTRY_GAPS = 15,      /* list: begin and end of each */
    ENTRY_USED = 16,      /* worker; list: begin and end of seqs that were used; value: batches
                             done; attempt: redelivered */
    ENTRY_ACKED = 17,     /* worker; list: begin and end of seqs that were acked */
    ENTRY_LEASE = 18,     /* first, positions, units, asked, worker, seq, attempt */
    ENTRY_DONE = 19,      /* first, positions, worker, seq, attempt: an item of the history */
    ENTRY_FORGOTTEN = 20, /* text: a free name ("": all others); value: its last generation */
    ENTRY_SKIPPED = 21,   /* list: begin and end of each skipped span */
    ENTRY_IDLE = 22,      /* list: numbers of workers without a lease, the longest idle first */
    ENTRY_FORGOTTEN_WORKERS = 23 /* list: hash and end of seqs of each; value 1: last of the older
                                    set (forgotten_workers.h) */
};
#define ENTRY_TYPE_LAST ENTRY_FORGOTTEN_WORKERS

struct entry {
    enum entry_type type;
    uint32_t stream;
    int64_t first, positions, units;
    int64_t asked;
    int64_t worker; /* -1: none */
    int64_t seq;
    int64_t attempt;
    int64_t value;
    const char *text; /* borrowed, and `list`; not NUL-terminated */
    size_t text_bytes;
    const int64_t *list;
    size_t count;
    const uint8_t *list_bytes; /* borrowed: the list as encoded by entry_encode_list(), or NULL */
    size_t list_length;        /* of list_bytes */
};

/* Encodes a long list ahead, so that entry_encode() only has to copy it. The entry borrows
 * *ret_bytes; the caller free()s it. ERROR_MEMORY. */
enum error entry_encode_list(struct entry *entry, uint8_t **ret_bytes) MUST_CHECK;
/* Upper bound of what entry_encode() writes. */
size_t entry_bound_bytes(const struct entry *entry);
/* Writes the entry; returns its length. */
size_t entry_encode(const struct entry *entry, uint8_t *out);

/* Numbers of a decoded list; reused for each entry. */
struct entry_numbers {
    int64_t *items; /* owned */
    size_t capacity;
};
void entry_numbers_release(struct entry_numbers *numbers);

/* The text is borrowed from `bytes`, the list from `numbers`. ERROR_INPUT unless the bytes are
 * exactly one entry; its values are not checked for sense. */
enum error entry_decode(const uint8_t *bytes, size_t length, struct entry_numbers *numbers,
                        struct entry *ret_entry) MUST_CHECK;

#endif
