/* SPDX-License-Identifier: MIT */
/* tombola-trainer's commands, one in each command_*.c; main.c only lists them. */
#ifndef TRAINER_COMMANDS_H
#define TRAINER_COMMANDS_H

#include <stdint.h>

#include "common/command/options.h"
#include "loader/feed/feed.h"
#include "trainer/compute/engine.h"
#include "trainer/run/trained_model.h"

extern const struct command command_train;
extern const struct command command_evaluate;
extern const struct command command_predict;
extern const struct command command_export;
extern const struct command command_tf_config;
extern const struct command command_healthcheck;

/* The option for bad rows, for each command's table; sets a text. */
#define COMMANDS_BAD_ROWS_OPTION(name_text)                                              \
    {                                                                                    \
        .name = "bad_rows", .type = OPTION_CHOICE, .target = (name_text),                \
        .choices = "fail|skip|replace",                                                  \
        .help = "rows that are missing or damaged: stop (fail), leave them out (skip), " \
                "or use zeros (replace)"                                                 \
    }

/*
 * The common part of `evaluate` and `predict`: parses their options (--store, described by
 * `store_help`; --sampler and --stream; --logdir, --checkpoint, --bad-rows, the engine's), opens
 * the model that they name, calls `use` and closes it. `more`: one more option, or NULL. Returns
 * its own error, or what `use` returned.
 */
typedef enum error commands_use(struct trained_model *trained,
                                const struct trained_model_source *source, void *context);
enum error commands_with_trained(const struct program *program, const struct command *command,
                                 const char *store_help, const struct option *more, int argc,
                                 char **argv, commands_use *use, void *context) MUST_CHECK;

extern const struct option_hint commands_trained_hints[];

/* The options that choose a checkpoint, for each command's table; they set a struct
 * trained_model_options. */
#define COMMANDS_CHECKPOINT_OPTIONS(options)                                         \
    {.name = "logdir",                                                               \
     .type = OPTION_TEXT,                                                            \
     .target = &(options)->logdir,                                                   \
     .argument = "DIR",                                                              \
     .help = "the training's folder; its newest checkpoint is used"},                \
        {.name = "checkpoint",                                                       \
         .type = OPTION_TEXT,                                                        \
         .target = &(options)->checkpoint,                                           \
         .argument = "FILE",                                                         \
         .help = "this checkpoint instead of a logdir's newest"},                    \
    {                                                                                \
        .name = "best", .type = OPTION_FLAG, .target = &(options)->best,             \
        .help = "the logdir's model with the lowest test loss instead of its newest" \
    }

/* For --help of commands that connect to a sampler. */
#define COMMANDS_ENVIRONMENT                                                                     \
    "Environment: TOMBOLA_TOKEN is sent to the sampler as a bearer token; TOMBOLA_CA is a PEM\n" \
    "file of the certificate authorities to trust for an https:// sampler.\n"

/* The options that choose an engine, for each command's table; they set a struct engine_options and
 * an int64_t for the threads. */
#define COMMANDS_THREADS_LIMIT 1024
#define COMMANDS_ENGINE_OPTIONS(engine, thread_count)                                         \
    {.name = "device",                                                                        \
     .type = OPTION_TEXT,                                                                     \
     .target = &(engine)->device,                                                             \
     .argument = "NAME",                                                                      \
     .help = "cpu, cuda, cuda:N, or auto: a GPU if there is one"},                            \
        {.name = "blas",                                                                      \
         .type = OPTION_TEXT,                                                                 \
         .target = &(engine)->blas,                                                           \
         .argument = "NAME",                                                                  \
         .help = "library for matrix products on the CPU: auto, onednn, openblas, "           \
                 "openblas:CORE or plain"},                                                   \
        {.name = "precision",                                                                 \
         .type = OPTION_CHOICE,                                                               \
         .target = &(engine)->precision,                                                      \
         .choices = "f32|tf32|bf16",                                                          \
         .help = "precision of the factors of matrix products on a GPU; sums and "            \
                 "parameters are f32"},                                                       \
    {                                                                                         \
        .name = "threads", .type = OPTION_INTEGER, .target = (thread_count), .argument = "N", \
        .help = "threads that compute a step on the CPU, at most one per processor; results " \
                "do not depend on their number; by default train uses as many as the "        \
                "model's largest layer can, and one in a cluster",                            \
        .minimum = 1, .maximum = COMMANDS_THREADS_LIMIT                                       \
    }

#endif
