/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <strings.h>

#include "common/http_client.h"
#include "common/json.h"
#include "common/text.h"

#define PROBLEM_BYTES 200

void http_response_release(struct http_response *response)
{
    buffer_release(&response->body);
    buffer_release(&response->headers);
}

bool http_response_header(const struct http_response *response, const char *name, char *out,
                          size_t bytes)
{
    size_t name_length = strlen(name);
    const char *line = response->headers.length > 0 ? response->headers.data : NULL;
    while (line && *line) {
        size_t length = strcspn(line, "\r\n");
        if (length > name_length && line[name_length] == ':' &&
            strncasecmp(line, name, name_length) == 0) {
            const char *value = line + name_length + 1;
            const char *end = line + length;
            value += strspn(value, " \t");
            while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
                end--;
            size_t value_length = end > value ? (size_t)(end - value) : 0;
            if (value_length >= bytes)
                return false; /* a cut value would be another value */
            memcpy(out, value, value_length);
            out[value_length] = '\0';
            return true;
        }
        line += length;
        line += strspn(line, "\r\n");
    }
    return false;
}

/* Whatever it is that a proxy answers: UTF-8 and no control characters go into messages. */
static void copy_printable(char *out, size_t bytes, const char *text, size_t length)
{
    size_t count = length < bytes - 1 ? length : bytes - 1;
    while (count > 0 && count < length && ((unsigned char)text[count] & 0xc0) == 0x80)
        count--; /* cuts before a character */
    bool utf8 = text_is_utf8(text, count);
    while (count > 0 && strchr(" \t\r\n", text[count - 1]))
        count--;
    for (size_t i = 0; i < count; i++) {
        unsigned char letter = (unsigned char)text[i];
        out[i] = letter < 0x20 || letter == 0x7f || (letter > 0x7f && !utf8) ? '?' : text[i];
    }
    out[count] = '\0';
}

void http_response_problem(const struct http_response *response, char *out, size_t bytes)
{
    const struct buffer *body = &response->body;
    const char *text = NULL;
    cJSON *json = NULL;
    struct error_report before; /* perhaps of this response; whatever it is, may be no JSON */
    if (bytes == 0)
        return;
    error_report_take(OK, &before);
    if (body->length > 0 && !json_parse(body->data, body->length, "the answer", &json) &&
        json_get_text(json, "detail", "the answer", &text) &&
        json_get_text(json, "title", "the answer", &text))
        text = NULL;
    if (text)
        copy_printable(out, bytes, text, strlen(text));
    else
        copy_printable(out, bytes <= PROBLEM_BYTES ? bytes : PROBLEM_BYTES + 1, body->data,
                       body->length);
    cJSON_Delete(json);
    (void)error_restore(&before);
}
