/* SPDX-License-Identifier: MIT */
/*
 * The facts of a checkpoint besides its tensors: the model's description, how features are scaled,
 * the classes and the sampler's position. Converts them to the metadata of a safetensors file, and
 * back.
 */
#ifndef TRAINER_CHECKPOINT_CHECKPOINT_FACTS_H
#define TRAINER_CHECKPOINT_CHECKPOINT_FACTS_H

#include "common/buffer.h"
#include "common/error.h"
#include "loader/column/feature_recipe.h"
#include "loader/feed/stream_position.h"
#include "trainer/checkpoint/hyperparameters.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/model/classes.h"
#include "trainer/model/feature_input.h"
#include "trainer/model/model.h"

#define CHECKPOINT_FORMAT "tombola checkpoint 1"
#define CHECKPOINT_FACTS (15 + HYPERPARAMETERS) /* metadata entries */
#define CHECKPOINT_MEAN "feature_mean"          /* tensors */
#define CHECKPOINT_DEVIATION "feature_deviation"

struct checkpoint_facts {
    struct model_options model;    /* batch_rows is not stored: each program has its own */
    float feature_scale;           /* features are multiplied by it, u8 and f32 alike */
    struct classes *classes;       /* NULL: a regression */
    struct feature_names names;    /* count is 0 in older checkpoints */
    struct feature_norm norm;      /* 0 features: trained without --normalize */
    struct feature_recipe *recipe; /* held; NULL: the store's features are used unchanged */
    struct stream_position position;
    struct index_set done; /* the batches of `position` from which the state has learnt */
};

/* ERROR_CONFLICT: a store's features were made by another recipe than this one of the model
 * `called` (NULL: none), as is possible for imported data. */
enum error checkpoint_check_recipe(const struct feature_recipe *recipe, const char *called,
                                   const struct store_info *info) MUST_CHECK;

/* How a store's rows are converted for the model; `called` names it in messages. All borrowed. */
struct feature_input_options checkpoint_features(const struct checkpoint_facts *facts,
                                                 const char *called);

/* The metadata as texts; `texts` owns them. */
struct checkpoint_metadata {
    struct safetensors_pair pairs[CHECKPOINT_FACTS];
    size_t count;
    struct buffer texts[CHECKPOINT_FACTS];
};

/* The caller calls checkpoint_metadata_release() in any case. */
enum error checkpoint_facts_print(const struct checkpoint_facts *facts,
                                  struct checkpoint_metadata *metadata) MUST_CHECK;
void checkpoint_metadata_release(struct checkpoint_metadata *metadata);

/* ERROR_INPUT naming the entry that is missing or wrong. The caller releases the result. */
enum error checkpoint_facts_read(const struct safetensors *file,
                                 struct checkpoint_facts *ret_facts) MUST_CHECK;
/* Frees the classes, the names and the norm. */
void checkpoint_facts_release(struct checkpoint_facts *facts);

/* Writes a shape as "100,50" to `out`; "" without hidden layers. */
#define CHECKPOINT_HIDDEN_BYTES (MODEL_HIDDEN_LIMIT * 8)
const char *checkpoint_hidden_text(const struct model_shape *shape,
                                   char out[CHECKPOINT_HIDDEN_BYTES]);

#endif
