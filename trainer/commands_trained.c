/* SPDX-License-Identifier: MIT */
#include "trainer/commands.h"

#define PATIENCE_MS 60000 /* like --patience of train */

const struct option_hint commands_trained_hints[] = {
    {"model_dir", "it is called --logdir here"},
    {"checkpoint_dir", "it is called --logdir here"},
    {"checkpoint_path", "it is called --checkpoint here"},
    {"data_dir", "rows come from --store URI (csv:PATH, sqlite:PATH, postgresql://...)"},
    {"split", "a stream of the sampler's: --sampler URL --stream NAME"},
    {"batch_size", "rows go through the model as many at once as pays"},
    {"output", "it is written to standard output: > FILE"},
    {NULL, NULL},
};

enum error commands_with_trained(const struct program *program, const struct command *command,
                                 const char *store_help, const struct option *more, int argc,
                                 char **argv, commands_use *use, void *context)
{
    struct trained_model_options options = {.engine = {.device = "auto",
                                                       .blas = "auto",
                                                       .precision = "f32",
                                                       .no_graphs = true}}; /* of steps */
    struct trained_model trained = {.checkpoint = NULL};
    struct trained_model_source source = {.stream = "default", .patience_ms = PATIENCE_MS};
    const char *bad_rows = "fail";
    int64_t threads = 1;
    bool stream_given = false;
    const struct option table[] = {
        {.name = "store",
         .type = OPTION_TEXT,
         .target = &source.store_uri,
         .argument = "URI",
         .help = store_help,
         .required = true},
        {.name = "sampler",
         .type = OPTION_TEXT,
         .target = &source.sampler_url,
         .argument = "URL",
         .help = "use one epoch of this sampler's stream instead of every row of the "
                 "store"},
        {.name = "stream",
         .type = OPTION_TEXT,
         .target = &source.stream,
         .argument = "NAME",
         .help = "the stream, such as one of the test split",
         .given = &stream_given},
        COMMANDS_CHECKPOINT_OPTIONS(&options),
        COMMANDS_BAD_ROWS_OPTION(&bad_rows),
        COMMANDS_ENGINE_OPTIONS(&options.engine, &threads),
        more ? *more : (struct option){.name = NULL},
    };
    size_t count = sizeof(table) / sizeof(table[0]) - (more == NULL);
    enum error error = options_parse(program, command, table, count, argc, argv, NULL);
    if (error)
        return error;
    if (stream_given && !source.sampler_url)
        return error_set(ERROR_USAGE, "--stream %s needs a sampler: give --sampler URL",
                         source.stream);
    options.bad_rows = bad_rows_by_name(bad_rows);
    options.engine.threads = (unsigned)threads;
    error = trained_model_open(&options, &trained);
    if (!error)
        error = use(&trained, &source, context);
    trained_model_close(&trained);
    return error;
}
