/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/command/options.h"
#include "common/command/options_help.h"
#include "common/command/options_kept.h"
#include "common/hang.h"
#include "common/log.h"
#include "common/output.h"
#include "common/stop.h"
#include "common/text.h"

#define COMMANDS_LIMIT 32

static const struct command *find_command(const struct program *program, const char *name)
{
    for (size_t i = 0; i < program->command_count; i++) {
        if (strcmp(program->commands[i]->name, name) == 0)
            return program->commands[i];
    }
    return NULL;
}

static int refuse_command(const struct program *program, const char *name)
{
    const char *names[COMMANDS_LIMIT];
    char shown[TEXT_QUOTE_BYTES];
    size_t count =
        program->command_count < COMMANDS_LIMIT ? program->command_count : COMMANDS_LIMIT;
    for (size_t i = 0; i < count; i++)
        names[i] = program->commands[i]->name;
    const char *nearest = text_nearest(name, names, count);
    fprintf(stderr, "%s: unknown %s %s", program->name, name[0] == '-' ? "option" : "command",
            text_quote(shown, sizeof(shown), name, strlen(name)));
    if (nearest)
        fprintf(stderr, " (did you mean %s?)", nearest);
    fprintf(stderr, "; see %s --help\n", program->name);
    return error_exit_status(ERROR_USAGE);
}

/* A result that did not reach its reader must not look like success. */
static enum error finish_output(enum error error)
{
    struct error_report report;
    error_report_take(error, &report);
    bool flushed = fflush(stdout) == 0; /* a failure of which sets a message, too */
    if (flushed && !ferror(stdout))
        return error_restore(&report);
    if (error && error != ERROR_END)
        return error_restore(&report); /* the first failure is the one to report */
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while nobody reads standard output");
    return flushed ? error_set(ERROR_IO, "cannot write to standard output: a write failed before")
                   : error_set_errno(ERROR_IO, errno, "cannot write to standard output");
}

static enum error run(const struct program *program, const struct command *command, int argc,
                      char **argv)
{
    struct hang hang;
    hang_install(program->name, command->name);
    if (!command->ends_anywhere)
        return command->run(program, argc, argv);
    hang_begin(&hang, HANG_MS, "while a file or a server does not answer");
    enum error error = command->run(program, argc, argv);
    hang_end(&hang);
    return error;
}

static int run_command(const struct program *program, const struct command *command, int argc,
                       char **argv)
{
    enum error error = stop_install();
    if (!error)
        error = output_take_stdio();
    if (!error)
        error = run(program, command, argc, argv);
    error = finish_output(error);
    if (error == ERROR_USAGE)
        error = options_explain(error);
    if (error && error != ERROR_END)
        log_failure(program->name, command->name, error_message());
    options_release();
    if (error == ERROR_CANCELLED && stop_signal())
        return 128 + stop_signal();
    return error_exit_status(error);
}

/* A closed descriptor 0, 1 or 2 would be reused for the next file opened, and the log written into
 * that. Writing to standard output still fails: nobody would read the result. */
static enum error fill_descriptors(void)
{
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        int how = descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY;
        if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", how) != descriptor)
            return error_set_errno(ERROR_IO, errno, "descriptor %d is closed, and /dev/null too",
                                   descriptor);
    }
    return OK;
}

int program_main(const struct program *program, int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a limit of file size is an error to report, like a full disk */
    enum error filled = fill_descriptors();
    if (filled)
        return error_exit_status(filled);
    if (argc < 2) {
        options_print_program_help(stderr, program);
        return error_exit_status(ERROR_USAGE);
    }
    const char *word = argv[1];
    char asks[] = "--help", *asking[] = {argv[0], argc == 3 ? argv[2] : NULL, asks, NULL};
    if (strcmp(word, "help") == 0 && argc == 3)
        return program_main(program, 3, asking);
    bool help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    bool version = strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0;
    if (help || version) {
        if (help)
            options_print_program_help(stdout, program);
        else
            options_print_version(stdout, program);
        enum error error = finish_output(OK);
        if (error)
            fprintf(stderr, "%s: %s\n", program->name, error_message());
        return error_exit_status(error);
    }
    const struct command *command = find_command(program, word);
    if (!command)
        return refuse_command(program, word);
    return run_command(program, command, argc - 1, argv + 1);
}
