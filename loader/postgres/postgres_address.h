/* SPDX-License-Identifier: MIT */
/* A host's addresses, in libpq's form. */
#ifndef LOADER_POSTGRES_POSTGRES_ADDRESS_H
#define LOADER_POSTGRES_POSTGRES_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define POSTGRES_ADDRESS_BYTES 80   /* an IPv6 address with its scope, as text */
#define POSTGRES_ADDRESSES_LIMIT 16 /* further ones are ignored */

struct postgres_addresses {
    char texts[POSTGRES_ADDRESSES_LIMIT][POSTGRES_ADDRESS_BYTES]; /* [count], numeric */
    size_t count;
};

/* Errors as for name_lookup(). */
enum error postgres_addresses_find(const char *host, int64_t deadline_ns,
                                   struct postgres_addresses *ret_addresses) MUST_CHECK;

#endif
