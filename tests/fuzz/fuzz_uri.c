/* SPDX-License-Identifier: MIT */
/* The first byte chooses: a store URI, or the query of a request. What was taken must be whole. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "common/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_query(struct uri_query *query)
{
    int64_t value = -1;
    bool flag = false;
    check(query->count <= URI_PARAMETERS_LIMIT);
    for (size_t i = 0; i < query->count; i++) {
        const struct uri_parameter *parameter = &query->parameters[i];
        check(parameter->key[0] != '\0');
        check(text_is_utf8(parameter->key, strlen(parameter->key)));
        check(text_is_utf8(parameter->value, strlen(parameter->value)));
        check(uri_query_get(query, parameter->key) == parameter->value);
    }
    if (!uri_query_integer(query, "size", 1, 1000000, 100, &value))
        check(value >= 1 && value <= 1000000);
    if (uri_query_boolean(query, "sort", false, &flag))
        check(error_message()[0] != '\0');
    check(!uri_query_finish(query));
}

static void run_query(const char *text)
{
    struct uri_query query;
    if (uri_query_init(&query, text))
        return;
    if (uri_query_finish(&query)) /* nobody asked yet */
        check(query.count > 0);
    check_query(&query);
    uri_query_release(&query);
}

static void run_uri(const char *text)
{
    struct uri uri;
    if (uri_init(&uri, text))
        return;
    check(uri.path[0] != '\0');
    check_query(&uri.query);
    uri_release(&uri);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length == 0)
        return 0;
    char *text = malloc(length);
    if (!text)
        return 0;
    memcpy(text, data + 1, length - 1);
    text[length - 1] = '\0';
    if (data[0] == 'q')
        run_query(text);
    else
        run_uri(text);
    free(text);
    return 0;
}
