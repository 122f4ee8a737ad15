/* SPDX-License-Identifier: MIT */
#include "trainer/server/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"

enum error peer_new(int descriptor, const char *address, struct peer **ret_peer)
{
    struct peer *peer = array_new(1, sizeof(*peer), "a connection");
    if (!peer) {
        close(descriptor);
        return ERROR_MEMORY;
    }
    peer->descriptor = descriptor;
    peer->asked_ns = clock_now_ns();
    snprintf(peer->name, sizeof(peer->name), "%s", address);
    *ret_peer = peer;
    return OK;
}

void peer_free(struct peer *peer)
{
    if (!peer)
        return;
    if (peer->descriptor >= 0)
        close(peer->descriptor);
    index_set_release(&peer->holder.held);
    shared_memory_release(&peer->shared);
    free(peer->payload);
    free(peer->unsent);
    free(peer);
}

/* ---- reading ------------------------------------------------------------ */

static enum error gone(const struct peer *peer, int number)
{
    if (number == 0)
        return error_set(ERROR_NETWORK, "%s closed the connection", peer->name);
    (void)error_set_errno(ERROR_NETWORK, number, "%s", peer->name);
    return ERROR_NETWORK; /* for lack of memory, too: others may go on */
}

/* Reads up to `bytes` into `to`; *ret_got 0: nothing is available now. */
static enum error take(const struct peer *peer, void *to, size_t bytes, size_t *ret_got)
{
    ssize_t got;
    do {
        got = recv(peer->descriptor, to, bytes, 0);
    } while (got < 0 && errno == EINTR);
    if (got == 0)
        return gone(peer, 0);
    if (got < 0 && errno != EAGAIN)
        return gone(peer, errno);
    *ret_got = got > 0 ? (size_t)got : 0;
    return OK;
}

/* Makes room for the payload that the header announces. */
static enum error make_room(struct peer *peer)
{
    void *payload = peer->payload;
    enum error error =
        array_grow(&payload, &peer->capacity, peer->header.bytes + 1, 1, "a frame of a peer");
    peer->payload = payload;
    return error;
}

static enum error read_header(struct peer *peer,
                              uint64_t (*limit)(void *context, const struct peer *peer,
                                                enum wire_type type),
                              void *context, size_t *ret_got)
{
    struct wire_header *header = &peer->header;
    enum error error = take(peer, (char *)header + peer->header_bytes,
                            sizeof(*header) - peer->header_bytes, ret_got);
    if (error)
        return error;
    peer->header_bytes += *ret_got;
    if (peer->header_bytes < sizeof(*header))
        return OK;
    error = wire_header_check(header, UINT64_MAX);
    if (!error)
        error = wire_header_check(header, limit(context, peer, header->type));
    if (error)
        return error_prefix(error, "%s: ", peer->name);
    peer->whole = header->bytes == 0;
    return make_room(peer);
}

enum error peer_read(struct peer *peer,
                     uint64_t (*limit)(void *context, const struct peer *peer, enum wire_type type),
                     void *context)
{
    while (!peer->whole) {
        size_t got = 0;
        enum error error = OK;
        if (peer->header_bytes < sizeof(peer->header)) {
            error = read_header(peer, limit, context, &got);
        } else {
            error = take(peer, peer->payload + peer->payload_bytes,
                         peer->header.bytes - peer->payload_bytes, &got);
            peer->payload_bytes += got;
            peer->whole = peer->payload_bytes == peer->header.bytes;
        }
        if (error || got == 0)
            return error;
    }
    peer->asked_ns = clock_now_ns();
    return OK;
}

enum error peer_read_set(const struct peer *peer, struct index_set *set)
{
    if (peer->header.stock > peer->payload_bytes / sizeof(struct index_range))
        return error_set(ERROR_INPUT, "%s with %u ranges in %zu bytes",
                         wire_type_name(peer->header.type), peer->header.stock,
                         peer->payload_bytes);
    return wire_ranges_read(peer->payload, peer->header.stock, set);
}

void peer_next(struct peer *peer)
{
    peer->whole = peer->waits = peer->counted = false;
    peer->header_bytes = peer->payload_bytes = 0;
    peer->asked_ns = clock_now_ns();
}

/* ---- sending ------------------------------------------------------------ */

bool peer_has_unsent(const struct peer *peer)
{
    return peer->unsent_begin < peer->unsent_end;
}

bool peer_may_ask(const struct peer *peer)
{
    return !peer->waits && (peer->kind == PEER_SERVER || !peer_has_unsent(peer));
}

static enum error keep(struct peer *peer, const void *bytes, size_t length)
{
    void *unsent = peer->unsent;
    enum error error = array_grow(&unsent, &peer->unsent_capacity, peer->unsent_end + length, 1,
                                  "what a peer is to get");
    peer->unsent = unsent;
    if (error)
        return error;
    memcpy(peer->unsent + peer->unsent_end, bytes, length);
    peer->unsent_end += length;
    return OK;
}

enum error peer_flush(struct peer *peer)
{
    while (peer_has_unsent(peer)) {
        ssize_t sent = send(peer->descriptor, peer->unsent + peer->unsent_begin,
                            peer->unsent_end - peer->unsent_begin, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            return OK;
        if (sent < 0 && errno != EINTR)
            return gone(peer, errno);
        if (sent > 0)
            peer->unsent_begin += (size_t)sent;
    }
    peer->unsent_begin = peer->unsent_end = 0;
    return OK;
}

/* Keeps all but the first `sent` bytes of the parts. */
static enum error keep_rest(struct peer *peer, const struct iovec *parts, size_t count, size_t sent)
{
    enum error error = OK;
    for (size_t i = 0; i < count && !error; i++) {
        size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;
        sent -= skip;
        if (skip < parts[i].iov_len)
            error = keep(peer, (const char *)parts[i].iov_base + skip, parts[i].iov_len - skip);
    }
    return error;
}

enum error peer_send(struct peer *peer, struct wire_header *header, const struct iovec *parts,
                     size_t count)
{
    struct iovec all[1 + WIRE_PARTS_LIMIT];
    struct msghdr message = {.msg_iov = all, .msg_iovlen = 1 + count};
    ssize_t sent = 0;
    wire_frame(header, parts, count, all);
    if (!peer_has_unsent(peer))
        sent = sendmsg(peer->descriptor, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return gone(peer, errno);
    return keep_rest(peer, all, 1 + count, sent > 0 ? (size_t)sent : 0);
}

enum error peer_send_set(struct peer *peer, struct wire_header *header, const struct index_set *set,
                         const struct iovec *rest)
{
    struct iovec parts[2];
    size_t count = 0;
    header->stock = set ? (uint32_t)set->count : 0;
    if (set)
        parts[count++] = (struct iovec){set->ranges, set->count * sizeof(*set->ranges)};
    if (rest)
        parts[count++] = *rest;
    return peer_send(peer, header, parts, count);
}

void peer_hang_up(const struct peer *peer)
{
    (void)shutdown(peer->descriptor, SHUT_RDWR);
}

void peer_refuse(struct peer *peer, enum error error)
{
    char text[ERROR_MESSAGE_BYTES];
    snprintf(text, sizeof(text), "%s", error_message());
    struct wire_header header = {.type = WIRE_REFUSED, .detail = (uint16_t)-error};
    struct iovec part = {.iov_base = text, .iov_len = strlen(text)};
    peer->ending = true;
    if (peer_send(peer, &header, &part, 1))
        peer->unsent_begin = peer->unsent_end = 0;
}
