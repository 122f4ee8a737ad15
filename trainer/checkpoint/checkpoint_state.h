/* SPDX-License-Identifier: MIT */
/*
 * The file `checkpoint` of a logdir: the newest checkpoint and those that are kept, oldest first,
 * as the text form of TensorFlow's CheckpointState:
 *
 *   model_checkpoint_path: "model.ckpt-200.safetensors"
 *   all_model_checkpoint_paths: "model.ckpt-100.safetensors"
 *   all_model_checkpoint_paths: "model.ckpt-200.safetensors"
 *
 * Names are relative to the folder, or absolute. Other fields of the message (timestamps) are
 * skipped. The newest is always one of those listed.
 */
#ifndef TRAINER_CHECKPOINT_CHECKPOINT_STATE_H
#define TRAINER_CHECKPOINT_CHECKPOINT_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buffer.h"
#include "common/error.h"

struct checkpoint_state {
    char **names; /* [count], owned */
    size_t count, capacity;
    size_t newest; /* index; meaningless if count is 0 */
};

#define CHECKPOINT_STATE_INIT \
    {                         \
        .names = NULL         \
    }

void checkpoint_state_release(struct checkpoint_state *state);

/* Parses the text; `what` names it in messages ("logs/checkpoint"). ERROR_INPUT naming the line.
 * *state must be initialized or released; on failure it is empty. */
enum error checkpoint_state_parse(struct checkpoint_state *state, const char *text, size_t length,
                                  const char *what) MUST_CHECK;
enum error checkpoint_state_print(const struct checkpoint_state *state,
                                  struct buffer *out) MUST_CHECK;

/* Appends `name` (copied) to the list and makes it the newest. */
enum error checkpoint_state_add(struct checkpoint_state *state, const char *name) MUST_CHECK;
/* Removes names[index], which must not be the newest. */
void checkpoint_state_remove(struct checkpoint_state *state, size_t index);
/* Is the name in the list? *ret_index may be NULL. */
bool checkpoint_state_find(const struct checkpoint_state *state, const char *name,
                           size_t *ret_index);

#endif
