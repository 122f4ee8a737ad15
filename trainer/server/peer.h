/* SPDX-License-Identifier: MIT */
/*
 * A peer: one connection of a parameter server, to a worker or to another server. It reads whole
 * frames and sends them without ever waiting: what the socket does not take at once is copied and
 * goes out when it does.
 *
 * Threads: that of the server's loop.
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
    PEER_NEW,    /* said nothing yet */
    PEER_WORKER, /* asks for values */
    PEER_SERVER, /* server 0 and another one, at both ends */
    PEER_EVALUATOR
};

struct peer {
    int descriptor; /* -1: somebody else took it */
    enum peer_kind kind;
    int64_t index;              /* of its task */
    char name[PEER_NAME_BYTES]; /* "worker 3 (10.0.0.7:4711)" */

    /* The frame that is read, or was: whole once `whole`, until peer_next(). */
    struct wire_header header;
    size_t header_bytes;
    char *payload; /* [capacity], owned */
    size_t payload_bytes, capacity;
    bool whole;

    /* What the socket did not take yet. */
    char *unsent; /* [unsent_capacity], owned */
    size_t unsent_begin, unsent_end, unsent_capacity;

    struct shared_memory shared; /* of a worker on this machine */

    uint32_t watched; /* events that its server's epoll reports; 0: it does not know it */
    bool waits;       /* its whole frame could not be answered yet */
    bool ending;      /* to be closed when all is sent */
    bool gone;        /* it hung up; its frame, which waits, still counts */
    struct batch_holder holder;
    int64_t pushes; /* gradients of it that were taken */
    size_t rank;    /* synchronous: which batch of a step it had last, or its rank in `group` */
    int64_t group;  /* that it is, or was, a member of; 0: none */
    bool is_placed; /* it was told so */
    bool hangs;     /* in the group it has given its part of a step that is not made */
    int64_t made;   /* the latest step that it has made there */
    size_t member_order; /* among those of one index */
    int64_t asked_ns;    /* when its latest frame came */
};

/* Takes the descriptor, which does not block; `address` is who it is so far. */
enum error peer_new(int descriptor, const char *address, struct peer **ret_peer) MUST_CHECK;
/* Closes the connection. What the holder held is the caller's business. NULL is legal. */
void peer_free(struct peer *peer);

/* Reads on; `limit` says how large the payload of a header may be. OK: look at `whole`, there is no
 * more now. ERROR_NETWORK: the peer is gone; ERROR_INPUT: it sent nonsense. */
enum error peer_read(struct peer *peer,
                     uint64_t (*limit)(void *context, const struct peer *peer, enum wire_type type),
                     void *context) MUST_CHECK;
/* Adds the ranges that its whole frame begins with to a set. ERROR_INPUT: it has none such. */
enum error peer_read_set(const struct peer *peer, struct index_set *set) MUST_CHECK;
/* Ready for the next frame. */
void peer_next(struct peer *peer);

/* Seals and sends. ERROR_NETWORK: the peer is gone. */
enum error peer_send(struct peer *peer, struct wire_header *header, const struct iovec *parts,
                     size_t count) MUST_CHECK;
/* The same for a frame that begins with a set; both the set and what follows it may be NULL. */
enum error peer_send_set(struct peer *peer, struct wire_header *header, const struct index_set *set,
                         const struct iovec *rest) MUST_CHECK;
/* Sends on what is unsent. */
enum error peer_flush(struct peer *peer) MUST_CHECK;
bool peer_has_unsent(const struct peer *peer);
/* Ends the connection: its server notices, as when it is lost, and drops the peer. */
void peer_hang_up(const struct peer *peer);
/* Sends REFUSED with the message of `error` (this thread's), and ends the connection behind it. */
void peer_refuse(struct peer *peer, enum error error);

#endif
