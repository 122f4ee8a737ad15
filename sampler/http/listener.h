/* The socket that the server listens on. */
#ifndef SAMPLER_HTTP_LISTENER_H
#define SAMPLER_HTTP_LISTENER_H

#include <stdint.h>

#include "common/error.h"

#define LISTENER_URL_BYTES 300

/* Binds HOST:PORT (port 0: a free one) and listens. *ret_descriptor is the caller's to close;
 * `ret_url` is "http://HOST:PORT" with the real port. ERROR_NETWORK when the port is in use,
 * ERROR_USAGE when the host is not an address of this machine. */
enum error listener_open(const char *host, uint16_t port, int *ret_descriptor,
                         char ret_url[LISTENER_URL_BYTES]) MUST_CHECK;

#endif
