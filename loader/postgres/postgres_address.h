/* SPDX-License-Identifier: MIT */
/* The addresses of a host name, as libpq takes them. */
#ifndef LOADER_POSTGRES_POSTGRES_ADDRESS_H
#define LOADER_POSTGRES_POSTGRES_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define POSTGRES_ADDRESS_BYTES 80   /* of an IPv6 address with its scope, as text */
#define POSTGRES_ADDRESSES_LIMIT 16 /* further ones are not tried */

struct postgres_addresses {
    char texts[POSTGRES_ADDRESSES_LIMIT][POSTGRES_ADDRESS_BYTES]; /* [count], as numbers */
    size_t count;
};

/* Errors as name_lookup(). */
enum error postgres_addresses_find(const char *host, int64_t deadline_ns,
                                   struct postgres_addresses *ret_addresses) MUST_CHECK;

#endif
