/* SPDX-License-Identifier: MIT */
#include <inttypes.h>

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
        "the graph. The outputs are `probabilities` and `class`, the index of the most probable\n"
        "one, or for a regression `prediction`. The metadata key `classes` lists the classes as\n"
        "JSON.\n",
    .run = run,
    .ends_anywhere = true,
};

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
        error = trained_model_find(&options, &checkpoint);
    if (!error)
        error = onnx_export(checkpoint, out);
    if (!error)
        log_info("%s, step %" PRId64 ", is %s", checkpoint_path(checkpoint),
                 checkpoint_step(checkpoint), out);
    checkpoint_close(checkpoint);
    return error;
}
