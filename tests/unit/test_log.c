/* SPDX-License-Identifier: MIT */
/* Covers common/log: Lines of the log, as they reach standard error. */
#include "tests/unit/unit.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/log_limit.h"

static char folder[256];
static struct buffer written = BUFFER_INIT(1 << 20);
static int kept_stderr;

static int set_up(void **state)
{
    (void)state;
    unit_folder_make(folder);
    log_set_level(LOG_INFO);
    log_set_format(LOG_TEXT);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_set_format(LOG_TEXT);
    log_set_level(LOG_INFO);
    buffer_release(&written);
    unit_folder_remove(folder);
    return 0;
}

static void path_of_log(char path[300])
{
    snprintf(path, 300, "%s/log", folder);
}

static void listen_in(void)
{
    char path[300];
    path_of_log(path);
    fflush(stderr);
    kept_stderr = dup(STDERR_FILENO);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(kept_stderr >= 0 && file >= 0);
    dup2(file, STDERR_FILENO);
    close(file);
}

/* What was logged since listen_in(). */
static const char *logged(void)
{
    char path[300];
    path_of_log(path);
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    buffer_clear(&written);
    assert_ok(file_read_whole(path, &written));
    return written.data ? written.data : "";
}

static const char *text_of(const cJSON *line, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);
    assert_true(cJSON_IsString(item));
    return item->valuestring;
}

static void test_levels_are_called_as_the_option_calls_them(void **state)
{
    (void)state;
    assert_string_equal(log_level_name(LOG_DEBUG), "debug");
    assert_string_equal(log_level_name(LOG_INFO), "info");
    assert_string_equal(log_level_name(LOG_WARNING), "warning");
    assert_string_equal(log_level_name(LOG_ERROR), "error");
    listen_in();
    log_warning("careful");
    assert_non_null(strstr(logged(), "Z warning careful\n"));
}

static void test_fields_of_a_text_line(void **state)
{
    (void)state;
    listen_in();
    log_event(LOG_INFO, "stream deleted", log_text("stream", "a.b-c"), log_number("generation", -2),
              log_text("nobody", NULL), log_text("odd", "a b=\"c\"\n"), log_text("empty", ""));
    assert_non_null(strstr(logged(), "Z info    stream deleted stream=a.b-c generation=-2 "
                                     "odd=\"a b=\\\"c\\\"\\u000a\" empty=\"\"\n"));
}

/* A label may hold what acts on a terminal: U+009B begins a sequence as ESC [ does. */
static void test_fields_do_not_act_on_a_terminal(void **state)
{
    (void)state;
    listen_in();
    log_event(LOG_WARNING, "labels",
              log_text("first", "\x1b[2J\xc2\x9b"
                                "31m\x7f\xc2\xa0\xc3\x9b"));
    assert_non_null(strstr(logged(), " first=\"\\u001b[2J\\u009b31m\\u007f\xc2\xa0\xc3\x9b\"\n"));
}

static void test_fields_of_a_json_line(void **state)
{
    (void)state;
    log_set_format(LOG_JSON);
    listen_in();
    log_event(LOG_ERROR, "a \"b\"", log_text("stream", "x"), log_number("seq", INT64_MAX),
              log_text("nobody", NULL), log_text("odd", "q\"\\\x01\xc3\xa9"));
    cJSON *line = cJSON_Parse(logged());
    assert_non_null(line);
    assert_string_equal(text_of(line, "level"), "error");
    assert_string_equal(text_of(line, "msg"), "a \"b\"");
    assert_string_equal(text_of(line, "stream"), "x");
    assert_string_equal(text_of(line, "odd"), "q\"\\\x01\xc3\xa9");
    assert_null(cJSON_GetObjectItemCaseSensitive(line, "nobody"));
    assert_non_null(strstr(written.data, "\"seq\":9223372036854775807"));
    cJSON_Delete(line);
}

static void test_long_values_are_cut(void **state)
{
    (void)state;
    char value[4 * LOG_VALUE_BYTES];
    for (size_t at = 0; at + 2 < sizeof(value); at += 2)
        memcpy(value + at, "\xc3\xa9", 3); /* two bytes a character: the cut hits one */
    log_set_format(LOG_JSON);
    listen_in();
    log_event(LOG_INFO, "long", log_text("value", value), log_number("behind", 1));
    cJSON *line = cJSON_Parse(logged());
    assert_non_null(line);
    size_t length = strlen(text_of(line, "value"));
    assert_true(length > LOG_VALUE_BYTES - 4 && length < LOG_VALUE_BYTES && length % 2 == 0);
    assert_non_null(cJSON_GetObjectItemCaseSensitive(line, "behind"));
    cJSON_Delete(line);
}

static void test_long_messages_are_cut_between_characters(void **state)
{
    (void)state;
    char message[8192];
    for (size_t at = 0; at + 3 < sizeof(message); at += 3)
        memcpy(message + at, "\xe2\x82\xac", 4);
    log_set_format(LOG_JSON);
    for (int shift = 0; shift < 3; shift++) { /* one of them is cut right by chance */
        listen_in();
        log_info("%.*s%s", shift, "ab", message);
        cJSON *line = cJSON_Parse(logged());
        assert_non_null(line);
        const char *cut = text_of(line, "msg");
        size_t length = strlen(cut);
        assert_true(length > 1000 && (length - (size_t)shift) % 3 == 0);
        assert_string_equal(cut + length - 3, "\xe2\x82\xac");
        cJSON_Delete(line);
    }
}

static void test_the_longest_line(void **state)
{
    (void)state;
    char value[LOG_VALUE_BYTES];
    char message[4096];
    memset(value, 1, sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    memset(message, 2, sizeof(message) - 1);
    message[sizeof(message) - 1] = '\0';
    struct log_field fields[LOG_FIELDS_LIMIT + 2] = {{0}};
    for (int i = 0; i < LOG_FIELDS_LIMIT + 1; i++)
        fields[i] = log_text("a_key_that_is_long_beyond_what_anybody_needs", value);
    static const enum log_format formats[] = {LOG_TEXT, LOG_JSON};
    for (int i = 0; i < 2; i++) {
        log_set_format(formats[i]);
        listen_in();
        log_message(LOG_INFO, "%s", message);
        log_fields(LOG_INFO, message, fields);
        const char *lines = logged();
        assert_int_equal(lines[strlen(lines) - 1], '\n');
    }
    const char *last = strchr(written.data, '\n');
    cJSON *line = cJSON_Parse(last);
    assert_non_null(line);
    assert_int_equal(cJSON_GetArraySize(line), 4 + LOG_FIELDS_LIMIT);
    cJSON_Delete(line);
}

static void test_what_is_below_the_level_is_not_written(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    listen_in();
    log_event(LOG_WARNING, "quiet", log_number("seq", 1));
    assert_string_equal(logged(), "");
}

static void test_failures(void **state)
{
    (void)state;
    log_set_level((enum log_level)(LOG_ERROR + 1)); /* a failure is always told */
    listen_in();
    log_failure("drum", "serve", "no \"room\"");
    assert_string_equal(logged(), "drum serve: no \"room\"\n");
    log_set_format(LOG_JSON);
    listen_in();
    log_failure("drum", "serve", "no \"room\"");
    cJSON *line = cJSON_Parse(logged());
    assert_non_null(line);
    assert_string_equal(text_of(line, "program"), "drum");
    assert_string_equal(text_of(line, "command"), "serve");
    assert_string_equal(text_of(line, "msg"), "no \"room\"");
    cJSON_Delete(line);
}

static void test_a_limit_of_lines(void **state)
{
    (void)state;
    struct log_limit limit = LOG_LIMIT_INIT(2);
    const int64_t minute = LOG_LIMIT_SECONDS * INT64_C(1000);
    assert_true(log_limit_pass(&limit, 5));
    assert_true(log_limit_pass(&limit, 6));
    assert_false(log_limit_pass(&limit, 7));
    assert_false(log_limit_pass(&limit, minute + 4));
    assert_int_equal(log_limit_take(&limit, minute + 4), 0); /* the minute is not over */
    assert_false(log_limit_pass(&limit, minute + 6)); /* it is, but what was held is not told */
    assert_int_equal(log_limit_take(&limit, minute + 6), 3);
    assert_int_equal(log_limit_take(&limit, minute + 6), 0);
    assert_true(log_limit_pass(&limit, minute + 6));
    assert_true(log_limit_pass(&limit, minute + 7));
    assert_false(log_limit_pass(&limit, minute + 8));
    assert_int_equal(log_limit_take(&limit, INT64_MAX), 1);
}

enum { SHARES = 4, LINES = 200000 };

static struct log_limit shared_limit = LOG_LIMIT_INIT(5);
static _Atomic int64_t passed;

static void *pass_lines(void *unused)
{
    (void)unused;
    for (int64_t i = 0; i < LINES; i++)
        passed += log_limit_pass(&shared_limit, i * LOG_LIMIT_SECONDS);
    return NULL;
}

/* Each line was written or is counted, whoever asks meanwhile. */
static void test_a_limit_of_many_threads(void **state)
{
    (void)state;
    pthread_t threads[SHARES];
    int64_t held = 0;
    for (int i = 0; i < SHARES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pass_lines, NULL), 0);
    for (int i = 0; i < LINES; i++)
        held += log_limit_take(&shared_limit, INT64_MAX);
    for (int i = 0; i < SHARES; i++)
        pthread_join(threads[i], NULL);
    held += log_limit_take(&shared_limit, INT64_MAX);
    assert_int_equal(passed + held, (int64_t)SHARES * LINES);
}

static char taken[4096];

static void take(int level, const char *message, void *context)
{
    size_t length = strlen(taken);
    snprintf(taken + length, sizeof(taken) - length, "%d %s %s\n", level, message,
             (const char *)context);
}

static void test_messages_for_somebody_else(void **state)
{
    (void)state;
    static char context[] = "for me";
    taken[0] = '\0';
    listen_in();
    log_set_sink(take, context);
    log_message(LOG_WARNING, "row %d", 7);
    log_message(LOG_DEBUG, "nobody listens");
    log_event(LOG_INFO, "stream deleted", log_text("stream", "eval"), log_number("generation", 2));
    log_set_sink(NULL, NULL);
    log_message(LOG_INFO, "for all");
    const char *rest = logged();
    assert_string_equal(taken,
                        "2 row 7 for me\n1 stream deleted stream=eval generation=2 for me\n");
    assert_non_null(strstr(rest, "for all"));
    assert_null(strstr(rest, "row 7"));
}

static int ends[2][2]; /* pipes: the sink is there; it may go on */

static void stay(int level, const char *message, void *context)
{
    char byte = 0;
    (void)level;
    (void)message;
    (void)context;
    if (write(ends[0][1], "x", 1) == 1)
        assert_true(read(ends[1][0], &byte, 1) >= 0);
}

static void *log_there(void *context)
{
    log_message(LOG_WARNING, "slow");
    return context;
}

static void pass(int level, const char *message, void *context)
{
    (void)level;
    *(bool *)context = strcmp(message, "in the child") == 0;
}

/* Its parent was forked while a thread was in the sink. */
static void test_a_child_has_a_log(void **state)
{
    pthread_t thread;
    char byte;
    int status = 0;
    (void)state;
    assert_true(pipe(ends[0]) == 0 && pipe(ends[1]) == 0);
    log_set_sink(stay, NULL);
    assert_int_equal(pthread_create(&thread, NULL, log_there, NULL), 0);
    assert_int_equal(read(ends[0][0], &byte, 1), 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool heard = false;
        alarm(30);
        log_set_sink(pass, &heard);
        log_message(LOG_WARNING, "in the child");
        _exit(heard ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(write(ends[1][1], "x", 1), 1);
    pthread_join(thread, NULL);
    log_set_sink(NULL, NULL);
    for (int i = 0; i < 4; i++)
        close(ends[i / 2][i % 2]);
    assert_int_equal(status, 0);
}

static void read_pipe(int end)
{
    char bytes[4096];
    ssize_t got;
    while ((got = read(end, bytes, sizeof(bytes))) > 0)
        assert_ok(buffer_add(&written, bytes, (size_t)got));
}

/* Nothing hangs, every message is there or counted, and a failure ends its program. */
static void test_a_pipe_that_nobody_reads(void **state)
{
    enum { MESSAGES = 2000 };
    (void)state;
    int pipe_ends[2];
    int kept = dup(STDERR_FILENO);
    assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK), 0);
    assert_true(dup2(pipe_ends[1], STDERR_FILENO) >= 0);
    alarm(60); /* instead of for ever */
    for (int i = 0; i < MESSAGES; i++)
        log_info("this is message %d of a log that nobody reads for a while", i);
    log_failure("drum", "serve", "no room");
    alarm(0);
    read_pipe(pipe_ends[0]);
    log_info("read again");
    log_info("and again");
    read_pipe(pipe_ends[0]);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(pipe_ends[0]);
    close(pipe_ends[1]);

    long there = 0;
    const char *at = written.data;
    while ((at = strstr(at, "this is message "))) {
        at += strlen("this is message ");
        assert_int_equal(strtol(at, NULL, 10), there);
        there++;
    }
    const char *loss = strstr(written.data, "warning ");
    assert_non_null(loss);
    long missing = strtol(loss + strlen("warning "), NULL, 10);
    assert_non_null(strstr(loss, " messages before this one are missing"));
    assert_true(there > 0 && missing > 0);
    assert_int_equal(there + missing, MESSAGES);
    assert_non_null(strstr(loss, "read again\n"));
    assert_null(strstr(loss + 1, "warning "));
    assert_non_null(strstr(loss, "and again\n"));
    buffer_release(&written);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
static const struct CMUnitTest tests[] = {
    TEST(test_levels_are_called_as_the_option_calls_them),
    TEST(test_fields_of_a_text_line),
    TEST(test_fields_do_not_act_on_a_terminal),
    TEST(test_fields_of_a_json_line),
    TEST(test_long_values_are_cut),
    TEST(test_long_messages_are_cut_between_characters),
    TEST(test_the_longest_line),
    TEST(test_what_is_below_the_level_is_not_written),
    TEST(test_failures),
    TEST(test_messages_for_somebody_else),
    TEST(test_a_child_has_a_log),
    TEST(test_a_pipe_that_nobody_reads),
    TEST(test_a_limit_of_lines),
    TEST(test_a_limit_of_many_threads),
};
UNIT_MAIN(tests)
