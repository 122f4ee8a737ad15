/* SPDX-License-Identifier: MIT */
#include "common/http/http_problem.h"

#include <stddef.h>

#include "common/json.h"

static const struct {
    int status;
    const char *title;
} titles[] = {
    {200, "OK"},
    {201, "Created"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *http_status_title(int status)
{
    for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
        if (titles[i].status == status)
            return titles[i].title;
    }
    return "Error";
}

int http_status_of_error(enum error error)
{
    switch (error) {
    case ERROR_USAGE:
    case ERROR_INPUT:
        return 400;
    case ERROR_NOT_FOUND:
        return 404;
    case ERROR_CONFLICT:
        return 409;
    case ERROR_NO_SPACE:
        return 507;
    case ERROR_IO:
    case ERROR_MEMORY:
    case ERROR_UNAVAILABLE:
    case ERROR_TIMEOUT:
    case ERROR_CANCELLED:
        return 503;
    default:
        return 500;
    }
}

enum error http_problem_add(struct buffer *buffer, int status, const char *kind, const char *detail)
{
    buffer_print(buffer, "{\"type\":\"%s%s\",\"title\":", kind ? "/problems/" : "about:",
                 kind ? kind : "blank");
    json_add_string(buffer, http_status_title(status));
    buffer_print(buffer, ",\"status\":%d,\"detail\":", status);
    json_add_string(buffer, detail);
    return buffer_add_text(buffer, "}\n");
}
