/* SPDX-License-Identifier: MIT */
/* Shared by the coordinator's files. Private to them. */
#ifndef TRAINER_SERVER_COORDINATOR_PRIVATE_H
#define TRAINER_SERVER_COORDINATOR_PRIVATE_H

#include "common/buffer.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/ledger/batch_ledger.h"
#include "trainer/model/model.h"
#include "trainer/server/coordinator.h"
#include "trainer/wire/group.h"
#include "trainer/wire/shard.h"

enum cut_phase {
    CUT_NONE,
    CUT_FREEZING, /* servers report what they have applied */
    CUT_UNITING,  /* and apply what others have */
    CUT_COPYING   /* servers continue; their states are being sent here */
};

struct cut {
    enum cut_phase phase;
    int64_t number;
    size_t missing; /* servers that have not completed the phase */
    size_t copies;  /* states that have not arrived */
    struct index_set batches;
    struct room *room; /* memory for `state`, and the errand that allocates it; NULL: none */
    struct errand *maker;
    float *state; /* [layout.state], owned; NULL: none */
    int64_t step;
    int64_t begin_ns, deadline_ns;
    int doublings; /* of its time, since those before it took longer */
};

struct remote {
    struct peer *peer; /* NULL: away */
    struct shard shard;
    bool begun;                   /* it has the shard of this generation */
    bool silent;                  /* it does not answer FREEZE; already logged */
    int64_t leaves_with;          /* it ends after this cut, or a later one; 0: it does not end */
    int64_t leaves_at;            /* its shard's step when it asked */
    int64_t claim_ns, claimed_ns; /* another process claims this index: since, latest; 0: none */
};

enum group_phase { GROUP_NONE, GROUP_NAMING, GROUP_TRAINS };

/* A group of workers whose GPUs make steps together (coordinator_group.c). */
struct group {
    enum group_phase phase;
    int64_t number; /* of the latest; 0: none so far */
    size_t ranks;
    int64_t step, made; /* it started from, and its most advanced member made */
    size_t source;      /* the rank with the values of `step` */
    bool sends_state;   /* the values are this server's */
    bool is_finished;   /* rank 0 has made the last step */
    char id[GROUP_ID_BYTES];
    int64_t gather_ns; /* when to start with the members present; 0: none */
    int64_t begun_ns, moved_ns;
    int stalls;      /* consecutive groups without progress */
    bool is_unsaved; /* a state arrived during the save of an earlier one, or its save failed */
};

struct coordinator {
    struct coordinator_options options;
    struct held_shard *held; /* borrowed */
    struct logdir *logdir;
    struct saver *saver;
    enum coordinator_phase phase;
    bool changed;

    struct peer *proposer;         /* a worker that was asked what is trained */
    int64_t propose_by_ns;         /* when another one may be asked */
    struct checkpoint *checkpoint; /* holds the facts: a file's, or a worker's proposal */
    struct checkpoint_facts facts; /* a view of it, except `done`, which is owned */
    struct buffer bytes;           /* the facts as they are sent */
    struct model_layout layout;

    struct remote *remotes; /* [servers]; [0] is this one, without a peer */
    uint64_t generation;
    struct batch_ledger ledger;
    int64_t epochs; /* the most that a worker's stream had so far; 0: none has come */
    /* [layout.state], owned: a state that the logdir lacks, or has as that of an ended training. It
     * is saved with the first batch; NULL: none. */
    float *initial;
    int64_t initial_step;

    struct cut cut;
    int64_t again_ns;      /* synchronous: when to examine waiting requests again */
    int64_t next_cut_ns;   /* due by time */
    int64_t not_before_ns; /* set after an abandoned cut, or a failed save */
    int64_t pause_ns;      /* of the latest cut; -1: none so far */
    int64_t last_by_ns;    /* until when the last step's save is retried; 0: it has not failed */
    int64_t saved_step;    /* of the newest checkpoint while no save was in progress */
    bool cut_wanted;
    bool leaving; /* the program must stop: after the next cut nothing is applied */
    bool stopped; /* this generation ends early */
    int64_t last; /* its last step */
    struct group group;
    bool anew;                     /* a generation begins once all servers are connected */
    int64_t load_ns;               /* the logdir is away: when to read it again; 0: it is not */
    char lost_by[PEER_NAME_BYTES]; /* who has known of a checkpoint that is not there; "": nobody */

    char waits_for[PEER_NAME_BYTES + 40]; /* what the training waits for; "": nothing */
    int64_t wait_ns;                      /* when to log it, and then again */
    char refused[REFUSAL_BYTES];          /* the last that takes no part, and why; "": nobody */
};

static inline int64_t coordinator_step(const struct coordinator *coordinator)
{
    return coordinator->held->parameters.step;
}

/* The stream's, 0 for no end: as workers said, or as they were when the training was saved. */
static inline int64_t coordinator_epochs(const struct coordinator *coordinator)
{
    if (coordinator->epochs == 0)
        return coordinator->facts.position.stream.epochs;
    return coordinator->epochs == INT64_MAX ? 0 : coordinator->epochs;
}

/* ---- coordinator_facts.c ------------------------------------------------ */

/* Makes the facts of a checkpoint the training's, with this server's own hyperparameters. Takes it,
 * also on failure. */
enum error coordinator_set_facts(struct coordinator *coordinator,
                                 struct checkpoint *checkpoint) MUST_CHECK;
enum error coordinator_send_facts(const struct coordinator *coordinator,
                                  struct peer *peer) MUST_CHECK;
/* Sends a frame, followed by the set if there is one, to all other servers; a server lost meanwhile
 * is noticed when it is read from. */
void coordinator_tell_servers(struct coordinator *coordinator, enum wire_type type,
                              const struct index_set *set);
bool coordinator_has_all_servers(const struct coordinator *coordinator);
/* Is the last batch applied everywhere? */
bool coordinator_is_finished(const struct coordinator *coordinator);

/* ---- coordinator_waiting.c ---------------------------------------------- */

/* Logs what a stalled training waits for, after some seconds, and then each minute. Returns whether
 * it did. */
bool coordinator_say_waiting(struct coordinator *coordinator, struct peer *const peers[],
                             size_t count);
/* Had the stream ended, and does it still end there? Asks the sampler, for half a second at
 * most. */
bool coordinator_has_nothing_left(const struct coordinator *coordinator);

/* ---- coordinator_cut.c -------------------------------------------------- */

/* Cancels the allocation of memory for a cut. */
void cut_drop_room(struct cut *cut);
/* Forgets the cut in progress. */
void cut_end(struct coordinator *coordinator);
/* A server's connection is lost, and with it what it may have sent: without its copy the cut would
 * never end. */
void cut_lose_server(struct coordinator *coordinator);
enum error cut_take_frozen(struct coordinator *coordinator, const struct peer *server) MUST_CHECK;
enum error cut_take_copied(struct coordinator *coordinator) MUST_CHECK;
enum error cut_take_copy(struct coordinator *coordinator, const struct peer *server) MUST_CHECK;
/* A server must stop: a cut is due now, even soon after a save that failed. */
void cut_want(struct coordinator *coordinator);
/* Does what is due for cuts and saves. */
enum error cut_tick(struct coordinator *coordinator) MUST_CHECK;
/* Saves the initial state, once a batch has arrived: a start that fails earlier leaves nothing that
 * a later one would have to agree with. A training that goes on after its end says so: processes
 * that wait for server 0 would take it for over. */
enum error cut_save_initial(struct coordinator *coordinator) MUST_CHECK;
/* Is the current state that of the newest checkpoint? */
bool cut_is_saved(const struct coordinator *coordinator);

/* Makes a worker's state after `step`, which has learnt from all of `applied`, this server's, and
 * saves it: at once, or after a save in progress. */
enum error cut_take_state(struct coordinator *coordinator, const float *state, int64_t step,
                          const struct index_set *applied) MUST_CHECK;

/* ---- coordinator_group.c ------------------------------------------------ */

/* A generation begins without a group. */
void group_forget(struct coordinator *coordinator);
/* A peer's connection is lost. */
void group_lose(struct coordinator *coordinator, const struct peer *peer);
/* Starts and ends groups that are due. */
enum error group_tick(struct coordinator *coordinator, struct peer *const peers[],
                      size_t count) MUST_CHECK;

/* ---- coordinator_work.c ------------------------------------------------- */

/* If a worker waits, frees the batches that a silent one holds, since they may be needed; the first
 * push of a batch counts. Likewise, another worker is asked what is trained if the first is
 * silent. */
enum error work_take_from_silent(struct coordinator *coordinator, struct peer *const peers[],
                                 size_t count) MUST_CHECK;

#endif
