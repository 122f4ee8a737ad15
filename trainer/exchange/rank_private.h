/* SPDX-License-Identifier: MIT */
/* Shared by rank*.c. */
#ifndef TRAINER_EXCHANGE_RANK_PRIVATE_H
#define TRAINER_EXCHANGE_RANK_PRIVATE_H

#include "common/index_set.h"
#include "trainer/exchange/exchange_private.h"
#include "trainer/exchange/joint_step.h"
#include "trainer/exchange/rank_watch.h"

struct rank {
    struct exchange *exchange; /* borrowed */
    struct nccl *nccl;
    struct joint_step step;
    struct rank_watch watch;
    int64_t batches; /* the length of the stream */
    float *copy;     /* [state], host: the state sent to server 0; NULL: none so far */

    bool has_values; /* the model has the values of step joint_step_made() */
    int64_t group;   /* the current one; 0: none */
    size_t rank, ranks;
    int64_t last;             /* the step at which training ends */
    struct index_set applied; /* by all enqueued steps */
    int64_t place;            /* of this rank's next batch in the current step */
    struct index_set asked;   /* requested from the feed and not delivered yet */
    int failures;             /* consecutive groups that did not connect */
};

/* Has the group ended? */
static inline bool rank_is_broken(struct rank *rank)
{
    return rank->group == 0 || rank_watch_is_broken(&rank->watch);
}

/* rank_join.c: leaves the current group, if any, and blocks until this worker is a member of a new
 * one and has its values. ERROR_END: the training is over. */
enum error rank_join(struct rank *rank) MUST_CHECK;
/* Stops the joint step and aborts what hangs. Afterwards, if has_values, the model's values are
 * those of step joint_step_made(). */
enum error rank_leave(struct rank *rank) MUST_CHECK;

#endif
