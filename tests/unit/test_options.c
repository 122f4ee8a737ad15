/* SPDX-License-Identifier: MIT */
/* Covers common/command/options. */
#include "tests/unit/unit.h"

#include <fcntl.h>

#include "common/command/options.h"
#include "common/command/options_kept.h"
#include "common/file.h"

static char folder[256];

/* One table with an option of each type; targets are set back before every parse. */
static const char *listen_at;
static int64_t seed;
static int64_t size, steps;
static double rate;
static bool replacement;
static const char *tail;
static bool seed_given;
static const char *stores;
static const char *shares;
static const char *frame;
static char **words;

static const struct option table[] = {
    {.name = "listen",
     .type = OPTION_TEXT,
     .target = &listen_at,
     .argument = "HOST:PORT",
     .help = "where it listens"},
    {.name = "seed",
     .type = OPTION_INTEGER,
     .target = &seed,
     .argument = "N",
     .help = "the seed",
     .maximum = INT64_MAX,
     .given = &seed_given},
    {.name = "max_size",
     .type = OPTION_INTEGER,
     .target = &size,
     .argument = "N",
     .help = "most units",
     .minimum = 1,
     .maximum = 1000000},
    {.name = "steps",
     .type = OPTION_INTEGER,
     .target = &steps,
     .argument = "N",
     .help = "how far",
     .minimum = 1,
     .maximum = INT64_MAX},
    {.name = "rate",
     .type = OPTION_REAL,
     .target = &rate,
     .argument = "X",
     .help = "rate",
     .minimum = 0,
     .maximum = 1},
    {.name = "replacement", .type = OPTION_FLAG, .target = &replacement, .help = "put back"},
    {.name = "tail",
     .type = OPTION_CHOICE,
     .target = &tail,
     .choices = "keep|drop|span",
     .alias = "short=keep",
     .help = "last batch"},
    {.name = "store",
     .type = OPTION_TEXT,
     .target = &stores,
     .repeated = true,
     .argument = "URI",
     .instead = "frame",
     .help = "what is in it"},
    {.name = "frame",
     .type = OPTION_TEXT,
     .target = &frame,
     .argument = "FILE",
     .instead = "store",
     .help = "what was made of it"},
    {.name = "shares",
     .type = OPTION_TEXT,
     .target = &shares,
     .json = true,
     .argument = "JSON",
     .help = "how much of each"},
};
#define TABLE_COUNT (sizeof(table) / sizeof(table[0]))

static enum error run_serve(const struct program *caller, int argc, char **argv);
static const struct option_hint hints[] = {{"batch_size", "each request says it"}, {NULL, NULL}};
static const struct command commands[] = {
    {.name = "serve",
     .summary = "Serves.",
     .hints = hints,
     .details = "Example:\n  drum serve\n",
     .run = run_serve},
    {.name = "import", .positional = "SOURCE DEST", .summary = "Imports.", .run = run_serve},
};
static const struct command *const command_list[] = {&commands[0], &commands[1]};

static const struct program program = {
    .name = "drum", .summary = "A drum.", .commands = command_list, .command_count = 2};

static enum error run_serve(const struct program *caller, int argc, char **argv)
{
    return options_parse(caller, &commands[0], table, TABLE_COUNT, argc, argv, NULL);
}

static enum error parse_command(const struct command *command, int argc, char **argv)
{
    options_release();
    listen_at = "127.0.0.1:8080";
    seed = 7;
    size = 100;
    steps = 10;
    rate = 0.5;
    replacement = false;
    tail = "keep";
    stores = NULL;
    shares = NULL;
    frame = NULL;
    return options_parse(&program, command, table, TABLE_COUNT, argc, argv, &words);
}

/* parse("--seed", "5") and so on. */
#define parse(...)                                                                                \
    parse_command(&commands[0], (int)(sizeof((char *[]){"serve", __VA_ARGS__}) / sizeof(char *)), \
                  (char *[]){"serve", __VA_ARGS__})
#define parse_nothing() parse_command(&commands[0], 1, (char *[]){"serve"})
#define parse_words(...)                                                                           \
    parse_command(&commands[1], (int)(sizeof((char *[]){"import", __VA_ARGS__}) / sizeof(char *)), \
                  (char *[]){"import", __VA_ARGS__})

static int set_up(void **state)
{
    (void)state;
    unit_folder_make(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = {"TOMBOLA_LISTEN", "TOMBOLA_SEED",   "TOMBOLA_MAX_SIZE",
                                        "TOMBOLA_TAIL",   "TOMBOLA_CONFIG", "TOMBOLA_STORE",
                                        "TOMBOLA_SHARES", "TOMBOLA_FRAME"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    options_release();
    unit_folder_remove(folder);
    return 0;
}

static char *config_of(const char *text)
{
    static char path[300];
    snprintf(path, sizeof(path), "%s/config.json", folder);
    assert_ok(file_write_whole(path, text, strlen(text)));
    return path;
}

static void test_defaults_stay(void **state)
{
    (void)state;
    assert_ok(parse_nothing());
    assert_string_equal(listen_at, "127.0.0.1:8080");
    assert_int_equal(seed, 7);
    assert_false(seed_given);
}

static void test_all_ways_to_write_an_option(void **state)
{
    (void)state;
    assert_ok(parse("--listen", "0.0.0.0:1", "--seed=9223372036854775807", "--max-size", "5",
                    "--rate=1e-3", "--replacement", "--tail", "span"));
    assert_string_equal(listen_at, "0.0.0.0:1");
    assert_true(seed == INT64_MAX);
    assert_true(seed_given);
    assert_int_equal(size, 5);
    assert_true(rate == 1e-3);
    assert_true(replacement);
    assert_string_equal(tail, "span");
    assert_ok(parse("--max_size=6", "--replacement=no"));
    assert_int_equal(size, 6);
    assert_false(replacement);
    assert_ok(parse("--listen="));
    assert_string_equal(listen_at, "");
}

static void test_bad_values_say_what_is_allowed(void **state)
{
    (void)state;
    assert_fails(parse("--max-size", "0"), ERROR_USAGE,
                 "--max-size is \"0\", must be an integer from 1 to 1000000");
    assert_fails(parse("--max-size=1000001"), ERROR_USAGE, "from 1 to 1000000");
    assert_fails(parse("--seed=9223372036854775808"), ERROR_USAGE, "from 0 to 2^63-1");
    assert_fails(parse("--seed", "-1"), ERROR_USAGE, "--seed is \"-1\"");
    assert_fails(parse("--seed="), ERROR_USAGE, "--seed is \"\"");
    assert_fails(parse("--rate", "1.5"), ERROR_USAGE, "must be a number from 0 to 1");
    assert_fails(parse("--rate", "nan"), ERROR_USAGE, "must be a number from 0 to 1");
    assert_fails(parse("--replacement=maybe"), ERROR_USAGE, "must be yes or no");
    assert_fails(parse("--tail", "kep"), ERROR_USAGE, "must be one of keep, drop, span");
    assert_fails(parse("--tail", "keep|drop"), ERROR_USAGE, "must be one of");
    assert_fails(parse("--tail="), ERROR_USAGE, "must be one of");
}

static void test_bad_command_lines(void **state)
{
    (void)state;
    assert_fails(parse("--sed", "1"), ERROR_USAGE, "\"sed\" (did you mean --seed?)");
    assert_fails(parse("--max-siz", "1"), ERROR_USAGE, "did you mean --max-size?");
    assert_fails(parse("--banana"), ERROR_USAGE, "drum serve --help");
    assert_fails(parse("--seed", "1", "--seed=1"), ERROR_USAGE, "--seed is given twice");
    assert_fails(parse("--max-size=1", "--max_size=1"), ERROR_USAGE, "given twice");
    assert_fails(parse("--seed"), ERROR_USAGE, "--seed needs a value (--seed N)");
    assert_fails(parse("--seed", "--tail"), ERROR_USAGE, "--seed needs a value");
    assert_fails(parse("-s"), ERROR_USAGE, "two dashes");
    assert_fails(parse("word"), ERROR_USAGE, "unexpected argument \"word\"");
    assert_fails(parse("--="), ERROR_USAGE, "unknown option");
    assert_fails(parse("--batch-size", "5"), ERROR_USAGE,
                 "unknown option \"batch-size\": each request says it");
    assert_fails(parse("--batch_size=5"), ERROR_USAGE, "each request says it");
    assert_fails(parse("--config", config_of("{\"batch_size\":1}")), ERROR_USAGE, "each request");
}

static void test_values_that_no_bounds_are_told_of(void **state)
{
    (void)state;
    double real = 0;
    int64_t integer = 0;
    const struct option free_ones[] = {
        {.name = "real", .type = OPTION_REAL, .target = &real, .help = "any"},
        {.name = "integer", .type = OPTION_INTEGER, .target = &integer, .help = "any"}};
    char *large[] = {"serve", "--real=1e400", NULL};
    char *long_one[] = {"serve", "--integer=9223372036854775808", NULL};
    assert_fails(options_parse(&program, &commands[0], free_ones, 2, 2, large, NULL), ERROR_USAGE,
                 "--real is \"1e400\", must be a number from -1.8e308 to 1.8e308");
    assert_fails(options_parse(&program, &commands[0], free_ones, 2, 2, long_one, NULL),
                 ERROR_USAGE, "must be an integer from -2^63 to 2^63-1");
}

static void test_required_options(void **state)
{
    (void)state;
    const char *store = NULL;
    const struct option needed = {.name = "data_store",
                                  .type = OPTION_TEXT,
                                  .target = &store,
                                  .argument = "URI",
                                  .help = "rows",
                                  .required = true};
    char *none[] = {"serve"};
    char *some[] = {"serve", "--data-store=x"};
    assert_fails(options_parse(&program, &commands[0], &needed, 1, 1, none, NULL), ERROR_USAGE,
                 "--data-store URI is required");
    assert_ok(options_parse(&program, &commands[0], &needed, 1, 2, some, NULL));
    assert_string_equal(store, "x");
}

static void test_words_count_exactly(void **state)
{
    (void)state;
    assert_ok(parse_words("a", "--seed", "1", "b"));
    assert_string_equal(words[0], "a");
    assert_string_equal(words[1], "b");
    assert_ok(parse_words("--", "--a", "-"));
    assert_string_equal(words[0], "--a");
    assert_string_equal(words[1], "-");
    assert_fails(parse_words("a"), ERROR_USAGE, "needs SOURCE DEST (2 arguments), 1 given");
    assert_fails(parse_words("a", "b", "c"), ERROR_USAGE, "3 given");
}

static void test_command_line_over_environment_over_config(void **state)
{
    (void)state;
    char *config = config_of("{\"listen\":\"config\",\"max-size\":3,\"seed\":3,\"rate\":0.25,"
                             "\"replacement\":true,\"log_level\":\"error\"}");
    setenv("TOMBOLA_LISTEN", "environment", 1);
    setenv("TOMBOLA_SEED", "2", 1);
    assert_ok(parse("--config", config, "--seed", "1"));
    assert_int_equal(seed, 1);
    assert_string_equal(listen_at, "environment");
    assert_int_equal(size, 3);
    assert_true(rate == 0.25);
    assert_true(replacement);
    assert_string_equal(tail, "keep");
    setenv("TOMBOLA_CONFIG", config, 1);
    setenv("TOMBOLA_LISTEN", "", 1);
    assert_ok(parse_nothing());
    assert_string_equal(listen_at, "config");
    assert_int_equal(seed, 2);
    assert_true(seed_given);
}

static void test_losing_values_are_not_judged(void **state)
{
    (void)state;
    setenv("TOMBOLA_SEED", "no number", 1);
    assert_ok(parse("--seed=4"));
    assert_int_equal(seed, 4);
}

static void test_bad_values_name_their_source(void **state)
{
    (void)state;
    setenv("TOMBOLA_MAX_SIZE", "0", 1);
    assert_fails(parse_nothing(), ERROR_USAGE, "environment variable TOMBOLA_MAX_SIZE is \"0\"");
    unsetenv("TOMBOLA_MAX_SIZE");
    assert_fails(parse("--config", config_of("{\"tail\":\"x\"}")), ERROR_USAGE,
                 "\"tail\" in config file ");
}

static void test_messages_tell_where_options_came_from(void **state)
{
    (void)state;
    setenv("TOMBOLA_MAX_SIZE", "7", 1);
    assert_ok(parse("--seed=4", "--config", config_of("{\"tail\":\"drop\"}")));
    (void)error_set(ERROR_USAGE, "--max-size-of-all, --max-size and --tail do not go with --seed");
    assert_fails(options_explain(ERROR_USAGE), ERROR_USAGE,
                 "--seed (--max-size is from environment variable TOMBOLA_MAX_SIZE)");
    assert_non_null(strstr(error_message(), "(--tail is from \"tail\" in config file "));
    (void)error_set(ERROR_USAGE, "--max-size-of-all and --seed");
    (void)options_explain(ERROR_USAGE);
    assert_string_equal(error_message(), "--max-size-of-all and --seed");
    unsetenv("TOMBOLA_MAX_SIZE");
    assert_ok(parse("--max-size=8"));
    (void)error_set(ERROR_USAGE, "--max-size");
    (void)options_explain(ERROR_USAGE);
    assert_string_equal(error_message(), "--max-size");
}

static void test_config_files(void **state)
{
    (void)state;
    assert_fails(parse("--config", "/no/such/file"), ERROR_NOT_FOUND, "/no/such/file");
    assert_fails(parse("--config", config_of("")), ERROR_INPUT, "config.json");
    assert_fails(parse("--config", config_of("[1]")), ERROR_INPUT, "one JSON object");
    assert_fails(parse("--config", config_of("{\"seed\":1,}")), ERROR_INPUT, "line 1, column 11");
    assert_fails(parse("--config", config_of("{\"seed\":1,\"seed\":2}")), ERROR_INPUT, "twice");
    assert_fails(parse("--config", config_of("{\"max-size\":1,\"max_size\":2}")), ERROR_INPUT,
                 "has \"max-size\" and \"max_size\", the same option");
    assert_fails(parse("--config", config_of("{\"max_size\":1,\"max-size\":2}")), ERROR_INPUT,
                 "has \"max_size\" and \"max-size\", the same option");
    assert_fails(parse("--max-size=3", "--config", config_of("{\"max-size\":1,\"max_size\":2}")),
                 ERROR_INPUT, "the same option");
    assert_fails(parse("--config", config_of("{\"sede\":1}")), ERROR_USAGE, "did you mean seed?");
    assert_fails(parse("--config", config_of("{\"help\":true}")), ERROR_USAGE,
                 "has the key \"help\"; --help is taken from the command line alone");
    assert_fails(parse("--config", config_of("{\"config\":\"x\"}")), ERROR_USAGE,
                 "the command line or the environment alone");
    assert_fails(parse("--config", config_of("{\"hlep\":true}")), ERROR_USAGE, "\"hlep\"; see");
    assert_fails(parse("--hlep"), ERROR_USAGE, "did you mean --help?");
    assert_fails(parse("--config", config_of("{\"seed\":null}")), ERROR_USAGE, "\"seed\" must be");
    assert_fails(parse("--config", config_of("{\"seed\":[1]}")), ERROR_USAGE, "\"seed\" must be");
    assert_fails(parse("--config", config_of("{\"seed\":1.5}")), ERROR_USAGE, "must be an integer");
    assert_ok(parse("--config", config_of("{\"seed\":9223372036854775807}")));
    assert_true(seed == INT64_MAX);
    assert_fails(parse("--config", config_of("{\"seed\":9223372036854775808}")), ERROR_USAGE,
                 "9223372036854775808");
    assert_ok(parse("--config", config_of("{\"seed\":9007199254740993}")));
    assert_true(seed == 9007199254740993);
    assert_ok(parse("--config", config_of("{\"seed\":\"9223372036854775807\"}")));
    assert_true(seed == INT64_MAX);
    assert_ok(parse("--config", config_of(" {\"seed\":9007199254740991} ")));
    assert_true(seed == 9007199254740991);
}

static void test_a_weaker_way_to_say_it_goes_unread(void **state)
{
    (void)state;
    setenv("TOMBOLA_FRAME", "f", 1);
    assert_ok(parse("--store", "s"));
    assert_string_equal(stores, "s");
    assert_null(frame);
    assert_ok(parse("--config", config_of("{\"store\":\"c\"}")));
    assert_null(stores);
    assert_string_equal(frame, "f");
    setenv("TOMBOLA_STORE", "e", 1);
    assert_ok(parse_nothing()); /* of one strength: the program decides */
    assert_string_equal(stores, "e");
    assert_string_equal(frame, "f");
    assert_ok(parse("--frame", "g"));
    assert_null(stores);
    assert_string_equal(frame, "g");
    unsetenv("TOMBOLA_FRAME");
    unsetenv("TOMBOLA_STORE");
    assert_ok(parse("--frame", "g", "--store", "s"));
    assert_string_equal(stores, "s");
    assert_string_equal(frame, "g");
    assert_ok(parse("--frame", "g", "--config", config_of("{\"store\":\"c\"}")));
    assert_null(stores);
}

static void test_what_is_given_several_times(void **state)
{
    (void)state;
    assert_ok(parse("--store", "a", "--store=b=c?d"));
    assert_string_equal(stores, "a\nb=c?d");
    setenv("TOMBOLA_STORE", "\n\none\n\ntwo=x y\n", 1);
    assert_ok(parse_nothing());
    assert_string_equal(stores, "one\ntwo=x y");
    assert_ok(parse("--store", "mine"));
    assert_string_equal(stores, "mine");
    unsetenv("TOMBOLA_STORE");
    assert_ok(parse("--config", config_of("{\"store\":[\"a=range:10\",\"b\"]}")));
    assert_string_equal(stores, "a=range:10\nb");
    assert_ok(parse("--config", config_of("{\"store\":\"only\"}")));
    assert_string_equal(stores, "only");
    assert_ok(parse("--config", config_of("{\"store\":\"a\\nb\\n\"}")));
    assert_string_equal(stores, "a\nb");
    assert_ok(parse("--config", config_of("{\"store\":[\"a\"]}"), "--store", "mine"));
    assert_string_equal(stores, "mine");
    static const char *const bad[] = {"{\"store\":[1]}", "{\"store\":[\"a\",[\"b\"]]}",
                                      "{\"store\":[\"a\",\"\"]}", "{\"store\":[\"a\\nb\"]}",
                                      "{\"store\":[null]}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_fails(parse("--config", config_of(bad[i])), ERROR_USAGE, "texts of one line each");
    assert_fails(parse("--config", config_of("{\"store\":[]}")), ERROR_USAGE, "empty array");
    assert_fails(parse("--config", config_of("{\"store\":{}}")), ERROR_USAGE,
                 "\"store\" must be a text or an array of texts, not an object");
    assert_fails(parse("--config", config_of("{\"listen\":[\"a\"]}")), ERROR_USAGE,
                 "\"listen\" must be a text, a number, true or false, not an array");
}

static void test_json_stands_as_it_is(void **state)
{
    (void)state;
    assert_ok(parse("--config", config_of("{\"shares\": {\"a b\": 0.25, \"\\u00e9\": 1e-3}}")));
    assert_string_equal(shares, "{\"a b\":0.25,\"\xc3\xa9\":0.001}");
    assert_ok(parse("--config", config_of("{\"shares\":\"{\\\"0\\\":1}\"}")));
    assert_string_equal(shares, "{\"0\":1}");
    setenv("TOMBOLA_SHARES", "{\"0\":2}", 1);
    assert_ok(parse_nothing());
    assert_string_equal(shares, "{\"0\":2}");
    unsetenv("TOMBOLA_SHARES");
    assert_fails(parse("--config", config_of("{\"shares\":[1]}")), ERROR_USAGE,
                 "\"shares\" must be an object, or a text that holds one, not an array");
    assert_fails(parse("--config", config_of("{\"tail\":{}}")), ERROR_USAGE, "not an object");
}

/* As every FILE that a program writes. */
static void test_a_file_to_write_is_not_standard_output(void **state)
{
    (void)state;
    const char *out = NULL;
    const struct option made = {.name = "out",
                                .type = OPTION_TEXT,
                                .target = &out,
                                .argument = "FILE",
                                .help = "what is made",
                                .is_output = true};
    char *dash[] = {"build", "--out", "-"}, *file[] = {"build", "--out", "./-"};
    assert_fails(options_parse(&program, &commands[0], &made, 1, 3, dash, NULL), ERROR_USAGE,
                 "--out is \"-\", must be the name of a file");
    assert_ok(options_parse(&program, &commands[0], &made, 1, 3, file, NULL));
    assert_string_equal(out, "./-");
    setenv("TOMBOLA_OUT", "-", 1);
    assert_fails(options_parse(&program, &commands[0], &made, 1, 1, dash, NULL), ERROR_USAGE,
                 "TOMBOLA_OUT is \"-\"");
    unsetenv("TOMBOLA_OUT");
}

static void test_another_word_for_a_choice(void **state)
{
    (void)state;
    assert_ok(parse("--tail", "short"));
    assert_string_equal(tail, "keep");
    assert_fails(parse("--tail", "shor"), ERROR_USAGE, "must be one of keep, drop, span");
    assert_fails(parse("--tail", "short=keep"), ERROR_USAGE, "must be one of");
    assert_ok(parse("--log-level", "warn"));
    assert_ok(parse("--log-level", "warning"));
}

/* Standard output of the run goes into a file of the test's folder; what it held is returned. */
static const char *output_of(int argc, char **argv, int expected_status)
{
    static char text[8192];
    char path[300];
    snprintf(path, sizeof(path), "%s/out", folder);
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    int out = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    dup2(out, STDOUT_FILENO);
    int status = program_main(&program, argc, argv);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    ssize_t length = pread(out, text, sizeof(text) - 1, 0);
    close(out);
    close(saved);
    assert_int_equal(status, expected_status);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

static void test_help_holds_the_table(void **state)
{
    (void)state;
    static const char *const parts[] = {"Usage: drum serve [OPTION]...",
                                        "--listen HOST:PORT",
                                        "(default 127.0.0.1:8080)",
                                        "--max-size N",
                                        "from 1 to 1000000",
                                        "--tail keep|drop|span",
                                        "TOMBOLA_LISTEN for",
                                        "--config",
                                        "Exit status",
                                        "drum serve\n"};
    assert_ok(parse_nothing());
    const char *help = output_of(3, (char *[]){"drum", "serve", "--help"}, 0);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (!strstr(help, parts[i]))
            fail_msg("--help does not hold \"%s\"", parts[i]);
    }
    assert_null(strstr(help, "2^63")); /* of the option --seed */
    assert_non_null(strstr(help, "(at least 1; default 10)"));
    for (const char *line = help; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        assert_true(strcspn(line, "\n") <= 80);
    assert_non_null(strstr(output_of(2, (char *[]){"drum", "--help"}, 0), "Imports."));
    assert_non_null(strstr(output_of(3, (char *[]){"drum", "serve", "-h"}, 0), "--seed"));
    assert_int_equal(strncmp(output_of(2, (char *[]){"drum", "--version"}, 0), "drum ", 5), 0);
    assert_int_equal(strncmp(output_of(3, (char *[]){"drum", "serve", "--version"}, 0), "drum ", 5),
                     0);
}

static void test_exit_statuses_of_programs(void **state)
{
    (void)state;
    assert_ok(parse_nothing());
    assert_string_equal(output_of(1, (char *[]){"drum"}, 2), "");
    assert_string_equal(output_of(2, (char *[]){"drum", "srve"}, 2), "");
    assert_string_equal(output_of(2, (char *[]){"drum", "--serve"}, 2), "");
    assert_string_equal(output_of(3, (char *[]){"drum", "serve", "--x"}, 2), "");
    assert_string_equal(output_of(2, (char *[]){"drum", "serve"}, 0), "");
}

static void test_host_port(void **state)
{
    (void)state;
    char host[256];
    uint16_t port = 1;
    assert_ok(options_host_port("listen", "127.0.0.1:8080", host, &port));
    assert_string_equal(host, "127.0.0.1");
    assert_int_equal(port, 8080);
    assert_ok(options_host_port("listen", "[::1]:0", host, &port));
    assert_string_equal(host, "::1");
    assert_int_equal(port, 0);
    static const char *const bad[] = {"",       ":",          ":80",       "host",
                                      "host:",  "host:65536", "host:-1",   "host:8o",
                                      "::1:80", "[]:80",      "host:80:90"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_fails(options_host_port("listen_at", bad[i], host, &port), ERROR_USAGE,
                     "--listen-at is ");
    char endless[400];
    memset(endless, 'h', sizeof(endless));
    strcpy(endless + 300, ":80");
    assert_fails(options_host_port("listen", endless, host, &port), ERROR_USAGE, "HOST:PORT");
}

static void test_ranges(void **state)
{
    (void)state;
    int64_t first = -1;
    int64_t end = -1;
    assert_ok(options_range("rows", "0:20000", &first, &end));
    assert_int_equal(first, 0);
    assert_int_equal(end, 20000);
    assert_ok(options_range("rows", "9223372036854775806:9223372036854775807", &first, &end));
    static const char *const bad[] = {"",
                                      ":",
                                      "1",
                                      "1:",
                                      ":1",
                                      "1:1",
                                      "2:1",
                                      "-1:5",
                                      "a:b",
                                      "1:2:3",
                                      "0:9223372036854775808",
                                      "9223372036854775807:0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_fails(options_range("rows", bad[i], &first, &end), ERROR_USAGE, "must be A:B");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
    TEST(test_defaults_stay),
    TEST(test_all_ways_to_write_an_option),
    TEST(test_bad_values_say_what_is_allowed),
    TEST(test_bad_command_lines),
    TEST(test_values_that_no_bounds_are_told_of),
    TEST(test_required_options),
    TEST(test_words_count_exactly),
    TEST(test_command_line_over_environment_over_config),
    TEST(test_losing_values_are_not_judged),
    TEST(test_bad_values_name_their_source),
    TEST(test_messages_tell_where_options_came_from),
    TEST(test_config_files),
    TEST(test_a_weaker_way_to_say_it_goes_unread),
    TEST(test_what_is_given_several_times),
    TEST(test_json_stands_as_it_is),
    TEST(test_a_file_to_write_is_not_standard_output),
    TEST(test_another_word_for_a_choice),
    TEST(test_help_holds_the_table),
    TEST(test_exit_statuses_of_programs),
    TEST(test_host_port),
    TEST(test_ranges),
};

UNIT_MAIN(tests)
