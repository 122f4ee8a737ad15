/* SPDX-License-Identifier: MIT */
/* GET /streams/NAME/readers: the readers by index. A thread pool makes long lists. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/http/response.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"

#define BODY_LIMIT_BYTES ((size_t)8 << 20)
#define READERS_AT_ONCE 200 /* more would block an HTTP thread for too long */

/* Names need no escapes: [A-Za-z0-9._:-]. */
static void add_reader(struct buffer *body, const struct reader *reader, int64_t now_ns)
{
    buffer_print(body,
                 "{\"worker\":\"%s\",\"batches\":%" PRId64 ",\"ids\":%" PRId64
                 ",\"ids_per_s\":%.1f,\"newest\":%" PRId64 ",\"seen_ms\":%" PRId64 "}",
                 reader->worker, reader->batches, reader->ids, reader_ids_per_s(reader, now_ns),
                 reader->newest, reader_seen_ms(reader, now_ns));
}

static enum error add_readers(struct request *request, const _Atomic bool *stop)
{
    struct buffer *body = &request->body;
    struct reader *list = NULL;
    size_t count = 0;
    (void)stop;
    enum error error = readers_list(stream_readers(request->api->stream), &list, &count);
    if (error)
        return error;
    int64_t now_ns = clock_now_ns();
    buffer_add_text(body, "{\"readers\":[");
    for (size_t i = 0; i < count; i++) {
        buffer_add_text(body, i > 0 ? "," : "");
        add_reader(body, &list[i], now_ns);
    }
    free(list);
    return buffer_add_text(body, "]}\n");
}

enum MHD_Result route_stream_readers(struct request *request, struct service *service)
{
    request->body = (struct buffer)BUFFER_INIT(BODY_LIMIT_BYTES);
    enum error error = handler_take_stream(request, service, request->name);
    if (!error)
        error = handler_refuse_query(request);
    if (error)
        return response_error(request, error);
    return handler_respond_text(request, add_readers,
                                readers_count(stream_readers(request->api->stream)) >
                                    READERS_AT_ONCE);
}
