/* SPDX-License-Identifier: MIT */
/*
 * The live page: GET / for browsers, its style and its script. The same bytes for everyone, so that
 * they need no token; its data comes from /live.json, which does.
 */
#include <string.h>
#include <strings.h>

#include "common/http/response.h"
#include "common/text.h"
#include "sampler/api/handler.h"
#include "sampler/api/page_files.h"
#include "sampler/api/routes.h"

/* Allows only this server's own files, and nothing injected into the page. */
#define POLICY                                                                      \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " \
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static enum MHD_Result respond_file(struct request *request, const char *content_type,
                                    const struct page_file *file)
{
    static const struct response_header headers[] = {
        {"Content-Security-Policy", POLICY},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache"}, /* a new server may have a new page */
        {MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT},
    };
    request->output = http_thread_output_take(request->thread, file->length);
    if (!request->output)
        return response_error(request, ERROR_MEMORY);
    memcpy(request->output->bytes, file->bytes, file->length);
    request->output_bytes = file->length;
    return response_output(request, content_type, headers, sizeof(headers) / sizeof(headers[0]));
}

/* Does this media range, "text/html;q=0.9", take HTML? Ranges with '*' do not: curl sends one. */
static bool range_is_html(const char *range, size_t length)
{
    static const char html[] = "text/html";
    while (length > 0 && (*range == ' ' || *range == '\t')) {
        range++;
        length--;
    }
    size_t name = strcspn(range, ";, \t");
    if (name != sizeof(html) - 1 || strncasecmp(range, html, name) != 0)
        return false;
    const char *quality = memmem(range, length, "q=", 2);
    double value;
    if (!quality)
        return true;
    size_t digits = strspn(quality + 2, "0123456789.");
    return text_parse_real(quality + 2, digits, &value) && value > 0;
}

static bool wants_html(const struct request *request)
{
    char list[REQUEST_LIST_BYTES];
    const char *accept = list;
    request_header_list(request, MHD_HTTP_HEADER_ACCEPT, list);
    while (*accept) {
        size_t length = strcspn(accept, ",");
        if (range_is_html(accept, length))
            return true;
        accept += length + (accept[length] == ',' ? 1 : 0);
    }
    return false;
}

enum MHD_Result route_page(struct request *request, struct service *service)
{
    if (!wants_html(request))
        return route_root(request, service);
    enum error error = handler_refuse_query(request);
    if (error)
        return response_error(request, error);
    return respond_file(request, "text/html; charset=utf-8", &page_html);
}

enum MHD_Result route_page_style(struct request *request, struct service *service)
{
    (void)service;
    return respond_file(request, "text/css; charset=utf-8", &page_css);
}

enum MHD_Result route_page_script(struct request *request, struct service *service)
{
    (void)service;
    return respond_file(request, "text/javascript; charset=utf-8", &page_js);
}
