/* SPDX-License-Identifier: MIT */
#include "loader/tool/commands.h"

static const struct command *const commands[] = {&command_demo, &command_import, &command_info,
                                                 &command_pull, &command_cache,  &command_check};

static const struct program program = {
    .name = "tombola-loader",
    .summary = "make, import and look at stores of training rows, and fetch batches of them",
    .commands = commands,
    .command_count = sizeof(commands) / sizeof(commands[0]),
};

int main(int argc, char **argv)
{
    return program_main(&program, argc, argv);
}
