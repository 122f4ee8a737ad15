/* SPDX-License-Identifier: MIT */
/*
 * A trained model, ready to use: a checkpoint, opened and verified, and a model without optimizer
 * slots that holds its parameters; runs the rows of a store through it in batches.
 */
#ifndef TRAINER_RUN_TRAINED_MODEL_H
#define TRAINER_RUN_TRAINED_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/feed.h"
#include "loader/store/store.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/compute/engine.h"
#include "trainer/model/model.h"

struct trained_model_options {
    const char *logdir;     /* its newest checkpoint is used; may be NULL if ... */
    const char *checkpoint; /* ... a file is named here */
    bool best;              /* the logdir's best model, not its newest */
    struct engine_options engine;
    const struct engine *borrowed; /* for opening models repeatedly; NULL: opens its own */
    enum bad_rows bad_rows;
};

struct trained_model {
    struct checkpoint *checkpoint;
    struct engine engine;
    bool borrows;        /* the engine is borrowed */
    struct model *model; /* batch_rows: engine_rows(F) */
    enum bad_rows bad_rows;
};

/* Rows of a store passing through a model. All borrowed for the duration of the call. */
struct trained_model_rows {
    size_t rows; /* at least 1, at most engine_rows(F) */
    const int64_t *ids;
    const double *labels;          /* in the store's form */
    const enum row_status *status; /* of rows that may be replaced by zeros; NULL: none are */
    const float *features;         /* [rows, F], device, scaled */
};
typedef enum error trained_model_sink(void *context, const struct trained_model_rows *rows);

/* The checkpoint that the options name, which the caller closes. ERROR_USAGE if neither logdir nor
 * checkpoint is named; ERROR_NOT_FOUND if there is no checkpoint yet. */
enum error trained_model_find(const struct trained_model_options *options,
                              struct checkpoint **ret_checkpoint) MUST_CHECK;
/* Opens it and its model; errors likewise. On failure *trained is empty. */
enum error trained_model_open(const struct trained_model_options *options,
                              struct trained_model *trained) MUST_CHECK;
/* Legal for an empty one. */
void trained_model_close(struct trained_model *trained);

/* Which rows pass through a model. */
struct trained_model_source {
    const char *store_uri;
    const char *sampler_url; /* NULL: all rows of the store */
    const char *stream;      /* else those of the stream's first epoch, in its order */
    int64_t patience_ms;     /* give up on a sampler that does not answer for this long */
};

/* Opens the source's store, reading only the columns that the model needs, if it has them by name:
 * others need not be numbers. */
enum error trained_model_open_store(const struct trained_model *trained,
                                    const struct trained_model_source *source,
                                    struct store **ret_store) MUST_CHECK;

/* Passes all rows of `store` that `source` names to `sink`, in frame order or the stream's;
 * `bad_rows` decides whether bad ones end it, are left out, or are zeros (their number is logged).
 * ERROR_INPUT or ERROR_CONFLICT if a column that the model needs is missing; ERROR_CANCELLED after
 * stop_requested(). */
enum error trained_model_run(struct trained_model *trained,
                             const struct trained_model_source *source, struct store *store,
                             trained_model_sink *sink, void *context) MUST_CHECK;

#endif
