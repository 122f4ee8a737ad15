/* SPDX-License-Identifier: MIT */
/*
 * Counts connections per client address: an IPv4 address, or the first 64 bits of an IPv6 address,
 * since whoever has one of those has them all. Only addresses with a connection use memory; a
 * lookup costs the logarithm of their number, whatever addresses clients choose.
 *
 * One thread at a time.
 */
#ifndef COMMON_HTTP_ADDRESSES_H
#define COMMON_HTTP_ADDRESSES_H

#include <stdint.h>
#include <sys/socket.h>

struct address {
    uint8_t bytes[16]; /* IPv4 mapped to IPv6: ::ffff:192.0.2.7 */
    int64_t count;     /* of its connections */
};

struct addresses {
    void *tree; /* of struct address, owned; NULL: none */
};

/* Counts a new connection. NULL: no memory, or not an internet address; it is not counted. */
struct address *addresses_enter(struct addresses *set, const struct sockaddr *peer);
/* A connection is closed; the last one frees the address. NULL is legal. */
void addresses_leave(struct addresses *set, struct address *address);

#endif
