/* SPDX-License-Identifier: MIT */
#include "trainer/commands.h"
#include "trainer/run/prediction.h"

static enum error run(const struct program *program, int argc, char **argv);

const struct command command_predict = {
    .name = "predict",
    .hints = commands_trained_hints,
    .summary = "write predictions for a store as CSV",
    .details =
        "  tombola-trainer predict --store new.csv --logdir run > predictions.csv\n"
        "Columns: id,label,predicted and the probability of each class, p0,p1,... if the classes\n"
        "are 0,1,..., else p_CLASS; for a regression id,label,predicted. Columns are matched to\n"
        "the model's features by name where the store has names.\n" COMMANDS_ENVIRONMENT,
    .run = run,
    .ends_anywhere = true,
};

static enum error predict(struct trained_model *trained, const struct trained_model_source *source,
                          void *context)
{
    (void)context;
    struct output *output = NULL;
    enum error error = output_open_standard(&output);
    return error ? error : output_end(output, prediction_run(trained, source, output));
}

static enum error run(const struct program *program, int argc, char **argv)
{
    return commands_with_trained(program, &command_predict,
                                 "the rows; labels are passed on if there are any", NULL, argc,
                                 argv, predict, NULL);
}
