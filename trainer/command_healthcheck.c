/* SPDX-License-Identifier: MIT */
#include "common/command/healthcheck.h"
#include "trainer/commands.h"

static enum error run(const struct program *program, int argc, char **argv)
{
    return healthcheck_run(program, &command_healthcheck, "127.0.0.1:2222", argc, argv);
}

const struct command command_healthcheck = {
    .name = "healthcheck",
    .summary = "ask a parameter server whether it is ready, for probes of containers",
    .details =
        "  tombola-trainer healthcheck                    does this container's server train?\n"
        "  tombola-trainer healthcheck --url http://ps-1.ps:2222\n" HEALTHCHECK_DETAILS,
    .run = run,
    .ends_anywhere = true,
};
