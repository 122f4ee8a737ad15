/* SPDX-License-Identifier: MIT */
/* What the files of a rank share. Private to them. */
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
    int64_t batches; /* the stream has no batch of this number */
    float *copy;     /* [state], host: what is sent to server 0; NULL: nothing was yet */

    bool has_values; /* the model has those of joint_step_made() */
    int64_t group;   /* of now; 0: none */
    size_t rank, ranks;
    int64_t last;             /* the step that training ends with */
    struct index_set applied; /* by all steps that are enqueued */
    int64_t place;            /* in the step of now, of this rank's next batch */
    struct index_set asked;   /* of the feed, and not brought yet */
    int failures;             /* groups in a row that did not connect */
};

/* Is the group over? */
static inline bool rank_is_broken(struct rank *rank)
{
    return rank->group == 0 || rank_watch_is_broken(&rank->watch);
}

/* rank_join.c: leaves the group of now, if there is one, and waits until this worker is part of a
 * new one and has its values. ERROR_END: the training is over. */
enum error rank_join(struct rank *rank) MUST_CHECK;
/* Stops, and ends what hangs: the model's values are of joint_step_made(), if it has_values. */
enum error rank_leave(struct rank *rank) MUST_CHECK;

#endif
