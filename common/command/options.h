/* SPDX-License-Identifier: MIT */
/*
 * One table of options per command, from which command line, environment, `--config FILE` and
 * `--help` are derived. The command line wins over the environment (TOMBOLA_LISTEN for --listen),
 * which wins over the config file (a JSON object, keys as the long names), which wins over the
 * default. The same holds between two options that replace each other: with --store, TOMBOLA_FRAME
 * is ignored.
 *
 * `--name VALUE` and `--name=VALUE`; '-' and '_' in names are equivalent; flags also accept
 * `--flag=no`. An option given twice on one command line is an error unless it may be repeated; so
 * is an unknown one (the nearest is named). `--` ends the options. Every command also has --help,
 * --config, --log_level, --log_format and --version.
 * Environment variables that are empty or match no option are ignored; an unknown key in a config
 * file is an error. Config values are texts, numbers, true or false; integers are exact. A
 * repeatable option takes an array of texts there, and one line for each in its environment
 * variable; one that takes JSON takes the object itself. The default of an OPTION_TEXT must be a
 * literal or NULL.
 *
 * Main thread only.
 */
#ifndef COMMON_COMMAND_OPTIONS_H
#define COMMON_COMMAND_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "common/command/option.h"
#include "common/error.h"

struct program;

struct command {
    const char *name;       /* "serve" */
    const char *positional; /* "FILE", "SOURCE-URI DEST-URI", or NULL; the count of words must
                             * match */
    const char *summary;    /* one line */
    const char *details;    /* more for `PROGRAM serve --help`: examples; or NULL */
    const struct option_hint *hints; /* NULL, or a list; the last entry has no name */
    /* Parses its own table with options_parse() and does the work; its result decides the exit
     * status (error_exit_status; 128 + signal for ERROR_CANCELLED after a signal). */
    enum error (*run)(const struct program *program, int argc, char **argv);
    /* a signal may end it anywhere, even in a hang: it leaves nothing to clean up (hang.h) */
    bool ends_anywhere;
};

struct program {
    const char *name; /* "tombola-sampler" */
    const char *summary;
    const struct command *const *commands; /* [command_count] */
    size_t command_count;
    const char *(*version_details)(void); /* NULL, or an extra line for --version (BLAS, CUDA) */
};

/* main() of every program: --help, --version, the command by its name, the error message on
 * standard error as "tombola-sampler serve: MESSAGE", the exit status. Flushes standard output at
 * the end; output that cannot be written is an error. */
int program_main(const struct program *program, int argc, char **argv);

/* Fills the targets of `options` from argv, environment and config; argv[0] is the command's name.
 * *ret_positional (command->positional words, borrowed from argv) may be NULL if there are none.
 * ERROR_END: `--help` or `--version` was printed; return it. */
enum error options_parse(const struct program *program, const struct command *command,
                         const struct option *options, size_t count, int argc, char **argv,
                         char **ret_positional[]) MUST_CHECK;

/* Logs the names of the environment variables that the last options_parse() took. */
void options_log_environment(void);
/* Appends to this thread's message where each option that it names as --NAME came from, unless it
 * was on the command line. Returns `error`. */
enum error options_explain(enum error error);

/* Parses "HOST:PORT" ("[::1]:8080" too); `name` is the option's name, for the message. */
enum error options_host_port(const char *name, const char *value, char host[256],
                             uint16_t *ret_port) MUST_CHECK;

/* Parses "A:B" with 0 <= A < B: from A, B excluded. */
enum error options_range(const char *name, const char *value, int64_t *ret_first,
                         int64_t *ret_end) MUST_CHECK;

#endif
