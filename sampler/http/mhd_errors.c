#include "sampler/http/mhd_errors.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "common/buffer.h"
#include "common/http_problem.h"
#include "common/text.h"

#define PROBLEM_LIMIT_BYTES 4096

typedef enum MHD_Result (*queue_function)(struct MHD_Connection *, unsigned int,
                                          struct MHD_Response *);

typedef enum MHD_Result (*lookup_function)(struct MHD_Connection *, enum MHD_ValueKind,
                                           const char *, size_t, const char **, size_t *);

static queue_function library_queue;
static lookup_function library_lookup;
static mhd_errors_listener listener;

static enum error find_function(const char *name, void **ret_found)
{
    *ret_found = dlsym(RTLD_NEXT, name);
    if (*ret_found)
        return OK;
    return error_set(ERROR_UNAVAILABLE, "libmicrohttpd has no %s: %s", name, dlerror());
}

enum error mhd_errors_install(mhd_errors_listener answered)
{
    void *queue = NULL;
    void *lookup = NULL;
    enum error error = find_function("MHD_queue_response", &queue);
    if (!error)
        error = find_function("MHD_lookup_connection_value_n", &lookup);
    if (error)
        return error;
    memcpy(&library_queue, &queue, sizeof(queue)); /* ISO C has no cast from void * to functions */
    memcpy(&library_lookup, &lookup, sizeof(lookup));
    listener = answered;
    return OK;
}

enum MHD_Result mhd_queue(struct MHD_Connection *connection, int status,
                          struct MHD_Response *response)
{
    return library_queue(connection, (unsigned int)status, response);
}

static const char *detail_of(int status)
{
    switch (status) {
    case MHD_HTTP_CONTENT_TOO_LARGE:
        return "the announced body or chunk is longer than 1048576 bytes";
    case MHD_HTTP_URI_TOO_LONG:
        return "the request line is longer than 6000 bytes";
    case MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE:
        return "the request's header is longer than 8192 bytes";
    case MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED:
        return "HTTP/1.1 and HTTP/1.0 are spoken here";
    case MHD_HTTP_BAD_REQUEST:
        return "this is not a request as RFC 9112 defines it: request line, a header line, "
               "Content-Length or a chunk is malformed";
    default:
        return "the request cannot be answered";
    }
}

static struct MHD_Response *problem_response(int status, size_t *ret_bytes)
{
    struct buffer body = BUFFER_INIT(PROBLEM_LIMIT_BYTES);
    struct MHD_Response *response = NULL;
    if (!http_problem_add(&body, status, NULL, detail_of(status)))
        response = MHD_create_response_from_buffer(body.length, body.data, MHD_RESPMEM_MUST_COPY);
    *ret_bytes = body.length;
    buffer_release(&body);
    if (response && MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                            HTTP_PROBLEM_CONTENT_TYPE) != MHD_YES) {
        MHD_destroy_response(response);
        return NULL;
    }
    return response;
}

/* The library's calls land here; ours go through mhd_queue(). */
__attribute__((visibility("default"))) enum MHD_Result
MHD_queue_response(struct MHD_Connection *connection, unsigned int status_code,
                   struct MHD_Response *response)
{
    size_t bytes;
    struct MHD_Response *problem = problem_response((int)status_code, &bytes);
    if (!problem)
        return library_queue(connection, status_code, response);
    listener(connection, (int)status_code, bytes);
    enum MHD_Result result = library_queue(connection, status_code, problem);
    MHD_destroy_response(problem);
    return result;
}

/* The library answers any other with 413, or 400. */
static bool is_body_length(const char *value, size_t value_bytes)
{
    int64_t bytes;
    return value && text_parse_integer(value, value_bytes, 0, INT64_MAX, &bytes);
}

__attribute__((visibility("default"))) enum MHD_Result
MHD_lookup_connection_value_n(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                              const char *key, size_t key_size, const char **value_ptr,
                              size_t *value_size_ptr)
{
    static const char name[] = MHD_HTTP_HEADER_CONTENT_LENGTH;
    const char *value = NULL;
    size_t value_bytes = 0;
    enum MHD_Result found = library_lookup(connection, kind, key, key_size, &value, &value_bytes);
    if (found == MHD_YES && kind == MHD_HEADER_KIND && key && key_size == sizeof(name) - 1 &&
        strncasecmp(key, name, key_size) == 0 && !is_body_length(value, value_bytes))
        return MHD_NO;
    if (found == MHD_YES && value_ptr)
        *value_ptr = value;
    if (found == MHD_YES && value_size_ptr)
        *value_size_ptr = value_bytes;
    return found;
}
