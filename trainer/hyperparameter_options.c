/* SPDX-License-Identifier: MIT */
#include "trainer/hyperparameter_options.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define SCHEDULES "constant|step|exponential|cosine|linear"

void hyperparameter_options_init(struct hyperparameter_options *options)
{
    *options = (struct hyperparameter_options){.optimizer = "adagrad",
                                               .schedule = "constant",
                                               .learning_rate = 0.01,
                                               .decay_rate = 0.1,
                                               .momentum = 0.9,
                                               .beta1 = 0.9,
                                               .beta2 = 0.999,
                                               .epsilon = 1e-8,
                                               .initial_accumulator = 0.1};
}

void hyperparameter_options_list(struct hyperparameter_options *options,
                                 struct option ret_table[HYPERPARAMETER_OPTIONS])
{
    const struct option table[] = {
        {.name = "learning_rate_schedule",
         .type = OPTION_CHOICE,
         .target = &options->schedule,
         .choices = SCHEDULES,
         .help = "how the rate changes over the s steps after the warm-up, with D = "
                 "--decay-steps and G = --decay-rate: step RATE G^floor(s/D) (PyTorch's "
                 "StepLR); exponential RATE G^(s/D) (TensorFlow's ExponentialDecay); "
                 "cosine END + (RATE - END) (1 + cos(pi s/D)) / 2 (CosineAnnealingLR, "
                 "CosineDecay); linear END + (RATE - END) (1 - s/D) (PolynomialDecay). "
                 "The last two stay at END after D steps"},
        {.name = "warmup_steps",
         .type = OPTION_INTEGER,
         .target = &options->warmup_steps,
         .argument = "N",
         .help = "raise the rate linearly over the first N steps: RATE/N, 2 RATE/N, ... "
                 "RATE; the schedule starts after them",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        {.name = "decay_steps",
         .type = OPTION_INTEGER,
         .target = &options->decay_steps,
         .given = &options->decay_steps_given,
         .argument = "D",
         .help = "length of the schedule (default: from the warm-up to --train-steps; "
                 "step has no default)",
         .minimum = 1,
         .maximum = (long double)INT64_MAX},
        {.name = "decay_rate",
         .type = OPTION_REAL,
         .target = &options->decay_rate,
         .given = &options->decay_rate_given,
         .argument = "G",
         .help = "schedules step and exponential: the factor applied every D steps"},
        {.name = "end_learning_rate",
         .type = OPTION_REAL,
         .target = &options->end_rate,
         .given = &options->end_rate_given,
         .argument = "END",
         .help = "schedules cosine and linear: the final rate"},
        {.name = "momentum",
         .type = OPTION_REAL,
         .target = &options->momentum,
         .given = &options->momentum_given,
         .argument = "FACTOR",
         .help = "momentum: how much of the previous update is kept"},
        {.name = "nesterov",
         .type = OPTION_FLAG,
         .target = &options->nesterov,
         .help = "momentum: use Nesterov's look-ahead gradient"},
        {.name = "beta1",
         .type = OPTION_REAL,
         .target = &options->beta1,
         .given = &options->beta1_given,
         .argument = "FACTOR",
         .help = "adam: decay rate of the running mean of the gradient"},
        {.name = "beta2",
         .type = OPTION_REAL,
         .target = &options->beta2,
         .given = &options->beta2_given,
         .argument = "FACTOR",
         .help = "adam: decay rate of the running mean of its square"},
        {.name = "epsilon",
         .type = OPTION_REAL,
         .target = &options->epsilon,
         .given = &options->epsilon_given,
         .argument = "NUMBER",
         .help = "adam: added to the denominator, so that it is never zero; before the bias "
                 "correction, as in TensorFlow (PyTorch: after it)"},
        {.name = "initial_accumulator",
         .type = OPTION_REAL,
         .target = &options->initial_accumulator,
         .given = &options->initial_accumulator_given,
         .argument = "NUMBER",
         .help = "adagrad: initial value of the sums of squared gradients"},
        {.name = "weight_decay",
         .type = OPTION_REAL,
         .target = &options->weight_decay,
         .argument = "D",
         .help = "each update first shrinks every parameter, biases too, by the "
                 "learning rate times D, with any optimizer (decoupled, as in PyTorch's "
                 "AdamW); 0: off"},
        {.name = "l2",
         .type = OPTION_REAL,
         .target = &options->l2,
         .argument = "L",
         .help = "add L times each parameter, biases too, to its gradient after "
                 "clipping (the weight_decay of PyTorch's SGD, Adagrad and Adam); 0: "
                 "off. Reported losses exclude it"},
        {.name = "clip_norm",
         .type = OPTION_REAL,
         .target = &options->clip_norm,
         .argument = "NORM",
         .help = "scale each batch's gradient down to this norm, over all parameters "
                 "together (TensorFlow's clip_by_global_norm); in a cluster each worker "
                 "clips before it pushes; 0: off"},
        {.name = "clip_value",
         .type = OPTION_REAL,
         .target = &options->clip_value,
         .argument = "VALUE",
         .help = "clamp each element of each batch's gradient to -VALUE..VALUE; 0: off"},
        {.name = "dropout",
         .type = OPTION_REAL,
         .target = &options->dropout,
         .argument = "P",
         .help = "mlp, while training: drop each hidden unit of each row with "
                 "probability P and scale the others by 1/(1-P). The choice is a "
                 "function of --seed and the batch's number: workers, devices and "
                 "restarts do not change it; 0: off"},
    };
    _Static_assert(sizeof(table) / sizeof(*table) == HYPERPARAMETER_OPTIONS, "all of them");
    memcpy(ret_table, table, sizeof(table));
}

/* Fails if an option belongs to another optimizer or schedule. */
static enum error check_owners(const struct hyperparameter_options *options,
                               enum optimizer_kind optimizer, enum schedule_kind schedule)
{
    const bool momentum = optimizer == OPTIMIZER_MOMENTUM, adam = optimizer == OPTIMIZER_ADAM;
    const struct {
        const char *name, *owner;
        bool given, fits;
    } rows[] = {
        {"momentum", "--optimizer momentum", options->momentum_given, momentum},
        {"nesterov", "--optimizer momentum", options->nesterov, momentum},
        {"beta1", "--optimizer adam", options->beta1_given, adam},
        {"beta2", "--optimizer adam", options->beta2_given, adam},
        {"epsilon", "--optimizer adam", options->epsilon_given, adam},
        {"initial-accumulator", "--optimizer adagrad", options->initial_accumulator_given,
         optimizer == OPTIMIZER_ADAGRAD},
        {"decay-steps", "a --learning-rate-schedule that decays", options->decay_steps_given,
         schedule != SCHEDULE_CONSTANT},
        {"decay-rate", "--learning-rate-schedule step or exponential", options->decay_rate_given,
         schedule_has_factor(schedule)},
        {"end-learning-rate", "--learning-rate-schedule cosine or linear", options->end_rate_given,
         schedule_has_end(schedule)},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        if (rows[i].given && !rows[i].fits)
            return error_set(ERROR_USAGE,
                             "--%s is for %s; this training has --optimizer %s and "
                             "--learning-rate-schedule %s",
                             rows[i].name, rows[i].owner, options->optimizer, options->schedule);
    }
    return OK;
}

static enum error choose_schedule(const struct hyperparameter_options *options, int64_t train_steps,
                                  struct schedule *schedule)
{
    *schedule = (struct schedule){.warmup_steps = options->warmup_steps};
    enum error error = schedule_by_name(options->schedule, &schedule->kind);
    if (error || schedule->kind == SCHEDULE_CONSTANT)
        return error;
    schedule->decay_steps = options->decay_steps;
    if (schedule->decay_steps == 0 && schedule->kind == SCHEDULE_STEP)
        return error_set(ERROR_USAGE, "--learning-rate-schedule step needs --decay-steps: after "
                                      "how many steps the rate is multiplied by --decay-rate");
    if (schedule->decay_steps == 0)
        schedule->decay_steps = train_steps - options->warmup_steps;
    if (schedule->decay_steps < 1)
        return error_set(ERROR_USAGE,
                         "--warmup-steps leaves none of --train-steps for "
                         "--learning-rate-schedule %s; say how many by --decay-steps",
                         options->schedule);
    if (schedule_has_factor(schedule->kind))
        schedule->decay_rate = (float)options->decay_rate;
    if (schedule_has_end(schedule->kind))
        schedule->end_rate = (float)options->end_rate;
    return OK;
}

/* A value that is 0 as a float would turn off what it is meant for: so are those below FLT_MIN, as
 * denormals are zeros everywhere. */
static enum error check_sizes(const struct hyperparameter_options *options)
{
    const struct {
        const char *name, *besides;
        double value;
    } reals[] = {{"learning-rate", "", options->learning_rate},
                 {"end-learning-rate", "0 or ", options->end_rate},
                 {"decay-rate", "", options->decay_rate},
                 {"epsilon", "", options->epsilon},
                 {"initial-accumulator", "", options->initial_accumulator},
                 {"weight-decay", "0 or ", options->weight_decay},
                 {"l2", "0 or ", options->l2},
                 {"clip-norm", "0 or ", options->clip_norm},
                 {"clip-value", "0 or ", options->clip_value}};
    for (size_t i = 0; i < sizeof(reals) / sizeof(*reals); i++) {
        double value = reals[i].value;
        bool fits = fabs(value) >= (double)FLT_MIN && !isinf((float)value);
        if (value != 0 && isfinite(value) && !fits)
            return error_set(ERROR_USAGE,
                             "--%s is %g; it must be %sfrom 1.2e-38 to 3e+38: it is computed with "
                             "as a 32-bit float",
                             reals[i].name, value, reals[i].besides);
    }
    return OK;
}

enum error hyperparameter_options_choose(const struct hyperparameter_options *options,
                                         int64_t train_steps, struct model_options *model)
{
    struct optimizer *optimizer = &model->optimizer;
    enum error error = check_sizes(options);
    if (!error)
        error = optimizer_init(optimizer, options->optimizer, options->learning_rate);
    if (!error)
        error = choose_schedule(options, train_steps, &optimizer->schedule);
    if (!error)
        error = check_owners(options, optimizer->kind, optimizer->schedule.kind);
    if (!error && options->clip_norm > 0 && options->clip_value > 0)
        error = error_set(ERROR_USAGE, "--clip-norm and --clip-value clip the same gradient; give "
                                       "one of them");
    if (error)
        return error;
    optimizer->momentum = (float)options->momentum;
    optimizer->nesterov = options->nesterov;
    optimizer->beta1 = (float)options->beta1;
    optimizer->beta2 = (float)options->beta2;
    optimizer->epsilon = (float)options->epsilon;
    optimizer->initial_accumulator = (float)options->initial_accumulator;
    optimizer->weight_decay = (float)options->weight_decay;
    optimizer->l2 = (float)options->l2;
    model->clip = (struct gradient_clip){(float)options->clip_norm, (float)options->clip_value};
    model->dropout = (float)options->dropout;
    return model_options_check(model);
}
