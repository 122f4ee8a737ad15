/* SPDX-License-Identifier: MIT */
/*
 * Passes: collect the text of every option from the command line, fill the gaps from the
 * environment and then from the config file, and only then convert, so that an overridden value is
 * never checked. A wrong option is reported before a missing one.
 */
#include "common/command/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command/options_help.h"
#include "common/command/options_kept.h"
#include "common/command/options_source.h"
#include "common/command/options_value.h"
#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "common/text.h"

#define CONFIG_BYTES_LIMIT (1 << 20)
#define NAME_BYTES 128
#define VARIABLE_PREFIX "TOMBOLA_"

static const char *config_path;
static const char *log_level;
static const char *log_format;
static bool help_wanted;
static bool version_wanted;

static const struct option builtin[] = {
    {.name = "config",
     .type = OPTION_TEXT,
     .target = &config_path,
     .argument = "FILE",
     .help = "JSON object with values for options"},
    {.name = "log_level",
     .type = OPTION_CHOICE,
     .target = &log_level,
     .choices = "debug|info|warning|error",
     .alias = "warn=warning",
     .help = "log messages of this level and above to standard error; warn means warning"},
    {.name = "log_format",
     .type = OPTION_CHOICE,
     .target = &log_format,
     .choices = "text|json",
     .help = "a line of text, or one JSON object a line"},
    {.name = "help", .type = OPTION_FLAG, .target = &help_wanted, .help = "print this and exit"},
    {.name = "version",
     .type = OPTION_FLAG,
     .target = &version_wanted,
     .help = "print the version and exit"},
};
#define BUILTIN_COUNT (sizeof(builtin) / sizeof(builtin[0]))
#define BUILTIN_FROM_ELSEWHERE 3 /* only the first three may come from environment and config */

/* Sources of values, the strongest first. */
enum place { PLACE_NONE, PLACE_ARGUMENTS, PLACE_ENVIRONMENT, PLACE_CONFIG };

/* State of one options_parse() call. */
struct parse {
    const struct program *program;
    const struct command *command;
    const struct option **options;    /* the command's, then the builtin ones */
    const char **texts;               /* the value of each as text, NULL while nothing named it */
    char (*sources)[NAME_BYTES + 64]; /* where it came from, in words */
    enum place *places;               /* and which of the places that was */
    size_t count;
    char **words; /* positional */
    size_t word_count;
};

static bool same_name(const char *name, const char *given, size_t length)
{
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++) {
        char letter = given[i] == '-' ? '_' : given[i];
        if (letter != name[i])
            return false;
    }
    return true;
}

/* The index of the option, or parse->count. */
static size_t find_option(const struct parse *parse, const char *name, size_t length)
{
    size_t i = 0;
    while (i < parse->count && !same_name(parse->options[i]->name, name, length))
        i++;
    return i;
}

/* Does a stronger source give it already, itself or through an alternative? */
static bool is_settled(const struct parse *parse, size_t i, enum place place)
{
    const char *instead = parse->options[i]->instead;
    if (parse->texts[i])
        return true;
    size_t other = instead ? find_option(parse, instead, strlen(instead)) : parse->count;
    return other < parse->count && parse->places[other] != PLACE_NONE &&
           parse->places[other] < place;
}

/* May it come from environment and config file? */
static bool is_free(const struct parse *parse, size_t i)
{
    return i < parse->count - BUILTIN_COUNT + BUILTIN_FROM_ELSEWHERE;
}

/* May a config file contain it? */
static bool is_key(const struct parse *parse, size_t i)
{
    return is_free(parse, i) && parse->options[i] != &builtin[0];
}

static const char *nearest_option(const struct parse *parse, const char *name, bool key, char *out,
                                  size_t bytes)
{
    const char *names[256];
    char word[NAME_BYTES];
    size_t count = 0;
    for (size_t i = 0; i < parse->count && count < 256; i++) {
        if (!key || is_key(parse, i))
            names[count++] = parse->options[i]->name;
    }
    snprintf(word, sizeof(word), "%s", name);
    for (char *letter = word; *letter; letter++)
        *letter = *letter == '-' ? '_' : *letter;
    const char *nearest = text_nearest(word, names, count);
    if (nearest)
        options_dashed(nearest, out, bytes);
    return nearest ? out : NULL;
}

/* NULL: none. */
static const char *find_hint(const struct command *command, const char *name)
{
    const struct option_hint *hint = command->hints;
    while (hint && hint->name && !same_name(hint->name, name, strlen(name)))
        hint++;
    return hint ? hint->advice : NULL;
}

/* `what` is "unknown option" or what a config file does; `dashes` precede the nearest name, except
 * for a config file's key. */
static enum error refuse_unknown(const struct parse *parse, const char *what, const char *dashes,
                                 const char *name)
{
    char shown[TEXT_QUOTE_BYTES];
    char near[NAME_BYTES];
    text_quote(shown, sizeof(shown), name, strlen(name));
    const char *advice = find_hint(parse->command, name);
    if (advice)
        return error_set(ERROR_USAGE, "%s %s: %s", what, shown, advice);
    const char *nearest = nearest_option(parse, name, !dashes[0], near, sizeof(near));
    if (nearest)
        return error_set(ERROR_USAGE, "%s %s (did you mean %s%s?)", what, shown, dashes, nearest);
    return error_set(ERROR_USAGE, "%s %s; see %s %s --help", what, shown, parse->program->name,
                     parse->command->name);
}

/* `before`: the values so far, or NULL. */
static enum error set_text(struct parse *parse, size_t i, const char *before, const char *text)
{
    size_t bytes = before ? strlen(before) + strlen(text) + 2 : 0;
    char *lines = before ? options_keep(bytes) : NULL;
    if (before && !lines)
        return ERROR_MEMORY;
    if (before)
        snprintf(lines, bytes, "%s\n%s", before, text);
    parse->texts[i] = before ? lines : text;
    return OK;
}

static enum error take_option(struct parse *parse, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    char given[NAME_BYTES];
    snprintf(given, sizeof(given), "%.*s", (int)(length < NAME_BYTES ? length : NAME_BYTES), name);
    size_t i = find_option(parse, name, length);
    if (i == parse->count)
        return refuse_unknown(parse, "unknown option", "--", given);
    const char *before = parse->texts[i];
    if (before && !parse->options[i]->repeated)
        return error_set(ERROR_USAGE, "--%s is given twice", given);
    snprintf(parse->sources[i], sizeof(parse->sources[i]), "--%s", given);
    parse->places[i] = PLACE_ARGUMENTS;
    if (equals)
        return set_text(parse, i, before, equals + 1);
    if (parse->options[i]->type == OPTION_FLAG) {
        parse->texts[i] = "yes";
        return OK;
    }
    bool missing = *at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0;
    if (missing)
        return error_set(ERROR_USAGE, "--%s needs a value (--%s %s)", given, given,
                         parse->options[i]->argument  ? parse->options[i]->argument
                         : parse->options[i]->choices ? parse->options[i]->choices
                                                      : "VALUE");
    return set_text(parse, i, before, argv[++*at]);
}

static enum error take_arguments(struct parse *parse, int argc, char **argv)
{
    bool options_ended = false;
    enum error error = OK;
    for (int at = 1; at < argc && !error; at++) {
        if (options_ended || argv[at][0] != '-' || !argv[at][1]) {
            parse->words[parse->word_count++] = argv[at];
        } else if (strcmp(argv[at], "--") == 0) {
            options_ended = true;
        } else if (strcmp(argv[at], "-h") == 0) {
            parse->texts[parse->count - 2] = "yes";
        } else if (strcmp(argv[at], "-V") == 0) {
            parse->texts[parse->count - 1] = "yes";
        } else if (strncmp(argv[at], "--", 2) == 0) {
            error = take_option(parse, argc, argv, &at);
        } else {
            error = error_set(ERROR_USAGE, "unknown option \"%s\"; options begin with two dashes",
                              argv[at]);
        }
    }
    return error;
}

static enum error check_words(const struct parse *parse)
{
    const char *wanted = parse->command->positional;
    size_t wanted_count = 0;
    for (const char *next = wanted; next && *next;) {
        wanted_count++;
        next += strcspn(next, " ");
        next += strspn(next, " ");
    }
    if (parse->word_count == wanted_count)
        return OK;
    if (wanted_count == 0)
        return error_set(ERROR_USAGE, "unexpected argument \"%s\"; only options are allowed here",
                         parse->words[0]);
    return error_set(ERROR_USAGE, "needs %s (%zu %s), %zu given; see %s %s --help", wanted,
                     wanted_count, text_plural(wanted_count, "argument", "arguments"),
                     parse->word_count, parse->program->name, parse->command->name);
}

/* A variable whose name is nearly one of ours, or has a hint, was probably meant for us; others may
 * be for other programs. */
static void warn_of_variable(const struct parse *parse, const char *variable)
{
    char name[NAME_BYTES], near[NAME_BYTES], meant[NAME_BYTES];
    int length = (int)strcspn(variable, "=");
    snprintf(name, sizeof(name), "%.*s", length, variable);
    for (char *letter = name; *letter; letter++)
        *letter = (char)tolower((unsigned char)*letter);
    if (find_option(parse, name, strlen(name)) < parse->count || strcmp(name, "token") == 0 ||
        strcmp(name, "ca") == 0)
        return;
    const char *advice = find_hint(parse->command, name);
    if (advice) {
        log_warning("the environment variable " VARIABLE_PREFIX "%.*s is not read: %s", length,
                    variable, advice);
    } else if (nearest_option(parse, name, true, near, sizeof(near))) {
        options_environment_name(near, meant, sizeof(meant));
        log_warning("the environment variable " VARIABLE_PREFIX
                    "%.*s is not read (did you mean %s?)",
                    length, variable, meant);
    }
}

static void warn_of_variables(const struct parse *parse)
{
    size_t prefix = strlen(VARIABLE_PREFIX);
    for (char **variable = environ; *variable; variable++) {
        if (strncmp(*variable, VARIABLE_PREFIX, prefix) == 0)
            warn_of_variable(parse, *variable + prefix);
    }
}

static enum error take_environment(struct parse *parse)
{
    enum error error = OK;
    for (size_t i = 0; i < parse->count && !error; i++) {
        char variable[NAME_BYTES];
        if (!is_free(parse, i) || is_settled(parse, i, PLACE_ENVIRONMENT))
            continue;
        options_environment_name(parse->options[i]->name, variable, sizeof(variable));
        const char *value = getenv(variable);
        if (!value || !value[0])
            continue;
        error = options_text_of_variable(parse->options[i], value, &parse->texts[i]);
        snprintf(parse->sources[i], sizeof(parse->sources[i]), "environment variable %s", variable);
        parse->places[i] = PLACE_ENVIRONMENT;
    }
    return error;
}

static struct {
    const char *name, *source;
    bool is_variable;
} * elsewhere; /* [elsewhere_count], of the last parse; kept */
static size_t elsewhere_count;

static enum error note_elsewhere(const struct parse *parse)
{
    elsewhere_count = 0;
    elsewhere = options_keep(parse->count * sizeof(*elsewhere));
    if (!elsewhere)
        return ERROR_MEMORY;
    for (size_t i = 0; i < parse->count; i++) {
        if (parse->places[i] < PLACE_ENVIRONMENT)
            continue;
        elsewhere[elsewhere_count].name = parse->options[i]->name;
        elsewhere[elsewhere_count].is_variable = parse->places[i] == PLACE_ENVIRONMENT;
        elsewhere[elsewhere_count++].source = parse->sources[i];
    }
    return OK;
}

void options_log_environment(void)
{
    struct buffer text = BUFFER_INIT(CONFIG_BYTES_LIMIT);
    for (size_t i = 0; i < elsewhere_count; i++) {
        if (elsewhere[i].is_variable)
            buffer_print(&text, "%s%s", text.length ? ", " : "",
                         strrchr(elsewhere[i].source, ' ') + 1);
    }
    if (text.length > 0)
        log_info("options from the environment: %s", text.data);
    buffer_release(&text);
}

static bool names_option(const char *message, const char *dashed)
{
    size_t length = strlen(dashed);
    for (const char *at = strstr(message, dashed); at; at = strstr(at + 1, dashed)) {
        if (at[length] != '-' && !isalnum((unsigned char)at[length]))
            return true;
    }
    return false;
}

enum error options_explain(enum error error)
{
    char message[ERROR_MESSAGE_BYTES], dashed[NAME_BYTES] = "--";
    snprintf(message, sizeof(message), "%s", error_message());
    for (size_t i = 0; i < elsewhere_count; i++) {
        options_dashed(elsewhere[i].name, dashed + 2, sizeof(dashed) - 2);
        if (names_option(message, dashed))
            error_set(error, "%s (%s is from %s)", message, dashed, elsewhere[i].source);
        snprintf(message, sizeof(message), "%s", error_message());
    }
    return error;
}

/* Keys with dashes and with underscores mean the same option; json_parse() refuses equal ones. */
static enum error check_once(const struct option *option, const cJSON *first, const cJSON *item,
                             const char *path)
{
    for (const cJSON *before = first; before != item; before = before->next) {
        if (same_name(option->name, before->string, strlen(before->string)))
            return error_set(ERROR_INPUT, "config file %s has \"%s\" and \"%s\", the same option",
                             path, before->string, item->string);
    }
    return OK;
}

static enum error take_config_item(struct parse *parse, const cJSON *first, const cJSON *item,
                                   const char *path)
{
    size_t i = find_option(parse, item->string, strlen(item->string));
    if (i == parse->count)
        return error_prefix(refuse_unknown(parse, "has an unknown key", "", item->string),
                            "config file %s ", path);
    if (!is_key(parse, i))
        return error_set(ERROR_USAGE, "config file %s has the key \"%s\"; --%s is taken from %s",
                         path, parse->options[i]->name, parse->options[i]->name,
                         is_free(parse, i) ? "the command line or the environment alone"
                                           : "the command line alone");
    enum error error = check_once(parse->options[i], first, item, path);
    if (error || is_settled(parse, i, PLACE_CONFIG))
        return error;
    error = options_text_of_json(parse->options[i], item, path, &parse->texts[i]);
    if (error)
        return error;
    snprintf(parse->sources[i], sizeof(parse->sources[i]), "\"%s\" in config file %s",
             parse->options[i]->name, path);
    parse->places[i] = PLACE_CONFIG;
    return OK;
}

static enum error take_config(struct parse *parse, const char *path)
{
    struct buffer text = BUFFER_INIT(CONFIG_BYTES_LIMIT);
    cJSON *json = NULL;
    char what[NAME_BYTES + 64];
    snprintf(what, sizeof(what), "config file %s", path);
    enum error error = file_as_input(file_read_whole(path, &text), path);
    if (error)
        error = error_prefix(error, "--config: ");
    if (!error)
        error = json_parse(text.data, text.length, what, &json);
    if (!error && !cJSON_IsObject(json))
        error =
            error_set(ERROR_INPUT, "%s must hold one JSON object, {\"option\": value, ...}", what);
    const cJSON *item;
    for (item = !error ? json->child : NULL; item && !error; item = item->next)
        error = take_config_item(parse, json->child, item, path);
    cJSON_Delete(json);
    buffer_release(&text);
    return error;
}

static enum error convert_all(struct parse *parse)
{
    enum error error = OK;
    for (size_t i = 0; i < parse->count && !error; i++) {
        const struct option *option = parse->options[i];
        if (option->given)
            *option->given = parse->texts[i] != NULL;
        if (parse->texts[i])
            error = options_set_value(option, parse->texts[i], parse->sources[i]);
    }
    return error;
}

static enum error check_required(const struct parse *parse)
{
    char dashed[NAME_BYTES];
    for (size_t i = 0; i < parse->count; i++) {
        const struct option *option = parse->options[i];
        if (!option->required || parse->texts[i])
            continue;
        options_dashed(option->name, dashed, sizeof(dashed));
        return error_set(ERROR_USAGE, "--%s %s is required; see %s %s --help", dashed,
                         option->argument ? option->argument : "VALUE", parse->program->name,
                         parse->command->name);
    }
    return OK;
}

static void apply_log_options(void)
{
    for (int level = LOG_DEBUG; level <= LOG_ERROR; level++) {
        if (strcmp(log_level, log_level_name(level)) == 0)
            log_set_level(level);
    }
    log_set_format(strcmp(log_format, "json") == 0 ? LOG_JSON : LOG_TEXT);
}

static enum error parse_init(struct parse *parse, const struct option *options, size_t count,
                             int argc)
{
    parse->count = count + BUILTIN_COUNT;
    parse->options = (const struct option **)(void *)options_keep(parse->count * sizeof(void *));
    parse->texts = (const char **)(void *)options_keep(parse->count * sizeof(char *));
    parse->sources = (void *)options_keep(parse->count * sizeof(parse->sources[0]));
    parse->places = (void *)options_keep(parse->count * sizeof(parse->places[0]));
    parse->words = (char **)(void *)options_keep(((size_t)argc + 1) * sizeof(char *));
    if (!parse->options || !parse->texts || !parse->sources || !parse->places || !parse->words)
        return ERROR_MEMORY;
    for (size_t i = 0; i < parse->count; i++)
        parse->options[i] = i < count ? &options[i] : &builtin[i - count];
    config_path = NULL;
    log_level = "info";
    log_format = "text";
    help_wanted = false;
    version_wanted = false;
    return OK;
}

/* --help and --version work together with anything that is at least an option. */
static bool is_answered(const struct parse *parse, const struct option *options, size_t count)
{
    if (parse->texts[parse->count - 2])
        options_print_command_help(stdout, parse->program, parse->command, options, count, builtin,
                                   BUILTIN_COUNT);
    else if (parse->texts[parse->count - 1])
        options_print_version(stdout, parse->program);
    else
        return false;
    return true;
}

enum error options_parse(const struct program *program, const struct command *command,
                         const struct option *options, size_t count, int argc, char **argv,
                         char **ret_positional[])
{
    struct parse parse = {.program = program, .command = command};
    enum error error = parse_init(&parse, options, count, argc);
    if (!error)
        error = take_arguments(&parse, argc, argv);
    if (!error && is_answered(&parse, options, count))
        return ERROR_END;
    if (error)
        return error;
    error = take_environment(&parse);
    size_t config = parse.count - BUILTIN_COUNT;
    if (!error && parse.texts[config])
        error = take_config(&parse, parse.texts[config]);
    if (!error)
        error = convert_all(&parse);
    if (!error)
        error = check_words(&parse);
    if (!error)
        error = check_required(&parse);
    if (!error)
        error = note_elsewhere(&parse);
    if (error)
        return error;
    apply_log_options();
    warn_of_variables(&parse);
    if (ret_positional)
        *ret_positional = parse.words;
    return OK;
}
