/* SPDX-License-Identifier: MIT */
#include "trainer/commands.h"
#include "trainer/compute/blas.h"

static const struct command *const commands[] = {&command_train,     &command_evaluate,
                                                 &command_predict,   &command_export,
                                                 &command_tf_config, &command_healthcheck};

static const struct program program = {
    .name = "tombola-trainer",
    .summary = "train models on the batches that a sampler hands out",
    .commands = commands,
    .command_count = sizeof(commands) / sizeof(commands[0]),
    .version_details = blas_describe,
};

int main(int argc, char **argv)
{
    return program_main(&program, argc, argv);
}
