#include <string.h>

#include "common/options.h"
#include "trainer/commands.h"
#include "trainer/compute/blas.h"

static const struct command *const commands[] = {&command_train, &command_evaluate,
                                                 &command_predict};

const struct program trainer_program = {
    .name = "tombola-trainer",
    .summary = "trains models on the batches that a sampler hands out",
    .commands = commands,
    .command_count = sizeof(commands) / sizeof(commands[0]),
    .version_details = blas_describe,
};

enum bad_rows commands_bad_rows(const char *name)
{
    if (strcmp(name, "skip") == 0)
        return BAD_ROWS_SKIP;
    return strcmp(name, "replace") == 0 ? BAD_ROWS_REPLACE : BAD_ROWS_FAIL;
}

int main(int argc, char **argv)
{
    return program_main(&trainer_program, argc, argv);
}
