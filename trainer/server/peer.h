/* SPDX-License-Identifier: MIT */
/*
 * A peer: one connection of a parameter server, to a worker or to another server. It reads and
 * sends whole frames without ever blocking: what the socket does not accept at once is copied and
 * sent later.
 *
 * Threads: the server's loop only.
 */
#ifndef TRAINER_SERVER_PEER_H
#define TRAINER_SERVER_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/error.h"
#include "trainer/ledger/batch_ledger.h"
#include "trainer/wire/shared_memory.h"
#include "trainer/wire/wire.h"

#define PEER_NAME_BYTES 96

enum peer_kind {
    PEER_NEW,    /* nothing received yet */
    PEER_WORKER, /* requests values */
    PEER_SERVER, /* between server 0 and another one, at both ends */
    PEER_EVALUATOR
};

struct peer {
    int descriptor; /* -1: handed over */
    enum peer_kind kind;
    int64_t index;              /* of its task */
    char name[PEER_NAME_BYTES]; /* "worker 3 (10.0.0.7:4711)" */

    /* The frame being read: complete if `whole`, until peer_next(). */
    struct wire_header header;
    size_t header_bytes;
    char *payload; /* [capacity], owned */
    size_t payload_bytes, capacity;
    bool whole;

    /* What the socket has not accepted yet. */
    char *unsent; /* [unsent_capacity], owned */
    size_t unsent_begin, unsent_end, unsent_capacity;

    struct shared_memory shared; /* with a worker on this machine */

    uint32_t watched; /* events registered with the server's epoll; 0: not registered */
    bool waits;       /* its frame could not be answered yet */
    bool counted;     /* its frame was, as a push, before it had to wait */
    bool ending;      /* close it once everything is sent */
    bool gone;        /* it hung up; its waiting frame still counts */
    struct batch_holder holder;
    int64_t pushes;      /* gradients accepted from it */
    size_t rank;         /* synchronous: its last batch's place in a step, or its rank in `group` */
    int64_t group;       /* of which it is, or was, a member; 0: none */
    bool is_placed;      /* it has received its place */
    bool hangs;          /* its group hangs in a step to which it has contributed */
    int64_t made;        /* its last step in the group */
    size_t member_order; /* among peers with the same index */
    int64_t asked_ns;    /* when bytes came from it or went to it, or its frame was answered */
};

/* Takes the descriptor, which is non-blocking; `address` is its name until HELLO. */
enum error peer_new(int descriptor, const char *address, struct peer **ret_peer) MUST_CHECK;
/* Closes the connection. The caller handles the holder's batches. NULL is legal. */
void peer_free(struct peer *peer);

/* Continues reading; `limit` returns the largest payload for a header. OK: see `whole`; nothing
 * more is available now. ERROR_NETWORK: the peer is gone; ERROR_INPUT: malformed data. */
enum error peer_read(struct peer *peer,
                     uint64_t (*limit)(void *context, const struct peer *peer, enum wire_type type),
                     void *context) MUST_CHECK;
/* Adds the ranges at the beginning of its frame to a set. ERROR_INPUT: they are malformed. */
enum error peer_read_set(const struct peer *peer, struct index_set *set) MUST_CHECK;
/* Prepares for the next frame: this one is answered. */
void peer_next(struct peer *peer);

/* Seals and sends. ERROR_NETWORK: the peer is gone. */
enum error peer_send(struct peer *peer, struct wire_header *header, const struct iovec *parts,
                     size_t count) MUST_CHECK;
/* The same for a frame that begins with a set; both the set and the rest may be NULL. */
enum error peer_send_set(struct peer *peer, struct wire_header *header, const struct index_set *set,
                         const struct iovec *rest) MUST_CHECK;
/* Continues sending unsent data. */
enum error peer_flush(struct peer *peer) MUST_CHECK;
bool peer_has_unsent(const struct peer *peer);
/* May its next frame be read? Not while one waits, nor, except from a server, which also sends
 * unasked, while it leaves an answer unread: so that what is unsent is bounded by one answer. */
bool peer_may_ask(const struct peer *peer);
/* Shuts the connection down: the server notices, as for a lost one, and drops the peer. */
void peer_hang_up(const struct peer *peer);
/* Sends REFUSED with the message of `error` (this thread's), then ends the connection. */
void peer_refuse(struct peer *peer, enum error error);

#endif
