/* SPDX-License-Identifier: MIT */
#include "trainer/wire/hello.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

static const char *password(void)
{
    const char *token = getenv("TOMBOLA_TOKEN");
    return token ? token : "";
}

enum error hello_print(const struct hello *hello, struct buffer *out)
{
    buffer_print(
        out,
        "{\"role\":\"%s\",\"index\":%" PRId64 ",\"server\":%" PRId64 ",\"servers\":%" PRId64
        ",\"aggregate\":%" PRId64 ",\"staleness\":%" PRId64 ",\"train_steps\":%" PRId64
        ",\"saved\":%d,\"grouped\":%d,\"round_robin\":%d,\"bad_rows\":%d,\"generation\":\"%" PRIx64
        "\",\"token\":",
        hello->role, hello->index, hello->server, hello->servers, hello->aggregate,
        hello->staleness, hello->train_steps, hello->was_saved, hello->is_grouped,
        hello->round_robin, (int)hello->bad_rows, hello->generation);
    json_add_string(out, password());
    return buffer_add_text(out, "}");
}

/* In constant time, whether the texts are equal or not. */
static bool same(const char *theirs, const char *ours)
{
    size_t length = strlen(ours);
    unsigned different = strlen(theirs) != length;
    for (size_t i = 0; i < length; i++)
        different |= (unsigned)(theirs[different ? 0 : i] ^ ours[i]);
    return different == 0;
}

static enum error check_password(const char *theirs)
{
    const char *ours = password();
    if (!ours[0] || same(theirs, ours))
        return OK;
    return error_set(ERROR_CONFLICT,
                     "%s: all processes of a training have the same one in their environment",
                     theirs[0] ? "another TOMBOLA_TOKEN than this server's" : "no TOMBOLA_TOKEN");
}

static bool is_role(const char *role)
{
    static const char *const roles[] = {"worker", "chief", "master", "ps", "evaluator"};
    size_t count = sizeof(roles) / sizeof(*roles), i = 0;
    while (i < count && strcmp(role, roles[i]) != 0)
        i++;
    return i < count;
}

static enum error read_members(const cJSON *json, struct hello *hello)
{
    const char *role = "", *generation = "", *token = "";
    int64_t round_robin = 0, grouped = 0, saved = 0, bad_rows = 0;
    const struct {
        const char *name;
        int64_t *value;
    } integers[] = {{"index", &hello->index},
                    {"server", &hello->server},
                    {"servers", &hello->servers},
                    {"aggregate", &hello->aggregate},
                    {"staleness", &hello->staleness},
                    {"train_steps", &hello->train_steps},
                    {"saved", &saved},
                    {"grouped", &grouped},
                    {"round_robin", &round_robin},
                    {"bad_rows", &bad_rows}};
    enum error error = json_get_text(json, "role", "HELLO", &role);
    for (size_t i = 0; i < sizeof(integers) / sizeof(*integers) && !error; i++)
        error = json_get_integer(json, integers[i].name, "HELLO", integers[i].value);
    hello->was_saved = saved != 0;
    hello->is_grouped = grouped != 0;
    hello->round_robin = round_robin != 0;
    hello->bad_rows = (enum bad_rows)bad_rows;
    if (!error)
        error = json_get_text(json, "generation", "HELLO", &generation);
    if (!error)
        error = json_get_text(json, "token", "HELLO", &token);
    if (!error)
        error = check_password(token);
    if (error)
        return error;
    char *end;
    hello->generation = strtoull(generation, &end, 16);
    if (*end || !is_role(role) || hello->index < 0)
        return error_set(ERROR_INPUT, "HELLO of %.20s %" PRId64 " with generation %.20s", role,
                         hello->index, generation);
    snprintf(hello->role, sizeof(hello->role), "%s", role);
    return OK;
}

enum error hello_parse(const char *payload, size_t bytes, struct hello *ret_hello)
{
    struct hello hello = {.index = 0};
    cJSON *json = NULL;
    enum error error = json_parse(payload, bytes, "HELLO", &json);
    if (!error)
        error = read_members(json, &hello);
    cJSON_Delete(json);
    if (!error)
        *ret_hello = hello;
    return error;
}
