#include <signal.h>

#include "loader/commands.h"

static struct command commands[4];

const struct program loader_program = {
    .name = "tombola-loader",
    .summary = "makes, imports and looks at stores of training rows, and fetches batches of them",
    .commands = commands,
    .command_count = sizeof(commands) / sizeof(commands[0]),
};

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a limit of file size is an error to report, like a full disk */
    commands[0] = command_demo;
    commands[1] = command_import;
    commands[2] = command_info;
    commands[3] = command_pull;
    return program_main(&loader_program, argc, argv);
}
