/* SPDX-License-Identifier: MIT */
/*
 * The coordinator: what parameter server 0 does besides holding a shard. It owns the logdir, knows
 * what is trained, grants batches, counts them, takes cuts and ends the training. No worker and no
 * chief has to live for any of it.
 *
 *   COORDINATOR_NEW       nobody said yet what is trained: the first worker is asked (PROPOSE)
 *   COORDINATOR_GATHERING it is known; servers are missing, or have not begun the generation
 *   COORDINATOR_RUNNING   batches are granted and applied
 *   COORDINATOR_OVER      the last state is saved; everybody is told
 *
 * A generation begins with the newest checkpoint, or the initial state, and whenever a server
 * comes without its shard. A cut (held_shard.h) becomes a checkpoint in the background; one that is
 * not complete within a second is off, and tried again.
 *
 * Threads: one, the server's.
 */
#ifndef TRAINER_SERVER_COORDINATOR_H
#define TRAINER_SERVER_COORDINATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/logdir.h"
#include "trainer/server/held_shard.h"
#include "trainer/server/peer.h"

struct coordinator_options {
    size_t servers;
    bool round_robin;
    size_t aggregate; /* synchronous: batches a step; 0: asynchronous */
    bool is_grouped;  /* synchronous, one server: workers' GPUs exchange gradients */
    const char *logdir;
    const char *init_from;             /* NULL: at random */
    const struct model_options *model; /* of this process' options: what is proposed must agree */
    int64_t train_steps;
    bool may_stop;       /* an evaluator may end it before: what was ended so is not gone on with */
    int64_t save_ms;     /* 0: not by time */
    int64_t patience_ms; /* for the logdir's lock */
};

enum coordinator_phase {
    COORDINATOR_NEW,
    COORDINATOR_GATHERING,
    COORDINATOR_RUNNING,
    COORDINATOR_OVER
};

struct coordinator;

/* Takes the logdir; a checkpoint there is gone on from. `held`, this server's own shard, is
 * borrowed. Errors as logdir_open(), and ERROR_CONFLICT when the checkpoint holds another model. */
enum error coordinator_open(const struct coordinator_options *options, struct held_shard *held,
                            struct coordinator **ret_coordinator) MUST_CHECK;
/* Waits for a save that is going on. NULL is legal. */
void coordinator_close(struct coordinator *coordinator);

enum coordinator_phase coordinator_get_phase(const struct coordinator *coordinator);

/* ---- workers ------------------------------------------------------------ */

/* A worker said HELLO: it gets FACTS or PROPOSE, or waits. */
enum error coordinator_hello(struct coordinator *coordinator, struct peer *worker) MUST_CHECK;
/* Its PROPOSAL. ERROR_INPUT, ERROR_CONFLICT: it is refused. */
enum error coordinator_propose(struct coordinator *coordinator, struct peer *worker) MUST_CHECK;
/* What the header of a worker's request says beside its gradient, which was applied. */
enum error coordinator_heed(struct coordinator *coordinator, struct peer *worker,
                            const struct wire_header *header) MUST_CHECK;
/* Grants the worker more, if it has little: *ret_range may be empty. `peers`: all of them. */
enum error coordinator_grant(struct coordinator *coordinator, struct peer *worker,
                             const struct wire_header *header, struct peer *const peers[],
                             size_t count, struct index_range *ret_range) MUST_CHECK;
/* An evaluator wants the training to end before its last step: with what is granted, or with the
 * next step in common. ERROR_NETWORK: not now. */
enum error coordinator_stop(struct coordinator *coordinator,
                            const struct peer *evaluator) MUST_CHECK;
/* JOIN, ID, BEAT or STATE of a worker whose GPU exchanges gradients (coordinator_group.c): it is
 * answered, or waits. ERROR_INPUT: it is refused. */
enum error coordinator_group(struct coordinator *coordinator, struct peer *worker) MUST_CHECK;
/* How large the payload of such a frame may be. */
uint64_t coordinator_group_limit(const struct coordinator *coordinator, enum wire_type type);
/* The step that the training has made, of which this server may hold an earlier one. */
int64_t coordinator_made_step(const struct coordinator *coordinator);
/* A peer is lost: what it held is free again. */
enum error coordinator_lost(struct coordinator *coordinator, struct peer *peer) MUST_CHECK;

/* ---- servers ------------------------------------------------------------ */

/* Server `peer->index` is there, with a shard of `generation` (0: none). */
enum error coordinator_join(struct coordinator *coordinator, struct peer *server,
                            uint64_t generation) MUST_CHECK;
/* RESTORED, FROZEN, COPIED, COPY and FREEZE (it asks for a cut) of another server. */
enum error coordinator_answer(struct coordinator *coordinator, struct peer *server) MUST_CHECK;
/* How large the payload of such a frame may be. */
uint64_t coordinator_limit(const struct coordinator *coordinator, const struct peer *server,
                           enum wire_type type);

/* ---- time --------------------------------------------------------------- */

/* What is due now: a generation, cuts, saves, the end, workers that are silent. Often. */
enum error coordinator_tick(struct coordinator *coordinator, struct peer *const peers[],
                            size_t count) MUST_CHECK;
/* A cut as soon as may be, behind which this server applies nothing: the program is to stop. */
void coordinator_save_last(struct coordinator *coordinator);
/* Is nothing of now unsaved, or can it not be saved? */
bool coordinator_is_saved(const struct coordinator *coordinator);
/* Is a checkpoint on its way to the disk? */
bool coordinator_is_saving(const struct coordinator *coordinator);
/* Whom a training that stands still waits for, "parameter server 1"; "": nobody. */
const char *coordinator_waits_for(const struct coordinator *coordinator);
/* The newest checkpoint's, while one is being saved the one's before; -1: there is none. */
int64_t coordinator_saved_step(struct coordinator *coordinator);
/* How long the latest cut held this server's shard up; -1: there was none. */
int64_t coordinator_pause_ns(const struct coordinator *coordinator);
/* May requests that wait be looked at again? Once for each change. */
bool coordinator_changed(struct coordinator *coordinator);

#endif
