/* SPDX-License-Identifier: MIT */
/*
 * GROUP: a worker's place in a group of GPUs that make steps together (--exchange nccl). The header
 * has the group (`batch`), the step from which it starts and the number of ranges after the place:
 * the applied batches. With `shared` 1 the state of that step follows them.
 */
#ifndef TRAINER_WIRE_GROUP_H
#define TRAINER_WIRE_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/index_set.h"
#include "trainer/wire/wire.h"

#define GROUP_ID_BYTES 128
#define GROUP_RANKS_LIMIT 65536

/* As sent. */
struct group_place {
    uint32_t rank, ranks; /* this worker's rank, and their number */
    uint32_t source;      /* the rank that has the state */
    uint32_t has_id;      /* 0: this worker makes the id, and sends it by ID */
    int64_t last;         /* the step at which training ends */
    char id[GROUP_ID_BYTES];
};

struct group_frame {
    struct group_place place;
    struct index_set applied; /* owned */
    const float *state;       /* [state_count], within the payload; NULL: not sent */
};

/* Parses header and payload, whose state has `state_count` floats. ERROR_INPUT: malformed. The
 * caller calls group_frame_release() in any case. */
enum error group_frame_read(const struct wire_header *header, const void *payload,
                            size_t state_count, struct group_frame *ret_frame) MUST_CHECK;
void group_frame_release(struct group_frame *frame);
/* The largest payload allowed. */
uint64_t group_frame_limit(size_t state_count);

#endif
