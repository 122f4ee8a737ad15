/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "trainer/commands.h"
#include "trainer/run/evaluation.h"

static enum error run(const struct program *program, int argc, char **argv);

const struct command command_evaluate = {
    .name = "evaluate",
    .summary = "print a model's accuracy on a store",
    .details =
        "  tombola-trainer evaluate --store sqlite:test.db --logdir run\n"
        "The last line is `accuracy: 0.9655`, or `mean squared error: ...` of a regression.\n"
        "A store with the columns of training in another order is refused.\n",
    .run = run,
};

static void print(const struct evaluation *evaluation, enum model_kind kind)
{
    printf("rows: %" PRId64 "\n", evaluation->score.rows);
    if (kind == MODEL_LINEAR) {
        printf("mean squared error: %g\n", evaluation->squared);
        return;
    }
    printf("cross entropy: %g\n", evaluation->loss);
    printf("accuracy: %g\n", evaluation->accuracy);
}

static enum error evaluate(struct trained_model *trained, const char *store)
{
    struct evaluation evaluation;
    enum error error = evaluation_run(trained, store, &evaluation);
    if (!error)
        print(&evaluation, model_get_options(trained->model)->shape.kind);
    return error;
}

static enum error run(const struct program *program, int argc, char **argv)
{
    return commands_with_trained(program, &command_evaluate, "the rows, with labels", argc, argv,
                                 evaluate);
}
