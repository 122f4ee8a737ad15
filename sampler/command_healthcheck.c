/* SPDX-License-Identifier: MIT */
#include "common/command/healthcheck.h"
#include "sampler/commands.h"

static enum error run(const struct program *program, int argc, char **argv)
{
    return healthcheck_run(program, &command_healthcheck, "127.0.0.1:8080", argc, argv);
}

const struct command command_healthcheck = {
    .name = "healthcheck",
    .summary = "ask a sampler whether it is ready, for probes of containers",
    .details =
        "  tombola-sampler healthcheck                    can the server of this container draw?\n"
        "  tombola-sampler healthcheck --live             does its process "
        "work?\n" HEALTHCHECK_DETAILS,
    .run = run,
    .ends_anywhere = true,
};
