/* SPDX-License-Identifier: MIT */
#include "common/http/addresses.h"

#include <netinet/in.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *left, const void *right)
{
    const struct address *a = left;
    const struct address *b = right;
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

static bool read_peer(const struct sockaddr *peer, uint8_t ret_bytes[16])
{
    static const uint8_t four_begins[12] = {[10] = 0xff, [11] = 0xff};
    memset(ret_bytes, 0, 16);
    if (peer && peer->sa_family == AF_INET) {
        memcpy(ret_bytes, four_begins, sizeof(four_begins));
        memcpy(ret_bytes + 12, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
        return true;
    }
    if (!peer || peer->sa_family != AF_INET6)
        return false;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
    memcpy(ret_bytes, six, IN6_IS_ADDR_V4MAPPED(six) ? 16 : 8);
    return true;
}

struct address *addresses_enter(struct addresses *set, const struct sockaddr *peer)
{
    struct address key = {.count = 0};
    if (!read_peer(peer, key.bytes))
        return NULL;
    struct address **found = tfind(&key, &set->tree, compare);
    if (!found) {
        struct address *address = malloc(sizeof(*address));
        if (!address)
            return NULL;
        *address = key;
        found = tsearch(address, &set->tree, compare);
        if (!found) {
            free(address);
            return NULL;
        }
    }
    (*found)->count++;
    return *found;
}

void addresses_leave(struct addresses *set, struct address *address)
{
    if (!address || --address->count > 0)
        return;
    (void)tdelete(address, &set->tree, compare);
    free(address);
}
