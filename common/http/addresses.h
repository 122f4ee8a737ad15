/* SPDX-License-Identifier: MIT */
/*
 * How many connections each client's address has. An address is one of IPv4, or the first 64 bits
 * of one of IPv6: whoever has one of those has them all. Only those that have a connection take
 * memory; a search costs the logarithm of their number, whoever chooses them.
 *
 * Threads: one at a time.
 */
#ifndef COMMON_HTTP_ADDRESSES_H
#define COMMON_HTTP_ADDRESSES_H

#include <stdint.h>
#include <sys/socket.h>

struct address {
    uint8_t bytes[16]; /* IPv4 as IPv6 writes it: ::ffff:192.0.2.7 */
    int64_t count;     /* of its connections */
};

struct addresses {
    void *tree; /* of struct address, owned; NULL: none */
};

/* One connection more. NULL: no memory, or no internet address; it is not counted. */
struct address *addresses_enter(struct addresses *set, const struct sockaddr *peer);
/* It is closed; the last one frees the address. NULL is legal. */
void addresses_leave(struct addresses *set, struct address *address);

#endif
