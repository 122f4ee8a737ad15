/* SPDX-License-Identifier: MIT */
/* What the files of the coordinator share. Private to them. */
#ifndef TRAINER_SERVER_COORDINATOR_PRIVATE_H
#define TRAINER_SERVER_COORDINATOR_PRIVATE_H

#include "common/buffer.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/ledger/batch_ledger.h"
#include "trainer/model/model.h"
#include "trainer/server/coordinator.h"
#include "trainer/wire/shard.h"

enum cut_phase {
    CUT_NONE,
    CUT_FREEZING, /* servers say what they have applied */
    CUT_UNITING,  /* and apply what others have */
    CUT_COPYING   /* all go on; states are on their way here */
};

struct cut {
    enum cut_phase phase;
    int64_t number;
    size_t missing; /* servers that have not done the phase's part */
    size_t copies;  /* states that are not here yet */
    struct index_set batches;
    struct room *room; /* where `state` is made, and by whom; NULL: it is not */
    struct errand *maker;
    float *state; /* [layout.state], owned; NULL: none */
    int64_t step;
    int64_t begin_ns, deadline_ns;
};

struct remote {
    struct peer *peer; /* NULL: away */
    struct shard shard;
    bool begun;                   /* it has the shard of this generation */
    bool silent;                  /* it does not answer FREEZE; the log has said so */
    int64_t leaves_with;          /* it ends behind this cut, or a later one; 0: it does not end */
    int64_t leaves_at;            /* the step of its shard when it said so */
    int64_t claim_ns, claimed_ns; /* another one is this server, too: since, and latest; 0: none */
};

enum group_phase { GROUP_NONE, GROUP_NAMING, GROUP_TRAINS };

/* Of workers whose GPUs make steps together (coordinator_group.c). */
struct group {
    enum group_phase phase;
    int64_t number; /* of the latest; 0: there was none */
    size_t ranks;
    int64_t step, made; /* that it began with, and that the foremost member has made */
    size_t source;      /* the rank that has the values of `step` */
    bool sends_state;   /* they are this server's */
    bool is_finished;   /* rank 0 has made the last step */
    char id[128];
    int64_t gather_ns; /* when to begin with those who have come; 0: nobody has */
    int64_t begun_ns, moved_ns;
    int stalls;      /* groups in a row in which nobody got on */
    bool is_unsaved; /* a state came while an earlier one was saved */
};

struct coordinator {
    struct coordinator_options options;
    struct held_shard *held; /* borrowed */
    struct logdir *logdir;
    struct saver *saver;
    enum coordinator_phase phase;
    bool changed;

    struct peer *proposer;         /* a worker that was asked what is trained */
    int64_t propose_by_ns;         /* when another one may be */
    struct checkpoint *checkpoint; /* holds the facts: a file's, or a worker's words */
    struct checkpoint_facts facts; /* a view of it, but for `done`, which is owned */
    struct buffer bytes;           /* the facts, as they are sent */
    struct model_layout layout;

    struct remote *remotes; /* [servers]; [0] is this one, without a peer */
    uint64_t generation;
    struct batch_ledger ledger;
    float *initial; /* [layout.state], owned: to be saved with the first batch; NULL: was */

    struct cut cut;
    int64_t again_ns;      /* synchronous: when who waits is looked at again */
    int64_t next_cut_ns;   /* by time */
    int64_t not_before_ns; /* after one that was off, or a save that failed */
    int64_t pause_ns;      /* of the latest cut; -1: there was none */
    int64_t saved_step;    /* of the newest checkpoint when no save was going on */
    bool cut_wanted;
    bool leaving; /* the program is to stop: behind the next cut nothing is applied */
    bool stopped; /* this generation ends early */
    int64_t last; /* the step that it ends with */
    struct group group;
    bool anew; /* a generation is to begin once all servers are there */

    char waits_for[PEER_NAME_BYTES + 40]; /* whom the training waits for; "": nobody */
    int64_t wait_ns;                      /* when to say so */
    bool wait_said;
};

static inline int64_t coordinator_step(const struct coordinator *coordinator)
{
    return coordinator->held->parameters.step;
}

/* ---- coordinator_facts.c ------------------------------------------------ */

/* The facts of a checkpoint become what is trained, with this server's own hyperparameters. Takes
 * it, also on failure. */
enum error coordinator_set_facts(struct coordinator *coordinator,
                                 struct checkpoint *checkpoint) MUST_CHECK;
enum error coordinator_send_facts(const struct coordinator *coordinator,
                                  struct peer *peer) MUST_CHECK;
/* A frame, with the set behind it if there is one, to all other servers; one that is lost meanwhile
 * is noticed where it is read. */
void coordinator_tell_servers(struct coordinator *coordinator, enum wire_type type,
                              const struct index_set *set);
bool coordinator_has_all_servers(const struct coordinator *coordinator);
/* Was the last batch applied, everywhere? */
bool coordinator_is_finished(const struct coordinator *coordinator);

/* ---- coordinator_waiting.c ---------------------------------------------- */

/* A training that stands still says whom it waits for, after some seconds. */
void coordinator_say_waiting(struct coordinator *coordinator, struct peer *const peers[],
                             size_t count);

/* ---- coordinator_cut.c -------------------------------------------------- */

/* Memory for a cut that does not come. */
void cut_drop_room(struct cut *cut);
/* Forgets the cut that is going on. */
void cut_end(struct coordinator *coordinator);
/* A server's connection is lost: a copy that is not here will not come. Before that its time is
 * short anyway. */
void cut_lose_server(struct coordinator *coordinator);
enum error cut_take_frozen(struct coordinator *coordinator, const struct peer *server) MUST_CHECK;
enum error cut_take_copied(struct coordinator *coordinator) MUST_CHECK;
enum error cut_take_copy(struct coordinator *coordinator, const struct peer *server) MUST_CHECK;
/* What is due now of cuts and saves. */
enum error cut_tick(struct coordinator *coordinator) MUST_CHECK;
/* The state that training began with, once a batch has come: a start that fails before leaves
 * nothing behind that another one would have to agree with. */
enum error cut_save_initial(struct coordinator *coordinator) MUST_CHECK;
/* Is the state of now the newest checkpoint's? */
bool cut_is_saved(const struct coordinator *coordinator);

/* A worker's state after `step`, by which time all of `applied` was learnt from, is this server's,
 * and is saved: at once, or when the saver has done an earlier one. */
enum error cut_take_state(struct coordinator *coordinator, const float *state, int64_t step,
                          const struct index_set *applied) MUST_CHECK;

/* ---- coordinator_group.c ------------------------------------------------ */

/* A generation begins: there is no group. */
void group_forget(struct coordinator *coordinator);
/* A peer's connection is lost. */
void group_lose(struct coordinator *coordinator, const struct peer *peer);
/* Groups that begin and end. */
enum error group_tick(struct coordinator *coordinator, struct peer *const peers[],
                      size_t count) MUST_CHECK;

/* ---- coordinator_work.c ------------------------------------------------- */

/* A worker that waits may be needed for what a silent one holds: that is free again. Whoever is
 * first to push it counts. Likewise of what is trained, which one of them was asked. */
enum error work_take_from_silent(struct coordinator *coordinator, struct peer *const peers[],
                                 size_t count) MUST_CHECK;

#endif
