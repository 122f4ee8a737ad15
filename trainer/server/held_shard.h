/* SPDX-License-Identifier: MIT */
/*
 * The shard that a parameter server holds: values, optimizer slots, and the batches they have
 * learnt from. A batch is applied once, however often its gradient arrives.
 *
 *   open -- held_shard_freeze --> frozen: nothing is applied
 *        -- held_shard_unite  --> only batches of the union are, until it has them all
 *        -- held_shard_thaw   --> open
 *
 * A generation is one history of all shards together: it ends when one of them is lost and all go
 * back to a cut. Generation 0 holds nothing.
 *
 * Synchronous training makes steps of `aggregate` batches: the first that are not applied. Their
 * gradients are stored on arrival and applied together, summed in the order of the batches and
 * divided by their number, so that the order of arrival changes no bit.
 *
 * Threads: one, the server's.
 */
#ifndef TRAINER_SERVER_HELD_SHARD_H
#define TRAINER_SERVER_HELD_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/index_set.h"
#include "trainer/compute/engine.h"
#include "trainer/model/parameters.h"
#include "trainer/wire/shard.h"

/* A gradient that waits for the others of its step. */
struct stored_gradient {
    int64_t batch;
    bool rows;       /* false: the batch has no rows, and no gradient */
    float *gradient; /* [shard.parameters], owned; NULL: not used yet */
};

struct held_shard {
    size_t aggregate;               /* synchronous: batches per step; 0: asynchronous */
    struct stored_gradient *stored; /* [aggregate], owned; the first stored_count are used */
    size_t stored_count;
    int64_t end; /* the stream ends before batch `end` */
    struct engine engine;
    struct model_layout layout;
    struct shard shard;
    struct parameters parameters; /* in host memory */
    float *expanded;              /* [shard.parameters], owned; NULL: not used yet */
    uint64_t generation;
    struct index_set applied;
    bool frozen, united;
    struct index_set needed; /* united: the union */
};

/* Opens an engine in this thread, always on the CPU: a process uses one matrix library. The caller
 * calls held_shard_close() in any case. */
enum error held_shard_open(struct held_shard *held, const struct engine_options *engine,
                           size_t aggregate) MUST_CHECK;
void held_shard_close(struct held_shard *held);

/* Sets which part it holds, and the optimizer. */
enum error held_shard_shape(struct held_shard *held, const struct model_layout *layout,
                            const struct shard *shard,
                            const struct optimizer *optimizer) MUST_CHECK;
/* Begins a generation: state[shard_state_count()], after `step` updates, having learnt from
 * `applied` (copied). The shard is open. */
enum error held_shard_begin(struct held_shard *held, uint64_t generation, const float *state,
                            int64_t step, const struct index_set *applied) MUST_CHECK;

/* May `batch` be applied now, or is it applied already? */
bool held_shard_takes(const struct held_shard *held, int64_t batch);
/* Applies gradient[shard.parameters] (NULL: the batch has no rows and changes nothing), unless it
 * is applied already. */
enum error held_shard_apply(struct held_shard *held, int64_t batch,
                            const float *gradient) MUST_CHECK;

/* The full gradient with these parts and zeros elsewhere; valid until the next call. NULL: no
 * memory. */
const float *held_shard_expand(struct held_shard *held, const struct gradient_part parts[],
                               size_t count);
/* held_shard_apply() of it, without expanding it if zeros change nothing. */
enum error held_shard_apply_parts(struct held_shard *held, int64_t batch,
                                  const struct gradient_part parts[], size_t count) MUST_CHECK;

/* Synchronous: */
/* The batch of this rank, from 0, among those not applied; -1: the stream ends before it. */
int64_t held_shard_next(const struct held_shard *held, size_t rank);
/* Is `batch` in the next step? Has its gradient arrived? */
bool held_shard_is_next(const struct held_shard *held, int64_t batch);
bool held_shard_has(const struct held_shard *held, int64_t batch);
/* Stores the gradient (NULL as above) of such a batch; once. */
enum error held_shard_store(struct held_shard *held, int64_t batch,
                            const float *gradient) MUST_CHECK;
/* Makes the next step if all its gradients have arrived and, if united, it belongs to the union.
 * *ret_made: it was made. */
enum error held_shard_make_step(struct held_shard *held, bool *ret_made) MUST_CHECK;
/* The same for a step that server 0 has made: all its gradients have arrived, however few they are
 * at the stream's end. */
enum error held_shard_follow_step(struct held_shard *held, bool *ret_made) MUST_CHECK;
/* The stream ends before batch `end`: the last step may have fewer. */
void held_shard_end(struct held_shard *held, int64_t end);
/* The stream's end is no longer known: a new generation determines it again. */
void held_shard_forget_end(struct held_shard *held);

void held_shard_freeze(struct held_shard *held);
enum error held_shard_unite(struct held_shard *held, const struct index_set *needed) MUST_CHECK;
/* United, and all of the union is applied: the state is that of the cut. */
bool held_shard_is_cut(const struct held_shard *held);
void held_shard_thaw(struct held_shard *held);

/* The current state[held_shard_state_count()]: the values, then each slot. Borrowed. */
const float *held_shard_state(const struct held_shard *held);
size_t held_shard_state_count(const struct held_shard *held);

#endif
