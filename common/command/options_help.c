/* SPDX-License-Identifier: MIT */
#include "common/command/options_help.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "config.h"

#include "common/text.h"

#define LINE_COLUMNS 80
#define HELP_COLUMN 30
#define HELP_TEXT_BYTES 2048

void options_dashed(const char *name, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s", name);
    for (char *letter = out; *letter; letter++) {
        if (*letter == '_')
            *letter = '-';
    }
}

void options_environment_name(const char *name, char *out, size_t bytes)
{
    snprintf(out, bytes, "TOMBOLA_%s", name);
    for (char *letter = out; *letter; letter++) {
        *letter = (char)toupper((unsigned char)*letter);
        if (*letter == '-')
            *letter = '_';
    }
}

static void describe_bound(const struct option *option, long double bound, char *out, size_t bytes)
{
    char real[TEXT_REAL_BYTES];
    if (option->type == OPTION_REAL)
        snprintf(out, bytes, "%s", text_of_real((double)bound, real));
    else if (bound >= (long double)INT64_MAX)
        snprintf(out, bytes, "2^63-1");
    else if (bound <= (long double)INT64_MIN)
        snprintf(out, bytes, "-2^63");
    else
        snprintf(out, bytes, "%" PRId64, (int64_t)bound);
}

void options_describe_bounds(const struct option *option, char *out, size_t bytes)
{
    bool number = option->type == OPTION_INTEGER || option->type == OPTION_REAL;
    char low[64];
    char high[64];
    out[0] = '\0';
    if (!number || (option->minimum == 0 && option->maximum == 0))
        return;
    describe_bound(option, option->minimum, low, sizeof(low));
    describe_bound(option, option->maximum, high, sizeof(high));
    snprintf(out, bytes, "from %s to %s", low, high);
}

/* Prints words from `column` on, wrapped before LINE_COLUMNS; a '\n' in the text also breaks. */
static void print_wrapped(FILE *out, const char *text, int indent, int column)
{
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (column > indent && column + 1 + (int)word > LINE_COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        if (word > 0) {
            column += fprintf(out, "%s%.*s", column > indent ? " " : "", (int)word, text);
        }
        text += word;
        if (*text == '\n') {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        text += *text != '\0';
    }
    fputc('\n', out);
}

/* A default outside the bounds means "not given"; the help text says what happens then. */
static bool is_within(const struct option *option, long double value)
{
    bool bounded = option->minimum != 0 || option->maximum != 0;
    return !bounded || (value >= option->minimum && value <= option->maximum);
}

static void describe_default(const struct option *option, char *out, size_t bytes)
{
    const char *text = NULL;
    int64_t integer;
    double real;
    out[0] = '\0';
    if (option->required) {
        snprintf(out, bytes, "required");
        return;
    }
    switch (option->type) {
    case OPTION_TEXT:
    case OPTION_CHOICE:
        text = *(const char *const *)option->target;
        if (text && text[0])
            snprintf(out, bytes, "default %s", text);
        break;
    case OPTION_INTEGER:
        integer = *(const int64_t *)option->target;
        if (is_within(option, (long double)integer))
            snprintf(out, bytes, "default %" PRId64, integer);
        break;
    case OPTION_REAL:
        real = *(const double *)option->target;
        if (is_within(option, real))
            snprintf(out, bytes, "default %g", real);
        break;
    case OPTION_FLAG:
        if (*(const bool *)option->target)
            snprintf(out, bytes, "default yes");
        break;
    }
}

/* Like options_describe_bounds(), without the obvious: that a count has 63 bits. */
static void describe_limits(const struct option *option, char *out, size_t bytes)
{
    options_describe_bounds(option, out, bytes);
    if (!out[0] || option->type != OPTION_INTEGER || option->maximum < (long double)INT64_MAX)
        return;
    out[0] = '\0';
    if (option->minimum > 0)
        snprintf(out, bytes, "at least %" PRId64, (int64_t)option->minimum);
}

static void print_option(FILE *out, const struct option *option)
{
    char name[128];
    char bounds[160];
    char standard[256];
    char text[HELP_TEXT_BYTES];
    options_dashed(option->name, name, sizeof(name));
    describe_limits(option, bounds, sizeof(bounds));
    describe_default(option, standard, sizeof(standard));
    const char *between = bounds[0] && standard[0] ? "; " : "";
    bool noted = bounds[0] || standard[0];
    snprintf(text, sizeof(text), "%s%s%s%s%s%s", option->help, noted ? " (" : "", bounds, between,
             standard, noted ? ")" : "");
    int column = fprintf(out, "  --%s", name);
    if (option->type == OPTION_CHOICE)
        column += fprintf(out, " %s", option->choices);
    else if (option->type != OPTION_FLAG)
        column += fprintf(out, " %s", option->argument ? option->argument : "VALUE");
    if (column >= HELP_COLUMN - 1) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", HELP_COLUMN - column, "");
    print_wrapped(out, text, HELP_COLUMN, HELP_COLUMN);
}

static void print_sources(FILE *out, const struct option *option)
{
    char dashed[128];
    char variable[160];
    char text[HELP_TEXT_BYTES];
    options_dashed(option->name, dashed, sizeof(dashed));
    options_environment_name(option->name, variable, sizeof(variable));
    snprintf(text, sizeof(text),
             "Every option can also come from an environment variable (%s for --%s) or from the "
             "JSON object in the file that --config names (key \"%s\"). The command line overrides "
             "the environment, which overrides the file. An option that may be repeated is an "
             "array in the file, and has one value per line in the variable; an option that takes "
             "JSON is an object in the file. Names may be written with dashes or underscores; "
             "values follow a space or '='; \"--\" ends the options.",
             variable, dashed, option->name);
    fputs("\nWhere values come from:\n  ", out);
    print_wrapped(out, text, 2, 2);
}

void options_print_command_help(FILE *out, const struct program *program,
                                const struct command *command, const struct option *options,
                                size_t count, const struct option *builtin, size_t builtin_count)
{
    fprintf(out, "Usage: %s %s [OPTION]...%s%s\n\n", program->name, command->name,
            command->positional ? " " : "", command->positional ? command->positional : "");
    print_wrapped(out, command->summary, 0, 0);
    if (count > 0)
        fputs("\nOptions:\n", out);
    for (size_t i = 0; i < count; i++)
        print_option(out, &options[i]);
    fputs("\nOptions of every command:\n", out);
    for (size_t i = 0; i < builtin_count; i++)
        print_option(out, &builtin[i]);
    print_sources(out, count > 0 ? &options[0] : &builtin[0]);
    fputs("\nExit status:\n"
          "  0 done; 1 failed (port in use, disk full, peer gone);\n"
          "  2 bad usage or bad input; 128 + N ended by signal N\n",
          out);
    if (command->details)
        fprintf(out, "\n%s%s", command->details,
                command->details[strlen(command->details) - 1] == '\n' ? "" : "\n");
}

void options_print_program_help(FILE *out, const struct program *program)
{
    fprintf(out, "Usage: %s COMMAND [OPTION]... [ARGUMENT]...\n\n", program->name);
    print_wrapped(out, program->summary, 0, 0);
    fputs("\nCommands:\n", out);
    for (size_t i = 0; i < program->command_count; i++) {
        int column = fprintf(out, "  %-12s ", program->commands[i]->name);
        print_wrapped(out, program->commands[i]->summary, column, column);
    }
    fprintf(out,
            "\n%s COMMAND --help  (-h; help COMMAND) shows the options of a command\n"
            "%s --version       (-V)\n",
            program->name, program->name);
}

void options_print_version(FILE *out, const struct program *program)
{
    fprintf(out, "%s %s\n", program->name, PACKAGE_VERSION);
    if (program->version_details)
        fprintf(out, "%s\n", program->version_details());
}
