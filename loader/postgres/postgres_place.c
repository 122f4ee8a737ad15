/* SPDX-License-Identifier: MIT */
#include "loader/postgres/postgres_place.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"

#define CONNECT_LIMIT_S 1000000

/* ---- parameters --------------------------------------------------------- */

/* "//user:secret@host/db" as "//user@host/db", also if the secret has an '@' or '/' that should be
 * written otherwise. */
static char *without_password(const char *path)
{
    char *shown = strdup(path);
    char *colon = shown ? strchr(shown, ':') : NULL;
    char *at = colon ? strrchr(colon, '@') : NULL;
    if (at)
        memmove(colon, at, strlen(at) + 1);
    return shown;
}

/* libpq's own message would show the password. */
static enum error check_uri(const struct postgres_place *place, const char *whole)
{
    char *words = NULL;
    PQconninfoOption *options = PQconninfoParse(whole, &words);
    enum error error = OK;
    if (!options && (!words || strstr(words, "out of memory")))
        error = error_set_memory(strlen(whole), "a server's place");
    else if (!options)
        error = error_set(ERROR_USAGE,
                          "postgresql:%s cannot be read; it should be postgresql://USER:PASSWORD@"
                          "HOST:PORT/DATABASE, with %%25 for '%%', %%40 for '@', %%2F for '/'",
                          place->shown);
    PQconninfoFree(options);
    PQfreemem(words);
    return error;
}

static enum error add(struct postgres_place *place, const char *key, const char *value)
{
    char *keyword = strdup(key);
    char *copy = strdup(value);
    if (!keyword || !copy) {
        free(keyword);
        free(copy);
        return error_set_memory(strlen(value), "a server's place");
    }
    place->keys[place->count] = keyword;
    place->values[place->count++] = copy;
    return OK;
}

static enum error add_known(struct postgres_place *place, struct uri_query *query)
{
    enum error error = OK;
    PQconninfoOption *known = PQconndefaults();
    if (!known)
        return error_set_memory(1, "libpq's parameters");
    for (size_t i = 0; i < query->count && !error; i++) {
        struct uri_parameter *parameter = &query->parameters[i];
        for (PQconninfoOption *option = known; option->keyword && !error; option++) {
            if (strcmp(option->keyword, parameter->key) != 0 ||
                strcmp(option->keyword, "dbname") == 0)
                continue;
            parameter->known = true;
            error = add(place, parameter->key, parameter->value);
        }
    }
    PQconninfoFree(known);
    return error;
}

/* ---- hosts -------------------------------------------------------------- */

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword; options++) {
        if (strcmp(options->keyword, keyword) == 0)
            return options->val ? options->val : "";
    }
    return "";
}

/* "a,b" as "a" and "b", one after the other; how many there are. */
static enum error cut_list(const char *text, char **ret_list, size_t *ret_count)
{
    char *list = strdup(text);
    size_t count = 1;
    if (!list)
        return error_set_memory(strlen(text), "a server's hosts");
    for (char *at = list; (at = strchr(at, ',')); at++, count++)
        *at = '\0';
    *ret_list = list;
    *ret_count = count;
    return OK;
}

/* The next of a list; a single one is for all. */
static const char *next_of(const char *at, size_t count)
{
    return count > 1 ? at + strlen(at) + 1 : at;
}

/* libpq reports lists of different lengths: it gets them unchanged. */
static enum error take_hosts(struct postgres_place *place, const PQconninfoOption *options)
{
    static const char *const keywords[] = {"host", "hostaddr", "port"};
    size_t counts[3] = {0};
    const char *at[3];
    enum error error = OK;
    for (size_t i = 0; i < 3 && !error; i++) {
        error = cut_list(value_of(options, keywords[i]), &place->lists[i], &counts[i]);
        at[i] = place->lists[i];
    }
    if (error)
        return error;
    size_t count = counts[0] > counts[1] ? counts[0] : counts[1];
    struct postgres_hosts *hosts =
        array_new(1, sizeof(*hosts) + count * sizeof(hosts->list[0]), "a server's hosts");
    if (!hosts)
        return ERROR_MEMORY;
    place->hosts = hosts;
    for (size_t i = 0; i < 3; i++) {
        if (counts[i] != count && (counts[i] > 1 || (i < 2 && at[i][0])))
            return OK;
    }
    for (; hosts->count < count; hosts->count++) {
        hosts->list[hosts->count] =
            (struct postgres_host){.name = at[0], .address = at[1], .port = at[2]};
        for (size_t i = 0; hosts->count + 1 < count && i < 3; i++)
            at[i] = next_of(at[i], counts[i]);
    }
    return OK;
}

/* As libpq, which takes 1 for 2 and anything below for no limit. */
static int64_t read_timeout_ms(const char *text)
{
    int64_t seconds = 0;
    if (!text_parse_integer(text, strlen(text), 1, CONNECT_LIMIT_S, &seconds))
        return POSTGRES_CONNECT_MS;
    return (seconds < 2 ? 2 : seconds) * 1000;
}

/* How libpq combines URI, parameters, environment and service file: it has done so when it refuses
 * an invalid sslmode, which it does before it contacts any server. */
static enum error find_hosts(struct postgres_place *place)
{
    const char *keys[URI_PARAMETERS_LIMIT + 8], *values[URI_PARAMETERS_LIMIT + 8];
    memcpy(keys, place->keys, sizeof(place->keys));
    memcpy(values, place->values, sizeof(place->values));
    keys[place->count] = "sslmode";
    values[place->count] = "none of them";
    keys[place->count + 1] = NULL;
    PGconn *connection = PQconnectStartParams(keys, values, 1);
    PQconninfoOption *options = connection ? PQconninfo(connection) : NULL;
    enum error error = options ? take_hosts(place, options) : error_set_memory(1, "a connection");
    if (!error) {
        place->connect_ms = read_timeout_ms(value_of(options, "connect_timeout"));
        place->prefers_standby =
            strcmp(value_of(options, "target_session_attrs"), "prefer-standby") == 0;
    }
    PQconninfoFree(options);
    PQfinish(connection);
    return error;
}

/* ---- life ---------------------------------------------------------------- */

enum error postgres_place_init(struct postgres_place *place, struct uri *uri)
{
    char whole[4096];
    *place = (struct postgres_place){.shown = without_password(uri->path)};
    snprintf(whole, sizeof(whole), "postgresql:%s", uri->path);
    enum error error = place->shown ? OK : error_set_memory(strlen(uri->path), "a server's place");
    if (!error && strlen(uri->path) + 16 > sizeof(whole))
        error = error_set(ERROR_USAGE, "a postgresql: URI of over %zu bytes", sizeof(whole));
    if (!error)
        error = check_uri(place, whole);
    if (!error)
        error = add(place, "dbname", whole); /* libpq takes a whole URI as this */
    if (!error)
        error = add_known(place, &uri->query);
    if (!error)
        error = find_hosts(place);
    if (error)
        postgres_place_release(place);
    return error;
}

void postgres_place_release(struct postgres_place *place)
{
    for (size_t i = 0; i < place->count; i++) {
        free((char *)place->keys[i]);
        free(place->values[i]);
    }
    for (size_t i = 0; i < 3; i++)
        free(place->lists[i]);
    free(place->hosts);
    free(place->shown);
    *place = (struct postgres_place){.shown = NULL};
}
