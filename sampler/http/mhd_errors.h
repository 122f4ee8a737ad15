/*
 * What libmicrohttpd answers by itself (a request line that is none, a header beyond its memory, a
 * broken chunk: 400, 413, 414, 431, 505), as application/problem+json like all our errors.
 *
 * It has no option for that, and queues its own HTML through its public MHD_queue_response(), which
 * the dynamic linker resolves to the one of mhd_errors.c: that one queues our body in its place.
 * Where the library was bound to itself (-Bsymbolic, or linked statically) its HTML remains, with
 * the same status.
 *
 * Of a malformed Content-Length it sends its answer's header twice (0.9.75: the state that queueing
 * it sets is overwritten right afterwards). So it does not get to see one: MHD_lookup_connection_
 * value_n() is ours, too, and calls it absent; framing.c finds it among all headers and refuses it.
 */
#ifndef SAMPLER_HTTP_MHD_ERRORS_H
#define SAMPLER_HTTP_MHD_ERRORS_H

#include <microhttpd.h>

#include "common/error.h"

/* Once, before a daemon is started. `answered` is told of each such answer. */
typedef void (*mhd_errors_listener)(struct MHD_Connection *connection, int status,
                                    size_t body_bytes);
enum error mhd_errors_install(mhd_errors_listener answered) MUST_CHECK;

/* The library's own MHD_queue_response(): for our answers. */
enum MHD_Result mhd_queue(struct MHD_Connection *connection, int status,
                          struct MHD_Response *response);

#endif
