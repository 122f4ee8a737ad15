/* SPDX-License-Identifier: MIT */
/*
 * The command `healthcheck` of programs that serve HTTP: asks a server /readyz, or /healthz, once.
 * For probes in containers that have neither a shell nor curl. Exit status 0: it answered 200; 1:
 * anything else, and standard error says what.
 */
#ifndef COMMON_HEALTHCHECK_H
#define COMMON_HEALTHCHECK_H

#include "common/options.h"

/* `listen`: the HOST:PORT that is asked unless an option names another. ERROR_NETWORK or
 * ERROR_TIMEOUT if the server does not say 200, ERROR_USAGE if there is no such address. */
enum error healthcheck_run(const struct program *program, const struct command *command,
                           const char *listen, int argc, char **argv) MUST_CHECK;

/* For the details of such a command. */
#define HEALTHCHECK_DETAILS                                                                       \
    "Sends one request: a container's probe repeats it. A server that listens on all addresses\n" \
    "(0.0.0.0, ::) is reached over loopback. No token is needed. With TLS, --url needs a name\n"  \
    "in the certificate; TOMBOLA_CA is a PEM file of the certificate authorities to trust.\n"

#endif
