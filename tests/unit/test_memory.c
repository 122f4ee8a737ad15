/* SPDX-License-Identifier: MIT */
/*
 * Covers common/array: Every allocation of common fails once: the program is linked with --wrap,
 * so that the Nth call of malloc and its relatives from our objects answers NULL. The function
 * must say ERROR_MEMORY, give back what it had (the sanitizer's leak check looks), leave no file,
 * and work the next time.
 */
#include "tests/unit/folder_unit.h"

#include <dirent.h>

#include "common/array.h"
#include "common/command/options.h"
#include "common/command/options_kept.h"
#include "common/file.h"
#include "common/http/request.h"
#include "common/http/server_state.h"
#include "common/http_client.h"
#include "common/json.h"
#include "common/text_set.h"
#include "common/uri.h"
#include "tests/unit/failing_allocator.h"

static void check(long nth, enum error error)
{
    if (error != ERROR_MEMORY)
        fail_msg("allocation %ld failed and the answer was %d, %s", nth, error, error_message());
    assert_non_null(strstr(error_message(), "memory"));
}

static enum error use_buffer(void)
{
    struct buffer buffer = BUFFER_INIT(100000);
    enum error error = OK;
    for (int i = 0; i < 1000 && !error; i++)
        error = i % 2 ? buffer_print(&buffer, "%d", i) : buffer_add_text(&buffer, "text");
    buffer_release(&buffer);
    return error;
}

static enum error use_array(void)
{
    void *array = NULL;
    size_t capacity = 0;
    enum error error = OK;
    for (size_t wanted = 1; wanted < 1000 && !error; wanted++)
        error = array_grow(&array, &capacity, wanted, 8, "numbers");
    free(array);
    return error;
}

static enum error use_text_set(void)
{
    struct text_set set = {.texts = NULL};
    char text[16];
    uint32_t number;
    enum error error = OK;
    for (int i = 0; i < 1000 && !error; i++) {
        int length = snprintf(text, sizeof(text), "%d", i);
        error = text_set_add(&set, text, (size_t)length, &number);
        assert_int_equal(set.count, error ? i : i + 1); /* on failure nothing changed */
    }
    text_set_release(&set);
    return error;
}

static enum error use_uri(void)
{
    struct uri uri;
    enum error error = uri_init(&uri, "csv:/a%20b.csv?label=0&header=no&id=x");
    if (!error)
        uri_release(&uri);
    return error;
}

static enum error use_files(void)
{
    char path[300];
    struct buffer content = BUFFER_INIT(1000);
    snprintf(path, sizeof(path), "%s/x/y", folder);
    enum error error = file_make_folders(path);
    snprintf(path, sizeof(path), "%s/x/y/file", folder);
    if (!error)
        error = file_write_whole(path, "content", 7);
    if (!error)
        error = file_read_whole(path, &content);
    buffer_release(&content);
    return error;
}

static enum error use_json(void)
{
    static const char text[] = "{\"a\":{\"b\":[1,2]},\"c\":{}}";
    cJSON *json = NULL;
    enum error error = json_parse(text, sizeof(text) - 1, "text", &json);
    cJSON_Delete(json);
    return error;
}

static enum error use_http_client(void)
{
    struct http_client *client = NULL;
    enum error error = http_client_open("http://127.0.0.1:1/", NULL, &client);
    http_client_close(client);
    return error;
}

static enum error use_options(void)
{
    static const char *name;
    static int64_t size;
    const struct option table[] = {
        {.name = "name", .type = OPTION_TEXT, .target = &name, .help = ""},
        {.name = "size", .type = OPTION_INTEGER, .target = &size, .help = ""},
    };
    const struct command command = {.name = "serve"};
    const struct command *const list[] = {&command};
    const struct program program = {.name = "drum", .commands = list, .command_count = 1};
    char config[300];
    char *words[] = {"serve", "--config", config};
    snprintf(config, sizeof(config), "%s/config", folder);
    enum error error = options_parse(&program, &command, table, 2, 3, words, NULL);
    options_release();
    return error;
}

static void release_nothing(struct request *request)
{
    (void)request;
}

/* No memory for a request: NULL, and the connection ends. */
static enum error use_request(void)
{
    static const struct application application = {.request_bytes = 64,
                                                   .request_release = release_nothing};
    static struct server server = {.application = &application};
    static struct http_thread thread = {.server = &server};
    struct request *request = request_take(&thread, NULL, "/");
    if (!request)
        return error_set(ERROR_MEMORY, "no memory for a request");
    request_put(request);
    assert_ptr_equal(thread.requests, request);
    assert_ptr_equal(request_take(&thread, NULL, NULL), request);
    assert_string_equal(request->path, "");
    request_put(request);
    free(request);
    thread.requests = NULL;
    return OK;
}

static void test_buffer(void **state)
{
    (void)state;
    fail_each(use_buffer, check);
}

static void test_array(void **state)
{
    (void)state;
    fail_each(use_array, check);
}

static void test_text_set(void **state)
{
    (void)state;
    fail_each(use_text_set, check);
}

static void test_uri(void **state)
{
    (void)state;
    fail_each(use_uri, check);
}

static void test_files(void **state)
{
    (void)state;
    fail_each(use_files, check);
    char path[300];
    int entries = 0;
    snprintf(path, sizeof(path), "%s/x/y", folder);
    DIR *list = opendir(path);
    assert_non_null(list);
    for (const struct dirent *entry = readdir(list); entry; entry = readdir(list))
        entries += entry->d_name[0] != '.';
    closedir(list);
    assert_int_equal(entries, 1); /* the file: no temporary one was left */
}

static void test_json(void **state)
{
    (void)state;
    fail_each(use_json, check);
}

static void test_http_client(void **state)
{
    (void)state;
    setenv("TOMBOLA_TOKEN", "token", 1);
    fail_each(use_http_client, check);
    unsetenv("TOMBOLA_TOKEN");
}

static void test_request(void **state)
{
    (void)state;
    fail_each(use_request, check);
}

static void test_options(void **state)
{
    (void)state;
    static const char config[] = "{\"name\":\"x\",\"size\":5}";
    char path[300];
    snprintf(path, sizeof(path), "%s/config", folder);
    assert_ok(file_write_whole(path, config, sizeof(config) - 1));
    fail_each(use_options, check);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

static const struct CMUnitTest tests[] = {
    TEST(test_buffer),      TEST(test_array),   TEST(test_text_set),
    TEST(test_uri),         TEST(test_files),   TEST(test_json),
    TEST(test_http_client), TEST(test_options), TEST(test_request),
};

UNIT_MAIN(tests)
