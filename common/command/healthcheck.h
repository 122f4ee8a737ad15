/* SPDX-License-Identifier: MIT */
/*
 * The command `healthcheck` of programs that serve HTTP: one GET of /readyz or /healthz. For probes
 * in containers without a shell or curl. Exit status 0: the response was 200; 1: anything else,
 * explained on standard error.
 */
#ifndef COMMON_COMMAND_HEALTHCHECK_H
#define COMMON_COMMAND_HEALTHCHECK_H

#include "common/command/options.h"

/* `listen`: the HOST:PORT to ask unless an option names another. ERROR_NETWORK or ERROR_TIMEOUT if
 * the server does not return 200, ERROR_USAGE if there is no such address. */
enum error healthcheck_run(const struct program *program, const struct command *command,
                           const char *listen, int argc, char **argv) MUST_CHECK;

/* For the `details` of such a command. */
#define HEALTHCHECK_DETAILS                                                                       \
    "Sends one request: a container's probe repeats it. A server that listens on all addresses\n" \
    "(0.0.0.0, ::) is reached over loopback. No token is needed. With TLS, --url needs a name\n"  \
    "in the certificate; TOMBOLA_CA is a PEM file of the certificate authorities to trust.\n"

#endif
