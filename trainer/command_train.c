/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "common/log.h"
#include "trainer/commands.h"
#include "trainer/run/tf_config.h"
#include "trainer/run/training.h"

/* What the table fills besides a struct training_options. */
struct arguments {
    const char *model, *hidden_units, *loss, *optimizer, *bad_rows;
    double learning_rate, feature_scale, patience_seconds;
    int64_t seed, threads;
    bool hidden_units_given;
};

static enum error run(const struct program *program, int argc, char **argv);

#define ONE_PROCESS "this version trains in one process; leave it out"

static const struct option_hint hints[] = {
    {"epochs", "where the stream ends the sampler says (serve --epochs N); --train-steps N ends "
               "sooner"},
    {"num_epochs", "where the stream ends the sampler says (serve --epochs N); --train-steps N "
                   "ends sooner"},
    {"lr", "it is called --learning-rate here"},
    {"max_steps", "it is called --train-steps here"},
    {"steps", "it is called --train-steps here"},
    {"data_dir",
     "rows come from --store URI (csv:PATH, sqlite:PATH, postgresql://...) in the order "
     "of --sampler URL"},
    {"model_dir", "it is called --logdir here"},
    {"train_dir", "it is called --logdir here"},
    {"log_dir", "it is called --logdir here"},
    {"output_dir", "it is called --logdir here"},
    {"checkpoint_dir", "it is called --logdir here"},
    {"save_model_secs", "it is called --save-secs here"},
    {"save_checkpoint_secs", "it is called --save-secs here"},
    {"save_interval_secs", "it is called --save-secs here"},
    {"validation_size", "the sampler splits: serve --splits 0.8,0.1,0.1, a stream of the split "
                        "train for --stream, and one of validation for evaluate --stream"},
    {"validation_split", "the sampler splits: serve --splits 0.8,0.1,0.1, a stream of the split "
                         "train for --stream, and one of validation for evaluate --stream"},
    {"hidden1", "layers go together: --hidden-units 128,32"},
    {"hidden2", "layers go together: --hidden-units 128,32"},
    {"num_gpus", "it is --device cuda or cuda:N here, one GPU a process"},
    {"resume", "training goes on from --logdir by itself"},
    {"shuffle", "the sampler shuffles (serve --design NAME --seed N)"},
    {"ps_hosts", ONE_PROCESS},
    {"worker_hosts", ONE_PROCESS},
    {"job_name", ONE_PROCESS},
    {"task_index", ONE_PROCESS},
    {"sync_replicas", ONE_PROCESS},
    {"issync", ONE_PROCESS},
    {"how_many_training_steps", "it is called --train-steps here"},
    {"train_batch_size", "it is called --batch-size here"},
    {"save_checkpoints_steps", "checkpoints are saved by time: --save-secs SECONDS"},
    {"summaries_dir", "what is printed goes to standard output; there are no event files yet"},
    {"label", "it is part of the store's URI: --store 'csv:train.csv?label=NAME'"},
    {"num_workers", "the feed's threads need no number; --threads N is of matrix products"},
    {NULL, NULL},
};

const struct command command_train = {
    .name = "train",
    .hints = hints,
    .summary = "train a model until --train-steps; go on from the logdir's checkpoint",
    .details =
        "  tombola-trainer train --sampler http://127.0.0.1:8080 --store sqlite:train.db "
        "--logdir run\n"
        "Step by step output goes to standard output, progress to standard error. SIGTERM saves a\n"
        "checkpoint and ends with exit status 143; the same command goes on from there.\n"
        "The checkpoint remembers the features' names: a store's columns are found by them, in "
        "any\n"
        "order. A start that fails before the first batch leaves no "
        "checkpoint.\n" COMMANDS_ENVIRONMENT,
    .run = run,
};

static enum error choose_model(const struct arguments *arguments, struct training_options *options)
{
    struct model_options *model = &options->model;
    enum error error = model_kind_by_name(arguments->model, &model->shape.kind);
    if (error)
        return error;
    if (model->shape.kind == MODEL_MLP)
        error = model_parse_hidden(arguments->hidden_units ? arguments->hidden_units : "100",
                                   &model->shape);
    else if (arguments->hidden_units_given)
        log_warning("--hidden-units has no effect: --model %s has no hidden layers",
                    arguments->model);
    if (!error)
        error = model_choose_loss(model->shape.kind, arguments->loss, &model->loss);
    if (!error)
        error = optimizer_init(&model->optimizer, arguments->optimizer, arguments->learning_rate);
    return error;
}

static enum error choose(const struct arguments *arguments, struct training_options *options)
{
    enum error error = choose_model(arguments, options);
    options->seed_given = arguments->seed >= 0;
    options->model.seed = options->seed_given ? (uint64_t)arguments->seed : 0;
    options->feature_scale = (float)arguments->feature_scale;
    options->patience_ms = (int64_t)(arguments->patience_seconds * 1000);
    options->bad_rows = commands_bad_rows(arguments->bad_rows);
    options->engine.threads = (unsigned)arguments->threads;
    return error ? error : tf_config_check_local(getenv("TF_CONFIG"));
}

static enum error parse(const struct program *program, int argc, char **argv,
                        struct arguments *arguments, struct training_options *options)
{
    const struct option table[] = {
        {.name = "sampler",
         .type = OPTION_TEXT,
         .target = &options->sampler_url,
         .argument = "URL",
         .help = "the sampler that hands out the batches, http://HOST:PORT",
         .required = true},
        {.name = "stream",
         .type = OPTION_TEXT,
         .target = &options->stream,
         .argument = "NAME",
         .help = "the sampler's stream to train on"},
        {.name = "store",
         .type = OPTION_TEXT,
         .target = &options->store_uri,
         .argument = "URI",
         .help = "where the rows are fetched by id",
         .required = true},
        {.name = "logdir",
         .type = OPTION_TEXT,
         .target = &options->logdir,
         .argument = "DIR",
         .help = "the folder for checkpoints; training goes on from the newest",
         .required = true},
        {.name = "init_from",
         .type = OPTION_TEXT,
         .target = &options->init_from,
         .argument = "FILE",
         .help = "begin with the parameters of this checkpoint, or of any safetensors file with "
                 "tensors of their names and shapes"},
        {.name = "model",
         .type = OPTION_CHOICE,
         .target = &arguments->model,
         .choices = "linear|softmax|mlp",
         .help = "regression, or classifier without or with hidden layers"},
        {.name = "hidden_units",
         .type = OPTION_TEXT,
         .target = &arguments->hidden_units,
         .argument = "N[,N]",
         .help = "units of each hidden layer of an mlp (default 100); other models have none",
         .given = &arguments->hidden_units_given},
        {.name = "loss",
         .type = OPTION_CHOICE,
         .target = &arguments->loss,
         .choices = "mean|sum",
         .help = "over the rows of a batch (default: mlp sum, others mean)"},
        {.name = "optimizer",
         .type = OPTION_CHOICE,
         .target = &arguments->optimizer,
         .choices = "sgd|momentum|adagrad|adam",
         .help = "how parameters follow gradients"},
        {.name = "learning_rate",
         .type = OPTION_REAL,
         .target = &arguments->learning_rate,
         .argument = "RATE",
         .help = "the factor of each update"},
        {.name = "batch_size",
         .type = OPTION_INTEGER,
         .target = &options->batch_rows,
         .argument = "ROWS",
         .help = "rows of one step",
         .minimum = 1,
         .maximum = 1000000},
        {.name = "train_steps",
         .type = OPTION_INTEGER,
         .target = &options->train_steps,
         .argument = "N",
         .help = "the global step to end at, counted over all runs in the logdir",
         .minimum = 1,
         .maximum = (long double)INT64_MAX},
        {.name = "seed",
         .type = OPTION_INTEGER,
         .target = &arguments->seed,
         .argument = "N",
         .help = "of the initial parameters; drawn and logged when not given",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        {.name = "test_store",
         .type = OPTION_TEXT,
         .target = &options->test_store_uri,
         .argument = "URI",
         .help = "rows to test on while training; held in memory"},
        {.name = "test_every",
         .type = OPTION_INTEGER,
         .target = &options->test_every,
         .argument = "STEPS",
         .help = "steps between two tests; 0: only at the end",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        {.name = "save_secs",
         .type = OPTION_REAL,
         .target = &options->save_seconds,
         .argument = "SECONDS",
         .help = "time between two checkpoints; 0: only at start and end",
         .minimum = 0,
         .maximum = 1e9},
        {.name = "print_every",
         .type = OPTION_INTEGER,
         .target = &options->print_every,
         .argument = "STEPS",
         .help = "steps between two lines on standard output; 0: none",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        {.name = "patience",
         .type = OPTION_REAL,
         .target = &arguments->patience_seconds,
         .argument = "SECONDS",
         .help = "give up if the sampler does not answer for this long, or a trainer of another "
                 "machine has the logdir",
         .minimum = 0,
         .maximum = 1e9},
        {.name = "normalize",
         .type = OPTION_FLAG,
         .target = &options->normalize,
         .help = "take features, and the target of a regression, less their mean and divided by "
                 "their standard deviation; the checkpoint keeps both"},
        {.name = "feature_scale",
         .type = OPTION_REAL,
         .target = &arguments->feature_scale,
         .argument = "FACTOR",
         .help = "features are multiplied with it (default: 1/255 where the store holds nothing "
                 "but integers from 0 to 255, else 1; a table of small integers wants 1)",
         .minimum = 1e-30,
         .maximum = 1e30},
        {.name = "cache_bytes",
         .type = OPTION_INTEGER,
         .target = &options->cache_bytes,
         .argument = "BYTES",
         .help = "all rows are read into memory at the start if they take no more; 0: never",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        COMMANDS_BAD_ROWS_OPTION(&arguments->bad_rows),
        COMMANDS_ENGINE_OPTIONS(&options->engine, &arguments->threads),
    };
    return options_parse(program, &command_train, table, sizeof(table) / sizeof(table[0]), argc,
                         argv, NULL);
}

static enum error run(const struct program *program, int argc, char **argv)
{
    struct arguments arguments = {.model = "mlp",
                                  .optimizer = "adagrad",
                                  .bad_rows = "fail",
                                  .learning_rate = 0.01,
                                  .patience_seconds = 60,
                                  .seed = -1,
                                  .threads = 1};
    struct training_options options = {.engine = {.device = "auto", .blas = "auto"},
                                       .stream = "default",
                                       .train_steps = 10000,
                                       .batch_rows = 100,
                                       .test_every = 100,
                                       .save_seconds = 600,
                                       .print_every = 1,
                                       .cache_bytes = 256 << 20};
    enum error error = parse(program, argc, argv, &arguments, &options);
    if (!error)
        error = choose(&arguments, &options);
    return error ? error : training_run(&options);
}
