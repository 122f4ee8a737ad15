/* SPDX-License-Identifier: MIT */
#include "common/command/options.h"
#include "sampler/commands.h"

static const struct command *const commands[] = {&command_serve, &command_build, &command_info,
                                                 &command_healthcheck};

static const struct program program = {
    .name = "tombola-sampler",
    .summary = "hand out batches of (id, label) over HTTP, each unit exactly once an epoch",
    .commands = commands,
    .command_count = sizeof(commands) / sizeof(commands[0]),
};

int main(int argc, char **argv)
{
    return program_main(&program, argc, argv);
}
