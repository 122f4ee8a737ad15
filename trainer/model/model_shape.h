/* SPDX-License-Identifier: MIT */
/*
 * The shape of a model: its kind, its layers, and the place of each named tensor in the flat state;
 * and the options that define the model completely. A checkpoint and a parameter server must agree
 * on these; nothing here touches a device.
 *
 * The state is P parameters, layer by layer, weights before bias, then the optimizer's slots, P
 * floats each in the same order. Names: hid_w hid_b sm_w sm_b with one hidden layer, hid1_w hid1_b
 * hid2_w ... with several, w b for linear; a slot is `<parameter>/<slot>`, hid_w/Adagrad.
 *
 * Dimensions: B rows per batch, F features, H hidden units, L classes, P parameters, S slots.
 */
#ifndef TRAINER_MODEL_MODEL_SHAPE_H
#define TRAINER_MODEL_MODEL_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/compute/gradient_clip.h"
#include "trainer/compute/loss.h"
#include "trainer/compute/optimizer.h"

enum model_kind { MODEL_LINEAR, MODEL_SOFTMAX, MODEL_MLP };

#define MODEL_HIDDEN_LIMIT 16
#define MODEL_LAYERS_LIMIT (MODEL_HIDDEN_LIMIT + 1)
#define MODEL_TENSORS_LIMIT (2 * MODEL_LAYERS_LIMIT * (1 + OPTIMIZER_SLOTS_LIMIT))
#define MODEL_WIDTH_LIMIT 1048576         /* units of one layer, features, classes */
#define MODEL_PARAMETERS_LIMIT 2147483647 /* limit of 32-bit indexes in BLAS libraries */
#define MODEL_ROWS_LIMIT 1048576          /* rows of one batch */
#define MODEL_NAME_BYTES 64

struct model_shape {
    enum model_kind kind;
    size_t features;                   /* F, at least 1 */
    size_t outputs;                    /* L, at least 2; 1 for linear */
    size_t hidden[MODEL_HIDDEN_LIMIT]; /* H of each hidden layer; mlp only */
    size_t hidden_count;               /* at least 1 for mlp, 0 for the others */
};

struct model_options {
    struct model_shape shape;
    enum loss loss;
    struct optimizer optimizer;
    struct gradient_clip clip;
    float dropout;     /* mlp: probability of dropping a hidden unit; below 1 */
    uint64_t seed;     /* of the initial parameters, and of dropout */
    size_t batch_rows; /* B: most rows per call, 1 to MODEL_ROWS_LIMIT */
    /* linear: internally, targets are (y - target_mean) / target_deviation; losses and predictions
     * are still for y. A deviation of 0: unchanged. */
    float target_mean, target_deviation;
};

/* One dense layer; offsets count floats from the beginning of the state. */
struct model_layer {
    size_t inputs, outputs;
    size_t weights_offset; /* [inputs, outputs] */
    size_t bias_offset;    /* [outputs] */
};

/* A named part of the state. */
struct model_tensor {
    char name[MODEL_NAME_BYTES];
    size_t dimensions; /* 1 or 2 */
    size_t shape[2];   /* weights [inputs, outputs], bias [outputs] */
    size_t offset;     /* floats from the beginning of the state */
    size_t count;      /* floats */
};

struct model_layout {
    struct model_layer layers[MODEL_LAYERS_LIMIT];
    size_t layer_count;
    struct model_tensor tensors[MODEL_TENSORS_LIMIT]; /* cover the state without gaps, in order */
    size_t tensor_count;
    size_t parameters; /* P */
    size_t state;      /* P * (1 + S) */
};

/* "linear", "softmax", "mlp" <-> kind; ERROR_USAGE naming the existing ones. */
enum error model_kind_by_name(const char *name, enum model_kind *ret_kind) MUST_CHECK;
const char *model_kind_name(enum model_kind kind);

/* Parses "100" or "100,50" into shape->hidden and hidden_count; ERROR_USAGE naming what is
 * wrong. */
enum error model_parse_hidden(const char *text, struct model_shape *shape) MUST_CHECK;

/* The loss that `text` ("mean", "sum", or NULL for the default) means for this kind: mlp and
 * softmax: sum is LOSS_CLIPPED_SUM, mean LOSS_MEAN; linear: LOSS_SQUARED_*. Defaults: mlp sum,
 * softmax and linear mean. */
enum error model_choose_loss(enum model_kind kind, const char *text,
                             enum loss *ret_loss) MUST_CHECK;

/* ERROR_USAGE if the shape contradicts itself or exceeds a limit, naming the part. */
enum error model_shape_check(const struct model_shape *shape) MUST_CHECK;

/* ERROR_USAGE if a hyperparameter is out of its range, or does not apply to this kind of model,
 * naming it. */
enum error model_options_check(const struct model_options *options) MUST_CHECK;

/* The layout of the state for this shape and optimizer; checks the shape. */
enum error model_layout_init(struct model_layout *layout, const struct model_shape *shape,
                             const struct optimizer *optimizer) MUST_CHECK;

#endif
