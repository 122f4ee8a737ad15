/* SPDX-License-Identifier: MIT */
#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

#include "common/log.h"
#include "trainer/commands.h"
#include "trainer/onnx/onnx_export.h"

static enum error run(const struct program *program, int argc, char **argv);

static const struct option_hint hints[] = {
    {"model_dir", "it is called --logdir here"},
    {"checkpoint_dir", "it is called --logdir here"},
    {"checkpoint_path", "it is called --checkpoint here"},
    {"output", "it is called --out here"},
    {"opset", "the version of the operators is 13, which every runtime knows"},
    {NULL, NULL},
};

const struct command command_export = {
    .name = "export",
    .hints = hints,
    .summary = "write a model as an ONNX file",
    .details =
        "  tombola-trainer export --logdir run --out model.onnx\n"
        "The input is `features`, rows as the store has them: scaling and --normalize are part of\n"
        "the graph, but missing= and onehot= of the store's URI come before it. The outputs are\n"
        "`probabilities` and `class`, the index of the most probable one, or for a regression\n"
        "`prediction`. Metadata, as JSON: `classes` lists the classes, `feature_names` the\n"
        "features, `feature_recipe` says what missing= and onehot= do.\n",
    .run = run,
    .ends_anywhere = true,
};

/* A training's own files, in its logdir and the folders below, are not for writing over. */
static enum error check_out(const char *out)
{
    static const char *const owned[] = {"checkpoint", "*.safetensors", "trainer.lock",
                                        "events.jsonl", "events.out.tfevents.*"};
    const char *slash = strrchr(out, '/'), *name = slash ? slash + 1 : out;
    for (size_t i = 0; i < sizeof(owned) / sizeof(*owned); i++) {
        if (fnmatch(owned[i], name, 0) == 0)
            return error_set(ERROR_USAGE,
                             "--out is %s: a training writes files with such a name; choose "
                             "another, such as model.onnx",
                             out);
    }
    return OK;
}

/* Else whoever runs the model would have to guess what its input is. */
static void say_recipe(const struct feature_recipe *recipe)
{
    char asked[RECIPE_REQUEST_BYTES];
    if (recipe)
        log_info("its input is what %s of the store's URI makes of a row, which is not part of the "
                 "graph: feature_recipe in its metadata says how",
                 recipe_request_text(&recipe->request, asked));
}

static enum error run(const struct program *program, int argc, char **argv)
{
    struct trained_model_options options = {.logdir = NULL};
    struct checkpoint *checkpoint = NULL;
    const char *out = NULL;
    const struct option table[] = {
        COMMANDS_CHECKPOINT_OPTIONS(&options),
        {.name = "out",
         .type = OPTION_TEXT,
         .target = &out,
         .argument = "FILE",
         .help = "the file to write, such as model.onnx",
         .required = true,
         .is_output = true},
    };
    enum error error = options_parse(program, &command_export, table,
                                     sizeof(table) / sizeof(table[0]), argc, argv, NULL);
    if (!error)
        error = check_out(out);
    if (!error)
        error = trained_model_find(&options, &checkpoint);
    if (!error)
        error = onnx_export(checkpoint, out);
    if (!error) {
        log_info("%s, step %" PRId64 ", is %s", checkpoint_path(checkpoint),
                 checkpoint_step(checkpoint), out);
        say_recipe(checkpoint_get_facts(checkpoint)->recipe);
    }
    checkpoint_close(checkpoint);
    return error;
}
