/* SPDX-License-Identifier: MIT */
/* GET /openapi.json: sampler/api/openapi.json, with this server's version and size limit. */
#include <inttypes.h>
#include <string.h>

#include "common/http/response.h"
#include "config.h"
#include "sampler/api/handler.h"
#include "sampler/api/openapi_text.h"
#include "sampler/api/routes.h"

#define BODY_LIMIT_BYTES ((size_t)1 << 20)

/* Copies up to `mark`, which must be in the text, and skips it. */
static void copy_until(struct buffer *body, const char **text, const char *mark)
{
    const char *found = strstr(*text, mark);
    buffer_add(body, *text, (size_t)(found - *text));
    *text = found + strlen(mark);
}

enum MHD_Result route_openapi(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    const char *text = openapi_text;
    enum error error = handler_refuse_query(request);
    copy_until(&body, &text, "@VERSION@");
    buffer_add_text(&body, PACKAGE_VERSION);
    copy_until(&body, &text, "1000000");
    buffer_print(&body, "%" PRId64, service->max_size);
    buffer_add_text(&body, text);
    return response_json(request, error, MHD_HTTP_OK, &body, NULL);
}
