/* SPDX-License-Identifier: MIT */
#include "loader/postgres/postgres_address.h"

#include "common/name_lookup.h"

enum error postgres_addresses_find(const char *host, int64_t deadline_ns,
                                   struct postgres_addresses *ret_addresses)
{
    struct addrinfo *list = NULL;
    ret_addresses->count = 0;
    enum error error = name_lookup(host, 0, deadline_ns, &list);
    if (error)
        return error;
    size_t count = 0;
    for (const struct addrinfo *one = list; one && count < POSTGRES_ADDRESSES_LIMIT;
         one = one->ai_next)
        count += getnameinfo(one->ai_addr, one->ai_addrlen, ret_addresses->texts[count],
                             POSTGRES_ADDRESS_BYTES, NULL, 0, NI_NUMERICHOST) == 0;
    freeaddrinfo(list);
    ret_addresses->count = count;
    return count > 0 ? OK : error_set(ERROR_NETWORK, "%s has no address: none was found", host);
}
