#include <inttypes.h>
#include <stdio.h>

#include "common/stop.h"
#include "trainer/commands.h"
#include "trainer/evaluation.h"

static enum error run(int argc, char **argv, int *exit_status);

const struct command command_evaluate = {
    .name = "evaluate",
    .summary = "tells how good a trained model is on the rows of a store",
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

static enum error run(int argc, char **argv, int *exit_status)
{
    struct trained_options options = {.engine = {.device = "auto", .blas = "auto"}};
    struct trained trained = {.checkpoint = NULL};
    struct evaluation evaluation;
    const char *store = NULL, *bad_rows = "fail";
    int64_t threads = 1;
    const struct option table[] = {
        {.name = "store",
         .type = OPTION_TEXT,
         .target = &store,
         .argument = "URI",
         .help = "the rows, with labels",
         .required = true},
        {.name = "logdir",
         .type = OPTION_TEXT,
         .target = &options.logdir,
         .argument = "DIR",
         .help = "the folder of the training; its newest checkpoint is taken"},
        {.name = "checkpoint",
         .type = OPTION_TEXT,
         .target = &options.checkpoint,
         .argument = "FILE",
         .help = "this checkpoint, instead of a logdir's newest"},
        COMMANDS_BAD_ROWS_OPTION(&bad_rows),
        COMMANDS_ENGINE_OPTIONS(&options.engine, &threads),
    };
    enum error error = options_parse(&trainer_program, &command_evaluate, table,
                                     sizeof(table) / sizeof(table[0]), argc, argv, NULL);

    (void)exit_status;
    if (!error)
        error = stop_install();
    if (error)
        return error;
    options.bad_rows = commands_bad_rows(bad_rows);
    options.engine.threads = (unsigned)threads;
    error = trained_open(&options, &trained);
    if (!error)
        error = evaluation_run(&trained, store, &evaluation);
    if (!error)
        print(&evaluation, model_get_options(trained.model)->shape.kind);
    trained_close(&trained);
    return error;
}
