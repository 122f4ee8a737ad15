/* SPDX-License-Identifier: MIT */
/*
 * Frames between workers and parameter servers: a header of 64 bytes and a payload, both
 * little-endian. A connection carries one request at a time, and each has one answer.
 *
 *   worker to server                              answer
 *   HELLO     {"role","index",...} (JSON)         WELCOME (`generation` 0: has no shard), or from
 *                                                 server 0 FACTS or PROPOSE
 *   PROPOSAL  the facts of a new training         FACTS: those that hold
 *   STREAM    to server 0: its stream ends after  WELCOME
 *             `batch` epochs (INT64_MAX: never)
 *   PULL      wants values, and work of server 0  VALUES, STALE
 *   PUSH      the gradient of `batch`             VALUES, STALE
 *                                                 AGAIN: it is of too old values; here are new ones
 *   SKIP      `batch` has no rows                 VALUES, STALE
 *   REFUSED   to server 0: why it ends            none: it closes the connection
 *   OFFER     shared memory (shared_memory.h)     TAKEN, `shared` if it was; `generation` 0: offer
 *                                                 it again later
 *
 * Synchronous: servers other than 0 answer PUSH and SKIP with STORED, and a PULL names the step
 * whose values it wants.
 *
 * Workers whose GPUs exchange gradients (--exchange nccl) send server 0 instead:
 *
 *   JOIN      has the values of `step`, or none;  GROUP: its place (group.h), once there is one
 *             the stream has no batch `done`
 *   ID        rank 0's, of the group `batch`      NEWS
 *   BEAT      is in the group `batch`, has made   NEWS: the group of now, 0 if it is over; `detail`
 *             `step` (`over` 1: its last), and      has WIRE_WANTS_STATE: rank 0 is to send its
 *             `stock` more are under way            state; `over` 1: the training is
 *   STATE     of rank 0, after `step`             NEWS
 *
 *   server to server 0                            server 0 to server
 *   HELLO     {"role":"ps","index",...}           RESTORE  a state to begin with; it says RESTORED
 *                                                 FREEZE   it says FROZEN, with what it applied
 *                                                 UNION    it says COPIED once it has applied that,
 *                                                          and COPY brings the state
 *                                                 THAW     the cut is off
 *   FREEZE    it is to end: wants a cut before    STORED   there is one that began later
 *                                                 END      the training is over
 *
 *   evaluator to server 0                         answer
 *   HELLO     {"role":"evaluator",...}            WELCOME
 *   STOP      the training is to end before its   WELCOME; none before a generation is under way:
 *             last step                             the connection is closed
 *
 * REFUSED, with a text, may replace any answer: the peer did something wrong or belongs to another
 * training. STALE: the sender's generation is over; `generation` is the current one.
 */
#ifndef TRAINER_WIRE_WIRE_H
#define TRAINER_WIRE_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/error.h"
#include "common/index_set.h"

#define WIRE_MAGIC "TOMBOLA1"     /* no HTTP method begins like this */
#define WIRE_TEXT_LIMIT 65536     /* payload of HELLO, WELCOME and REFUSED */
#define WIRE_FACTS_LIMIT 67108864 /* of FACTS and PROPOSAL */

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_WELCOME,
    WIRE_FACTS,
    WIRE_PROPOSE,
    WIRE_PROPOSAL,
    WIRE_PULL,
    WIRE_PUSH,
    WIRE_SKIP,
    WIRE_VALUES,
    WIRE_STALE,
    WIRE_REFUSED,
    WIRE_RESTORE,
    WIRE_RESTORED,
    WIRE_FREEZE,
    WIRE_FROZEN,
    WIRE_UNION,
    WIRE_COPIED,
    WIRE_COPY,
    WIRE_THAW,
    WIRE_END,
    WIRE_STORED,
    WIRE_OFFER,
    WIRE_TAKEN,
    WIRE_AGAIN,
    WIRE_STOP,
    WIRE_JOIN,
    WIRE_GROUP,
    WIRE_ID,
    WIRE_BEAT,
    WIRE_NEWS,
    WIRE_STATE,
    WIRE_STREAM
};
#define WIRE_TYPES (WIRE_STREAM + 1)

#define WIRE_PARTS_LIMIT 72 /* of one frame: runs or pieces of a shard, and what precedes them */
#define WIRE_NONE (-1)      /* no batch */
#define WIRE_WANTS_STATE 1  /* a bit of `detail` */
#define WIRE_IS_SAVED 2     /* another: the logdir has a checkpoint */

/* Fields that a frame does not need are 0, a batch that it does not name is WIRE_NONE. */
struct wire_header {
    char magic[8];
    uint16_t type;
    /* REFUSED: the negated enum error. PUSH: runs (runs.h) before the floats. NEWS, and VALUES of
     * server 0: WIRE_IS_SAVED, WIRE_WANTS_STATE. */
    uint16_t detail;
    uint16_t over;       /* VALUES: 1, the training is over */
    uint16_t shared;     /* PUSH, VALUES: 1, the floats are in shared memory */
    uint64_t bytes;      /* of the payload */
    uint64_t generation; /* of the values; 0: none yet */
    int64_t batch;       /* PUSH, SKIP: K. FREEZE to THAW: the cut's number */
    int64_t done;        /* from a worker: a K that all servers have, or WIRE_NONE. PULL of
                          * server 0 with `stock` 0 and batch K: the stream has no batch K */
    int64_t step;   /* the global step of the values; from a worker, of those it has or wants */
    uint32_t stock; /* from a worker: batches it holds. Else: ranges before the floats */
    uint32_t check; /* XXH32 of the 60 bytes before it */
};
_Static_assert(sizeof(struct wire_header) == 64, "the header of a frame");

/* "PUSH" */
const char *wire_type_name(enum wire_type type);

/* Fills in magic and check. */
void wire_header_seal(struct wire_header *header);
/* Fills ret_all[1 + count] with the header and the parts after it (at most WIRE_PARTS_LIMIT) as
 * they are sent; sets header->bytes to the sum of the parts, and seals it. */
void wire_frame(struct wire_header *header, const struct iovec parts[], size_t count,
                struct iovec ret_all[]);
/* ERROR_INPUT: not a valid header, an unknown type, or a payload above `most_bytes`. */
enum error wire_header_check(const struct wire_header *header, uint64_t most_bytes) MUST_CHECK;

/* Adds `count` ranges of a payload to a set. ERROR_INPUT: they do not ascend from 0 on. */
enum error wire_ranges_read(const void *payload, size_t count, struct index_set *set) MUST_CHECK;

#endif
