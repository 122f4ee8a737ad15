/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "loader/cache_options.h"
#include "trainer/cluster/cluster_parse.h"
#include "trainer/commands.h"
#include "trainer/hyperparameter_options.h"
#include "trainer/run/training.h"

/* Targets of the options besides struct training_options. */
struct arguments {
    const char *model, *hidden_units, *loss, *bad_rows, *ps_strategy, *ps_transport, *cuda_graphs;
    const char *exchange, *resident;
    struct hyperparameter_options learns;
    double feature_scale, patience_seconds, save_seconds;
    int64_t seed, threads;
    int64_t aggregate; /* 0: not given */
    int64_t staleness; /* -1: not given */
    bool hidden_units_given, save_given, cache_bytes_given, sync;
    const char *status_listen; /* NULL: not given */
    char status_host[256];
    struct cluster_flags cluster;
};

#define AGGREGATE_LIMIT 65536
#define CLUSTER_SAVE_SECONDS 60 /* losing a parameter server costs at most this much work */

static enum error run(const struct program *program, int argc, char **argv);

/* Names of our options in TensorFlow's and other programs. */
#define EPOCHS \
    "where the stream ends the sampler says (serve --epochs N); --train-steps N ends sooner"
#define SCHEDULE "it is called --learning-rate-schedule here"
#define CLIP "it is called --clip-norm here"
#define STEPS "it is called --train-steps here"
#define ROWS                                                                                \
    "rows come from --store URI (csv:PATH, sqlite:PATH, postgresql://...) in the order of " \
    "--sampler URL"
#define LOGDIR "it is called --logdir here"
#define SAVE_SECS "it is called --save-secs here"
#define SPLITS                                                                         \
    "the sampler splits: serve --splits 0.8,0.1,0.1, a stream of the split train for " \
    "--stream, and one of validation for evaluate --stream"
#define DEVICE "it is --device cuda or cuda:N here, one GPU a process"

static const struct option_hint hints[] = {
    {"epochs", EPOCHS},
    {"num_epochs", EPOCHS},
    {"training_epochs", EPOCHS},
    {"lr", "it is called --learning-rate here"},
    {"lr_schedule", SCHEDULE},
    {"lr_scheduler", SCHEDULE},
    {"lr_scheduler_type", SCHEDULE},
    {"lr_policy", SCHEDULE},
    {"lr_decay", "it is called --decay-rate here, of a --learning-rate-schedule"},
    {"learning_rate_decay_factor", "it is called --decay-rate here, of a --learning-rate-schedule"},
    {"gamma", "it is called --decay-rate here, of a --learning-rate-schedule"},
    {"step_size", "it is called --decay-steps here, of a --learning-rate-schedule"},
    {"warmup", "it is called --warmup-steps here"},
    {"num_warmup_steps", "it is called --warmup-steps here"},
    {"max_grad_norm", CLIP},
    {"max_gradient_norm", CLIP},
    {"clip_grad_norm", CLIP},
    {"grad_clip", CLIP},
    {"gradient_clip_val", CLIP},
    {"dropout_rate", "it is called --dropout here: the share that is dropped"},
    {"keep_prob", "it is --dropout here, the share that is dropped: 1 - keep_prob"},
    {"wd", "it is called --weight-decay here"},
    {"l2_regularization", "it is called --l2 here"},
    {"adam_epsilon", "it is called --epsilon here"},
    {"adam_beta1", "it is called --beta1 here"},
    {"adam_beta2", "it is called --beta2 here"},
    {"initial_accumulator_value", "it is called --initial-accumulator here"},
    {"max_steps", STEPS},
    {"steps", STEPS},
    {"num_steps", STEPS},
    {"training_steps", STEPS},
    {"num_train_steps", STEPS},
    {"how_many_training_steps", STEPS},
    {"data_dir", ROWS},
    {"data", ROWS},
    {"dataset", ROWS},
    {"train_data", ROWS},
    {"train_file", ROWS},
    {"test_data", "it is called --test-store here"},
    {"test_file", "it is called --test-store here"},
    {"model_dir", LOGDIR},
    {"train_dir", LOGDIR},
    {"log_dir", LOGDIR},
    {"output_dir", LOGDIR},
    {"checkpoint_dir", LOGDIR},
    {"ckpt_dir", LOGDIR},
    {"init_checkpoint", "it is called --init-from here"},
    {"save_model_secs", SAVE_SECS},
    {"save_checkpoint_secs", SAVE_SECS},
    {"save_checkpoints_secs", SAVE_SECS},
    {"save_interval_secs", SAVE_SECS},
    {"save_checkpoint_steps", "checkpoints are saved by time: --save-secs SECONDS"},
    {"save_checkpoints_steps", "checkpoints are saved by time: --save-secs SECONDS"},
    {"display_step", "it is called --print-every here"},
    {"log_frequency", "it is called --print-every here"},
    {"log_step_count_steps", "it is called --print-every here"},
    {"eval_interval", "it is called --test-every here"},
    {"random_seed", "it is called --seed here"},
    {"validation_size", SPLITS},
    {"validation_split", SPLITS},
    {"hidden", "it is called --hidden-units here"},
    {"hidden1", "layers go together: --hidden-units 128,32"},
    {"hidden2", "layers go together: --hidden-units 128,32"},
    {"hidden_size", "it is called --hidden-units here"},
    {"num_classes", "the labels of the sampler's frame are the classes"},
    {"batch", "it is called --batch-size here"},
    {"num_gpus", DEVICE},
    {"use_gpu", DEVICE},
    {"gpu", DEVICE},
    {"resume", "training goes on from --logdir by itself"},
    {"shuffle", "the sampler shuffles (serve --design NAME --seed N)"},
    {"sync_replicas", "it is called --sync here"},
    {"issync", "it is called --sync here"},
    {"train_batch_size", "it is called --batch-size here"},
    {"summaries_dir", "event files are next to the checkpoints, in --logdir"},
    {"save_summaries_secs", "it is called --summary-secs here"},
    {"save_summary_secs", "it is called --summary-secs here"},
    {"save_summary_steps", "summaries are written by time: --summary-secs SECONDS"},
    {"early_stopping_patience", "it is called --early-stopping here"},
    {"label", "it is part of the store's URI: --store 'csv:train.csv?label=NAME'"},
    {"num_workers", "the feed chooses its own threads; --threads N is for the computation"},
    {NULL, NULL},
};

const struct command command_train = {
    .name = "train",
    .hints = hints,
    .summary = "train a model up to --train-steps, resuming from the checkpoint in --logdir",
    .details =
        "  tombola-trainer train --sampler http://127.0.0.1:8080 --store train.sqlite --logdir "
        "run\n"
        "Steps are printed on standard output, progress on standard error. SIGTERM saves a\n"
        "checkpoint and exits with status 143, a closed terminal likewise with 129; the same\n"
        "command resumes from it. The checkpoint records the names of the features, so that a\n"
        "store may have its columns in any order. A run that fails before its first batch leaves\n"
        "no checkpoint.\n" COMMANDS_ENVIRONMENT
        "In a cluster TOMBOLA_TOKEN is also the training's password, the same for all processes.\n",
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
        error = hyperparameter_options_choose(&arguments->learns, options->train_steps, model);
    return error;
}

/* The number of batches per step; 0 without --sync. */
static enum error choose_aggregate(const struct arguments *arguments, const struct cluster *cluster,
                                   size_t *ret_aggregate)
{
    if (arguments->sync && arguments->staleness >= 0)
        return error_set(ERROR_USAGE, "--staleness is for asynchronous training: with --sync "
                                      "no values are old");
    if (!arguments->sync && arguments->aggregate > 0)
        return error_set(ERROR_USAGE, "--replicas-to-aggregate is for synchronous training: give "
                                      "--sync too");
    if (arguments->sync && cluster->is_alone)
        log_warning("--sync has no effect: one process trains alone");
    if (arguments->staleness >= 0 && cluster->is_alone)
        log_warning("--staleness has no effect: one process trains alone");
    if (arguments->sync && arguments->aggregate == 0 && !cluster->workers_known)
        return error_set(ERROR_USAGE, "--sync: the list of workers is not known here; say how many "
                                      "batches a step has, by --replicas-to-aggregate N");
    if (arguments->sync && !cluster->is_alone)
        *ret_aggregate = arguments->aggregate > 0 ? (size_t)arguments->aggregate
                                                  : cluster_trainer_count(cluster);
    return OK;
}

/* GPUs that sum their gradients themselves. */
static enum error choose_exchange(const struct arguments *arguments, const struct cluster *cluster,
                                  struct training_options *options)
{
    bool trains = cluster->role == CLUSTER_CHIEF || cluster->role == CLUSTER_WORKER;
    if (strcmp(arguments->exchange, "nccl") != 0)
        return OK;
    if (cluster->is_alone) {
        log_warning("--exchange nccl has no effect: one process trains alone");
        return OK;
    }
    if (!arguments->sync)
        return error_set(ERROR_USAGE,
                         "--exchange nccl is for synchronous training: give --sync too");
    if (cluster_server_count(cluster) > 1)
        return error_set(ERROR_USAGE,
                         "--exchange nccl takes one parameter server, which counts batches and "
                         "saves, or none, not %zu: each worker has all parameters",
                         cluster_server_count(cluster));
    if (trains && strcmp(options->engine.device, "cpu") == 0)
        return error_set(ERROR_USAGE, "--exchange nccl is for GPUs, and --device is cpu");
    options->is_grouped = true;
    return OK;
}

static enum error check_early_stopping(const struct training_options *options,
                                       const struct cluster *cluster)
{
    if (options->early_stopping == 0)
        return OK;
    if (cluster->is_alone && (!options->test_store_uri || options->test_every == 0))
        return error_set(ERROR_USAGE, "--early-stopping counts tests: it needs --test-store and "
                                      "--test-every");
    if (cluster->is_chief && !cluster->is_alone)
        log_info("--early-stopping: the evaluator (--job-name evaluator) ends this training");
    return OK;
}

static enum error choose(const struct arguments *arguments, struct training_options *options)
{
    enum error error = choose_model(arguments, options);
    options->seed_given = arguments->seed >= 0;
    options->model.seed = options->seed_given ? (uint64_t)arguments->seed : 0;
    options->feature_scale = (float)arguments->feature_scale;
    options->patience_ms = (int64_t)(arguments->patience_seconds * 1000);
    options->bad_rows = bad_rows_by_name(arguments->bad_rows);
    options->engine.threads = (unsigned)arguments->threads;
    options->round_robin = strcmp(arguments->ps_strategy, "round_robin") == 0;
    options->staleness = arguments->staleness;
    options->tcp_only = strcmp(arguments->ps_transport, "tcp") == 0;
    options->keeps_resident = strcmp(arguments->resident, "auto") == 0;
    if (options->cache && options->cache[0] && !arguments->cache_bytes_given)
        options->cache_bytes = 0; /* the system caches the file in memory, for all processes */
    options->engine.no_graphs = strcmp(arguments->cuda_graphs, "off") == 0;
    return error;
}

static enum error parse(const struct program *program, int argc, char **argv,
                        struct arguments *arguments, struct training_options *options)
{
    const struct option table[] = {
        {.name = "sampler",
         .type = OPTION_TEXT,
         .target = &options->sampler_url,
         .argument = "URL",
         .help = "the sampler to draw batches from, http://HOST:PORT",
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
         .help = "where to fetch the rows by id: csv:PATH, rows:PATH, parquet:PATH, "
                 "sqlite:PATH, postgresql://...",
         .required = true},
        {.name = "logdir",
         .type = OPTION_TEXT,
         .target = &options->logdir,
         .argument = "DIR",
         .help = "folder for checkpoints and event files; training resumes from the "
                 "newest checkpoint",
         .required = true},
        {.name = "init_from",
         .type = OPTION_TEXT,
         .target = &options->init_from,
         .argument = "FILE",
         .help = "start from the parameters in this checkpoint, or in any safetensors "
                 "file whose tensors have the same names and shapes"},
        {.name = "model",
         .type = OPTION_CHOICE,
         .target = &arguments->model,
         .choices = "linear|softmax|mlp",
         .help = "regression, or a classifier without (softmax) or with (mlp) hidden "
                 "layers"},
        {.name = "hidden_units",
         .type = OPTION_TEXT,
         .target = &arguments->hidden_units,
         .argument = "N[,N]",
         .help = "mlp only: units of each hidden layer (default 100)",
         .given = &arguments->hidden_units_given},
        {.name = "loss",
         .type = OPTION_CHOICE,
         .target = &arguments->loss,
         .choices = "mean|sum",
         .help = "how the losses of a batch's rows are combined (default: sum for mlp, "
                 "else mean)"},
        {.name = "optimizer",
         .type = OPTION_CHOICE,
         .target = &arguments->learns.optimizer,
         .choices = "sgd|momentum|adagrad|adam",
         .help = "how gradients update the parameters"},
        {.name = "learning_rate",
         .type = OPTION_REAL,
         .target = &arguments->learns.learning_rate,
         .argument = "RATE",
         .help = "the learning rate, or what its schedule starts from"},
        {.name = "batch_size",
         .type = OPTION_INTEGER,
         .target = &options->batch_rows,
         .argument = "ROWS",
         .help = "rows per step",
         .minimum = 1,
         .maximum = 1000000},
        {.name = "train_steps",
         .type = OPTION_INTEGER,
         .target = &options->train_steps,
         .argument = "N",
         .help = "global step to stop at, counted over all runs in the logdir",
         .minimum = 1,
         .maximum = (long double)INT64_MAX},
        {.name = "seed",
         .type = OPTION_INTEGER,
         .target = &arguments->seed,
         .argument = "N",
         .help = "seed of the initial parameters (default: drawn at random and logged)",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        {.name = "test_store",
         .type = OPTION_TEXT,
         .target = &options->test_store_uri,
         .argument = "URI",
         .help = "rows to test on during training; they are kept in memory"},
        {.name = "test_every",
         .type = OPTION_INTEGER,
         .target = &options->test_every,
         .argument = "STEPS",
         .help = "steps between tests; 0: test only at the end",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        {.name = "early_stopping",
         .type = OPTION_INTEGER,
         .target = &options->early_stopping,
         .argument = "TESTS",
         .help = "stop after this many tests in a row (in a cluster: scored "
                 "checkpoints) without a new lowest loss; 0: train all steps",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        {.name = "save_secs",
         .type = OPTION_REAL,
         .target = &arguments->save_seconds,
         .given = &arguments->save_given,
         .argument = "SECONDS",
         .help = "seconds between checkpoints; 0: only at start and end (default in a "
                 "cluster: 60)",
         .minimum = 0,
         .maximum = 1e9},
        {.name = "summary_secs",
         .type = OPTION_REAL,
         .target = &options->summary_seconds,
         .argument = "SECONDS",
         .help = "seconds between summaries in the logdir's event files (TensorBoard) "
                 "and events.jsonl; 0: no summaries",
         .minimum = 0,
         .maximum = 1e9},
        {.name = "print_every",
         .type = OPTION_INTEGER,
         .target = &options->print_every,
         .argument = "STEPS",
         .help = "steps between lines on standard output; 0: none",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        {.name = "patience",
         .type = OPTION_REAL,
         .target = &arguments->patience_seconds,
         .argument = "SECONDS",
         .help = "give up if the sampler does not answer for this long, if a trainer on "
                 "another machine holds the logdir, or if an evaluator's test store is away",
         .minimum = 0,
         .maximum = 1e9},
        {.name = "normalize",
         .type = OPTION_FLAG,
         .target = &options->normalize,
         .help = "standardize the features, and a regression's target: subtract the "
                 "mean, divide by the standard deviation; both are saved in the "
                 "checkpoint"},
        {.name = "feature_scale",
         .type = OPTION_REAL,
         .target = &arguments->feature_scale,
         .argument = "FACTOR",
         .help = "multiply every feature by this (default: 1/255 if the store holds "
                 "only integers from 0 to 255, else 1; use 1 for a table of small "
                 "integers)",
         .minimum = 1e-30,
         .maximum = 1e30},
        CACHE_OPTIONS(&options->cache_bytes, &arguments->cache_bytes_given, &options->cache,
                      &options->cache_limit),
        {.name = "ps_hosts",
         .type = OPTION_TEXT,
         .target = &arguments->cluster.ps_hosts,
         .argument = "HOST:PORT,...",
         .help = "the cluster's parameter servers; give every process the same list"},
        {.name = "worker_hosts",
         .type = OPTION_TEXT,
         .target = &arguments->cluster.worker_hosts,
         .argument = "HOST:PORT,...",
         .help = "the cluster's workers, the chief first; give every process the same "
                 "list"},
        {.name = "sync",
         .type = OPTION_FLAG,
         .target = &arguments->sync,
         .help = "all workers of a cluster take each step together: the result is the "
                 "same however slow they are, and whoever joins, leaves or is killed"},
        {.name = "replicas_to_aggregate",
         .type = OPTION_INTEGER,
         .target = &arguments->aggregate,
         .argument = "N",
         .help = "with --sync: batches per step, whose gradients are averaged (default: "
                 "one per listed worker); workers beyond that are spares",
         .minimum = 1,
         .maximum = AGGREGATE_LIMIT},
        {.name = "exchange",
         .type = OPTION_CHOICE,
         .target = &arguments->exchange,
         .choices = "servers|nccl",
         .help = "with --sync: add the gradients up on the parameter servers, or with "
                 "NCCL from GPU to GPU, one GPU per worker and at most one ps; with "
                 "nccl the number of workers affects the last bits"},
        {.name = "staleness",
         .type = OPTION_INTEGER,
         .target = &arguments->staleness,
         .argument = "N",
         .help = "without --sync: recompute a gradient whose values are more than N "
                 "steps old (default: never); set it well above the number of workers",
         .minimum = 0,
         .maximum = INT64_MAX},
        {.name = "ps_strategy",
         .type = OPTION_CHOICE,
         .target = &arguments->ps_strategy,
         .choices = "bytes|round_robin",
         .help = "how parameters are distributed over the servers: balanced by bytes, "
                 "or whole tensors in turn"},
        {.name = "ps_transport",
         .type = OPTION_CHOICE,
         .target = &arguments->ps_transport,
         .choices = "auto|tcp",
         .help = "auto: shared memory between processes of one machine, TCP otherwise; "
                 "tcp: always TCP"},
        {.name = "status_listen",
         .type = OPTION_TEXT,
         .target = &arguments->status_listen,
         .argument = "HOST:PORT",
         .help = "address at which a worker serves /healthz, /readyz, /status and "
                 "/metrics: steps, rows, time spent waiting for data; port 0 takes a "
                 "free port and logs it (default: none; servers answer on their own "
                 "port)"},
        {.name = "token_file",
         .type = OPTION_TEXT,
         .target = &options->guard.token_file,
         .argument = "FILE",
         .help = "who may read /status and /metrics: JSON with the SHA-256 and the "
                 "scopes of each token (scope read), such as the sampler's token file; "
                 "reloaded on SIGHUP (default: anyone)"},
        {.name = "tls_cert",
         .type = OPTION_TEXT,
         .target = &options->guard.tls_cert,
         .argument = "FILE",
         .help = "certificate chain (PEM) for HTTPS on the servers' ports and "
                 "--status-listen; reloaded on SIGHUP"},
        {.name = "tls_key",
         .type = OPTION_TEXT,
         .target = &options->guard.tls_key,
         .argument = "FILE",
         .help = "its private key (PEM)"},
        {.name = "job_name",
         .type = OPTION_TEXT,
         .target = &arguments->cluster.job_name,
         .argument = "NAME",
         .help = "this process's role in the cluster: ps, worker or evaluator"},
        {.name = "task_index",
         .type = OPTION_INTEGER,
         .target = &arguments->cluster.task_index,
         .argument = "N",
         .help = "this process's place in the list of its role, from 0 (default: 0 for an "
                 "evaluator, and if the list has only one; else it must be given)",
         .minimum = 0,
         .maximum = CLUSTER_INDEX_LIMIT,
         .given = &arguments->cluster.task_index_given},
        COMMANDS_BAD_ROWS_OPTION(&arguments->bad_rows),
        COMMANDS_ENGINE_OPTIONS(&options->engine, &arguments->threads),
        {.name = "cuda_graphs",
         .type = OPTION_CHOICE,
         .target = &arguments->cuda_graphs,
         .choices = "auto|off",
         .help = "auto: launch a batch's work on the GPU as one CUDA graph where "
                 "possible; off: launch each operation separately, with the same results"},
        {.name = "resident",
         .type = OPTION_CHOICE,
         .target = &arguments->resident,
         .choices = "auto|off",
         .help = "auto: keep all rows on the GPU, copying each once, if they take at "
                 "most half of its free memory; off: copy each batch, with the same "
                 "results"},
    };
    enum { OWN = sizeof(table) / sizeof(table[0]), ALL = OWN + HYPERPARAMETER_OPTIONS };
    struct option all[ALL];
    memcpy(all, table, sizeof(table));
    hyperparameter_options_list(&arguments->learns, all + OWN);
    return options_parse(program, &command_train, all, ALL, argc, argv, NULL);
}

static enum error choose_status(struct arguments *arguments, const struct cluster *cluster,
                                struct training_options *options)
{
    if (!arguments->status_listen)
        return OK;
    enum error error = options_host_port("status_listen", arguments->status_listen,
                                         arguments->status_host, &options->status_port);
    if (cluster->role == CLUSTER_PS || cluster->role == CLUSTER_EVALUATOR)
        log_info(
            "--status-listen is for workers: a ps answers on its own port, an evaluator has none");
    else
        options->status_host = arguments->status_host;
    return error;
}

static enum error run(const struct program *program, int argc, char **argv)
{
    struct arguments arguments = {.model = "mlp",
                                  .bad_rows = "fail",
                                  .staleness = -1,
                                  .cluster.task_index = -1, /* shows no default */
                                  .ps_strategy = "bytes",
                                  .ps_transport = "auto",
                                  .exchange = "servers",
                                  .cuda_graphs = "auto",
                                  .resident = "auto",
                                  .patience_seconds = 60,
                                  .save_seconds = 600,
                                  .seed = -1};
    struct training_options options = {
        .engine = {.device = "auto", .blas = "auto", .precision = "f32"},
        .stream = "default",
        .train_steps = 10000,
        .batch_rows = 100,
        .test_every = 100,
        .summary_seconds = 1,
        .print_every = 1,
        .cache_bytes = 256 << 20};
    struct cluster cluster;
    options.cluster = &cluster;
    hyperparameter_options_init(&arguments.learns);
    enum error error = parse(program, argc, argv, &arguments, &options);
    if (!error)
        error = choose(&arguments, &options);
    if (!error)
        error = cluster_parse(getenv("TF_CONFIG"), &arguments.cluster, &cluster);
    if (error)
        return error;
    if (!cluster.is_alone && !arguments.save_given)
        arguments.save_seconds = CLUSTER_SAVE_SECONDS;
    options.save_ms = (int64_t)ceil(arguments.save_seconds * 1000);
    error = choose_aggregate(&arguments, &cluster, &options.aggregate);
    if (!error)
        error = choose_exchange(&arguments, &cluster, &options);
    if (!error)
        error = check_early_stopping(&options, &cluster);
    if (!error)
        error = choose_status(&arguments, &cluster, &options);
    if (!error)
        error = training_run(&options);
    cluster_release(&cluster);
    return error;
}
