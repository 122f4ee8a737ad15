#include <stdio.h>

#include "common/options.h"
#include "common/stop.h"
#include "trainer/blas.h"
#include "trainer/commands.h"

static const struct command *const commands[] = {&command_train, &command_evaluate,
                                                 &command_predict};

const struct program trainer_program = {
    .name = "tombola-trainer",
    .summary = "trains models on the batches that a sampler hands out",
    .commands = commands,
    .command_count = sizeof(commands) / sizeof(commands[0]),
    .version_details = blas_describe,
};

int main(int argc, char **argv)
{
    if (stop_install()) {
        fprintf(stderr, "%s: %s\n", trainer_program.name, error_message());
        return 1;
    }
    return program_main(&trainer_program, argc, argv);
}
