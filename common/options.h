/* SPDX-License-Identifier: MIT */
/*
 * One table of options a command: command line, environment, `--config FILE` and `--help` all come
 * from it. The command line wins over the environment (TOMBOLA_LISTEN for --listen), that over the
 * config file (a JSON object, keys as the long names), that over the default. The same holds
 * between two options of which one replaces the other: with --store, TOMBOLA_FRAME is not read.
 *
 * `--name VALUE` and `--name=VALUE`; '-' and '_' in names are alike; flags also take `--flag=no`.
 * An option twice on one command line is an error unless it may be repeated; so is an unknown one
 * (the nearest is named).
 * `--` ends the options. Every command has --help, --config, --log_level, --log_format and
 * --version besides.
 * Environment variables that are empty or that no option is named after are ignored; an unknown key
 * in a config file is an error. Config values are texts, numbers, true or false; integers are
 * exact. An option that may be repeated takes an array of texts there, and a line for each in its
 * environment variable; one that takes JSON takes the object itself. An option of type OPTION_TEXT
 * must hold a literal or NULL as default.
 *
 * All of this belongs to main's thread.
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/option.h"

struct program;

struct command {
    const char *name;       /* "serve" */
    const char *positional; /* "FILE", "SOURCE-URI DEST-URI", or NULL; words count exactly */
    const char *summary;    /* one line */
    const char *details;    /* more for `PROGRAM serve --help`: examples; or NULL */
    const struct option_hint *hints; /* NULL, or a list; the last has no name */
    /* Parses its own table with options_parse() and works; what it returns decides the exit status
     * (error_exit_status; 128 + signal for ERROR_CANCELLED after a signal). */
    enum error (*run)(const struct program *program, int argc, char **argv);
    /* By a signal, whatever hangs: it leaves nothing to put in order (hang.h). */
    bool ends_anywhere;
};

struct program {
    const char *name; /* "tombola-sampler" */
    const char *summary;
    const struct command *const *commands; /* [command_count] */
    size_t command_count;
    const char *(*version_details)(void); /* NULL, or a further line for --version (BLAS, CUDA) */
};

/* main() of every program: --help, --version, the command by its name, the error message on
 * standard error as "tombola-sampler serve: MESSAGE", the exit status of the contract. Standard
 * output is flushed at the end, and what does not reach it is an error. */
int program_main(const struct program *program, int argc, char **argv);

/* Fills the targets of `options` from argv, environment and config; argv[0] is the command's name.
 * *ret_positional (command->positional words, borrowed from argv) may be NULL when there are none.
 * After `--help` or `--version` was printed: ERROR_END; return it. */
enum error options_parse(const struct program *program, const struct command *command,
                         const struct option *options, size_t count, int argc, char **argv,
                         char **ret_positional[]) MUST_CHECK;

/* Reads "HOST:PORT" ("[::1]:8080" too); `name` is the option's name for the message. */
enum error options_host_port(const char *name, const char *value, char host[256],
                             uint16_t *ret_port) MUST_CHECK;

/* Reads "A:B" with 0 <= A < B: from A, B excluded. */
enum error options_range(const char *name, const char *value, int64_t *ret_first,
                         int64_t *ret_end) MUST_CHECK;

#endif
