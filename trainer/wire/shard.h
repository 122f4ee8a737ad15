/* SPDX-License-Identifier: MIT */
/*
 * A shard: the part of the parameters that one parameter server holds, as pieces of the flat
 * layout, in order. It follows from the number of servers, so every process can compute it.
 *
 *   by bytes      server i of n holds parameters floor(P i / n) to floor(P (i + 1) / n)
 *   round robin   tensor t is with server t mod n, as the classic device setter places variables
 *
 * The state of a shard is its values, then its part of each optimizer slot.
 */
#ifndef TRAINER_WIRE_SHARD_H
#define TRAINER_WIRE_SHARD_H

#include <stdbool.h>
#include <stddef.h>

#include "trainer/model/model_shape.h"

#define SHARD_PIECES_LIMIT (2 * MODEL_LAYERS_LIMIT) /* below WIRE_PARTS_LIMIT */

struct shard_piece {
    size_t offset, count; /* parameters, from the first of all */
};

struct shard {
    struct shard_piece pieces[SHARD_PIECES_LIMIT];
    size_t piece_count;
    size_t parameters; /* of this shard; may be 0 */
};

/* The shard of server `index` of `servers`. */
void shard_init(struct shard *shard, const struct model_layout *layout, size_t servers,
                size_t index, bool round_robin);

/* Floats of the shard's state: its parameters, 1 + S times. */
size_t shard_state_count(const struct shard *shard, const struct model_layout *layout);

/* Copies between all parameters (or their gradient) and the shard's [shard->parameters]. */
void shard_pack(const struct shard *shard, const float *all, float *ret_part);
void shard_unpack(const struct shard *shard, const float *part, float *all);

/* Copies between a whole state [layout->state] and the shard's [shard_state_count()]. */
void shard_gather(const struct shard *shard, const struct model_layout *layout, const float *state,
                  float *ret_part);
void shard_scatter(const struct shard *shard, const struct model_layout *layout, const float *part,
                   float *state);

#endif
