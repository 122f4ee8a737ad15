/* SPDX-License-Identifier: MIT */
/*
 * The coordinator: what parameter server 0 does besides holding a shard. It owns the logdir, knows
 * what is trained, grants batches, counts them, takes cuts and ends the training. It depends on no
 * particular worker, not even the chief.
 *
 *   COORDINATOR_NEW       what is trained is not known yet: the first worker is asked (PROPOSE)
 *   COORDINATOR_GATHERING it is known; servers are missing, or have not begun the generation
 *   COORDINATOR_RUNNING   batches are granted and applied
 *   COORDINATOR_OVER      the last state is saved; all peers are notified
 *
 * A generation begins with the newest checkpoint, or the initial state, and whenever a server
 * returns without its shard. A cut (held_shard.h) becomes a checkpoint in the background; one that
 * is not complete in time, at first a second, is abandoned, and retried.
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

#define REFUSAL_BYTES 1024 /* who takes no part, and why */
#define SAY_AGAIN_MS 60000 /* while they wait, servers repeat what for */

struct coordinator_options {
    size_t servers;
    bool round_robin;
    size_t aggregate;        /* synchronous: batches per step; 0: asynchronous */
    bool is_grouped;         /* synchronous, one server: workers' GPUs exchange gradients */
    const char *sampler_url; /* asked whether a stream that ended has more; NULL: it is not */
    const char *stream;
    const char *logdir;
    const char *init_from;             /* NULL: random */
    const struct model_options *model; /* of this process's options; a proposal must agree */
    int64_t train_steps;
    bool may_stop;       /* an evaluator may end the training early: then it is not resumed */
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

/* Takes the logdir; resumes from a checkpoint there. `held`, this server's own shard, is borrowed.
 * Errors as logdir_open(), and ERROR_CONFLICT if the checkpoint holds another model. */
enum error coordinator_open(const struct coordinator_options *options, struct held_shard *held,
                            struct coordinator **ret_coordinator) MUST_CHECK;
/* Waits for a save in progress. NULL is legal. */
void coordinator_close(struct coordinator *coordinator);

enum coordinator_phase coordinator_get_phase(const struct coordinator *coordinator);

/* ---- workers ------------------------------------------------------------ */

/* A worker sent HELLO: sends it FACTS or PROPOSE, or lets it wait. */
enum error coordinator_hello(struct coordinator *coordinator, struct peer *worker) MUST_CHECK;
/* Handles its PROPOSAL. ERROR_INPUT, ERROR_CONFLICT: it is refused. */
enum error coordinator_propose(struct coordinator *coordinator, struct peer *worker) MUST_CHECK;
/* It has known of a checkpoint here. ERROR_NETWORK: there is none, and this server ends. */
enum error coordinator_find_saved(struct coordinator *coordinator,
                                  const struct peer *worker) MUST_CHECK;
/* A peer takes no part, for this reason: the log repeats it while the training waits. */
void coordinator_note_refusal(struct coordinator *coordinator, const struct peer *peer,
                              const char *why);
/* It sent STREAM. ERROR_CONFLICT: its stream ends earlier than another worker's. */
enum error coordinator_stream(struct coordinator *coordinator,
                              const struct peer *worker) MUST_CHECK;
/* Processes the header of a worker's request, apart from its gradient, which was applied. */
enum error coordinator_heed(struct coordinator *coordinator, struct peer *worker,
                            const struct wire_header *header) MUST_CHECK;
/* Grants the worker more if it has few batches left: *ret_range may be empty. `peers`: all of
 * them. */
enum error coordinator_grant(struct coordinator *coordinator, struct peer *worker,
                             const struct wire_header *header, struct peer *const peers[],
                             size_t count, struct index_range *ret_range) MUST_CHECK;
/* An evaluator asks to end the training before its last step: after the granted batches, or,
 * synchronous, after the next step. ERROR_NETWORK: not now. */
enum error coordinator_stop(struct coordinator *coordinator,
                            const struct peer *evaluator) MUST_CHECK;
/* JOIN, ID, BEAT or STATE from a worker whose GPU exchanges gradients (coordinator_group.c):
 * answers it, or lets it wait. ERROR_INPUT: it is refused. */
enum error coordinator_group(struct coordinator *coordinator, struct peer *worker) MUST_CHECK;
/* The largest payload of such a frame. */
uint64_t coordinator_group_limit(const struct coordinator *coordinator, enum wire_type type);
/* The step that the training has reached; this server may hold an earlier one. */
int64_t coordinator_made_step(const struct coordinator *coordinator);
/* A peer is lost: its batches become free. */
enum error coordinator_lost(struct coordinator *coordinator, struct peer *peer) MUST_CHECK;

/* ---- servers ------------------------------------------------------------ */

/* Server `peer->index` has connected, with a shard of `generation` (0: none). */
enum error coordinator_join(struct coordinator *coordinator, struct peer *server,
                            uint64_t generation) MUST_CHECK;
/* Handles RESTORED, FROZEN, COPIED, COPY and FREEZE (a request for a cut) from another server. */
enum error coordinator_answer(struct coordinator *coordinator, struct peer *server) MUST_CHECK;
/* The largest payload of such a frame. */
uint64_t coordinator_limit(const struct coordinator *coordinator, const struct peer *server,
                           enum wire_type type);

/* ---- time --------------------------------------------------------------- */

/* Does what is due: a generation, cuts, saves, the end, silent workers. Call it often. */
enum error coordinator_tick(struct coordinator *coordinator, struct peer *const peers[],
                            size_t count) MUST_CHECK;
/* Takes a cut as soon as possible, after which this server applies nothing: the program must
 * stop. */
void coordinator_save_last(struct coordinator *coordinator);
/* Is the current state saved, or impossible to save? */
bool coordinator_is_saved(const struct coordinator *coordinator);
/* Is a checkpoint being written? */
bool coordinator_is_saving(const struct coordinator *coordinator);
/* What a stalled training waits for, "parameter server 1"; "": nothing. */
const char *coordinator_waits_for(const struct coordinator *coordinator);
/* The newest checkpoint's step; during a save, the previous one's; -1: there is none. */
int64_t coordinator_saved_step(struct coordinator *coordinator);
/* WIRE_IS_SAVED if there is one, else 0: for workers. */
uint16_t coordinator_saved_bit(struct coordinator *coordinator);
/* How long the latest cut blocked this server's shard; -1: there was none. */
int64_t coordinator_pause_ns(const struct coordinator *coordinator);
/* Should waiting requests be examined again? True once per change. */
bool coordinator_changed(struct coordinator *coordinator);

#endif
