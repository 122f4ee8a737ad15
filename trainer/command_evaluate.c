/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "trainer/commands.h"
#include "trainer/run/evaluation.h"

static enum error run(const struct program *program, int argc, char **argv);

const struct command command_evaluate = {
    .name = "evaluate",
    .hints = commands_trained_hints,
    .summary = "print a model's accuracy on a store",
    .details =
        "  tombola-trainer evaluate --store sqlite:test.db --logdir run\n"
        "  tombola-trainer evaluate --sampler http://127.0.0.1:8080 --stream test --store "
        "sqlite:all.db \\\n"
        "                           --logdir run\n"
        "The last line is `accuracy: 0.9655`, or `mean squared error: ...` of a regression.\n"
        "The model's columns are found by name where the store has names.\n" COMMANDS_ENVIRONMENT,
    .run = run,
};

static void print(const struct evaluation *evaluation, enum model_kind kind)
{
    printf("rows: %" PRId64 "\n", evaluation->rows);
    if (kind == MODEL_LINEAR) {
        if (evaluation->baseline > 0)
            printf("R2: %g\n", 1 - evaluation->loss / evaluation->baseline);
        printf("mean squared error: %g\n", evaluation->loss);
        return;
    }
    printf("mean cross entropy: %g\n", evaluation->loss);
    printf("accuracy: %g\n", evaluation->accuracy);
}

static enum error evaluate(struct trained_model *trained, const struct trained_model_source *source)
{
    struct evaluation evaluation;
    enum error error = evaluation_run(trained, source, &evaluation);
    if (!error)
        print(&evaluation, model_get_options(trained->model)->shape.kind);
    return error;
}

static enum error run(const struct program *program, int argc, char **argv)
{
    return commands_with_trained(program, &command_evaluate, "the rows, with labels", argc, argv,
                                 evaluate);
}
