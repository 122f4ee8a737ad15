/* SPDX-License-Identifier: MIT */
#include "loader/column/row_limit.h"

#include <string.h>

#include "common/text.h"

enum error row_limit_read(struct row_limit *limit, struct uri *uri)
{
    const char *value = uri_query_get(&uri->query, "longest");
    char shown[TEXT_QUOTE_BYTES];
    int64_t longest;
    *limit = (struct row_limit){.lengths = LENGTHS_ALIKE};
    if (!value)
        return OK;
    if (strcmp(value, "any") == 0) {
        *limit = (struct row_limit){LENGTHS_VARY, ROW_LIMIT_MOST};
        return OK;
    }
    if (!text_parse_integer(value, strlen(value), 1, (int64_t)ROW_LIMIT_MOST, &longest))
        return error_set(ERROR_USAGE,
                         "longest is %s, must be any, or the length of the longest row "
                         "that may come, from 1 to %zu",
                         text_quote(shown, sizeof(shown), value, strlen(value)), ROW_LIMIT_MOST);
    *limit = (struct row_limit){LENGTHS_LIMITED, (size_t)longest};
    return OK;
}

enum error row_limit_refuse(const struct row_limit *limit, size_t length)
{
    if (limit->lengths == LENGTHS_LIMITED)
        return error_set(ERROR_INPUT,
                         "the row has %zu features, and longest=%zu allows %zu; longest=%zu or "
                         "longest=any would take it",
                         length, limit->longest, limit->longest, length);
    return error_set(ERROR_INPUT, "the row has %zu features; rows of up to %zu are possible",
                     length, limit->longest);
}
