/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "common/output.h"
#include "trainer/commands.h"
#include "trainer/run/evaluation_print.h"

static enum error run(const struct program *program, int argc, char **argv);

const struct command command_evaluate = {
    .name = "evaluate",
    .hints = commands_trained_hints,
    .summary = "print how good a model is on a store",
    .details =
        "  tombola-trainer evaluate --store test.sqlite --logdir run\n"
        "  tombola-trainer evaluate --store all.sqlite --logdir run \\\n"
        "                           --sampler http://127.0.0.1:8080 --stream test\n"
        "Prints precision, recall and F1 of each class and the confusion matrix. The last line is\n"
        "`accuracy: 0.9655`, or for a regression `mean squared error: ...`. Columns are matched\n"
        "to the model's features by name where the store has names.\n" COMMANDS_ENVIRONMENT,
    .run = run,
    .ends_anywhere = true,
};

static enum error evaluate(struct trained_model *trained, const struct trained_model_source *source,
                           void *context)
{
    const char *const *format = context;
    const struct classes *classes = checkpoint_get_facts(trained->checkpoint)->classes;
    struct buffer text = BUFFER_INIT(EVALUATION_TEXT_LIMIT);
    struct evaluation evaluation;
    struct output *output = NULL;
    enum error error = output_open_standard(&output);
    if (error)
        return error;
    error = evaluation_run(trained, source, &evaluation);
    if (!error && strcmp(*format, "json") == 0)
        evaluation_print_json(&evaluation, classes, &text);
    else if (!error)
        evaluation_print_text(&evaluation, classes, &text);
    if (!error)
        error = text.error ? text.error : output_add(output, text.data, text.length);
    if (!error)
        error = output_flush(output);
    buffer_release(&text);
    evaluation_release(&evaluation);
    return output_end(output, error);
}

static enum error run(const struct program *program, int argc, char **argv)
{
    const char *format = "text";
    const struct option more = {.name = "format",
                                .type = OPTION_CHOICE,
                                .target = &format,
                                .choices = "text|json",
                                .help = "lines, or one JSON object"};
    return commands_with_trained(program, &command_evaluate, "the rows, with labels", &more, argc,
                                 argv, evaluate, &format);
}
