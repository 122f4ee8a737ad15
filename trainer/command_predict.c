#include <stdio.h>

#include "common/stop.h"
#include "trainer/commands.h"
#include "trainer/prediction.h"

static enum error run(int argc, char **argv, int *exit_status);

const struct command command_predict = {
    .name = "predict",
    .summary = "writes what a trained model says of the rows of a store, as CSV",
    .details = "  tombola-trainer predict --store new.csv --logdir run > predictions.csv\n"
               "Columns: id,label,predicted,p0,p1,... (a regression: id,label,predicted).\n",
    .run = run,
};

static enum error run(int argc, char **argv, int *exit_status)
{
    struct trained_options options = {.engine = {.device = "auto", .blas = "auto"}};
    struct trained trained = {.checkpoint = NULL};
    const char *store = NULL, *bad_rows = "fail";
    int64_t threads = 1;
    const struct option table[] = {
        {.name = "store",
         .type = OPTION_TEXT,
         .target = &store,
         .argument = "URI",
         .help = "the rows; labels are passed on if there are any",
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
    enum error error = options_parse(&trainer_program, &command_predict, table,
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
        error = prediction_run(&trained, store, stdout);
    trained_close(&trained);
    return error;
}
