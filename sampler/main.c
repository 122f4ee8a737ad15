#include "common/options.h"
#include "sampler/commands.h"

static struct command commands[3];

const struct program sampler_program = {
    .name = "tombola-sampler",
    .summary = "hands out batches of (id, label) over HTTP, each unit exactly once an epoch",
    .commands = commands,
    .command_count = sizeof(commands) / sizeof(commands[0]),
};

int main(int argc, char **argv)
{
    commands[0] = command_serve;
    commands[1] = command_build;
    commands[2] = command_info;
    return program_main(&sampler_program, argc, argv);
}
