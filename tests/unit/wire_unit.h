/* SPDX-License-Identifier: MIT */
/*
 * Frames between a test and a server or worker of ours, on ports of this machine. Time goes on by
 * itself, and by what pass() adds: the program is linked with --wrap=clock_gettime,--wrap=poll.
 */
#ifndef TESTS_UNIT_WIRE_UNIT_H
#define TESTS_UNIT_WIRE_UNIT_H

#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "trainer/wire/wire.h"

#define WIRE_PATIENCE_S 30
#define WIRE_FRAME_BYTES 4096
#define WIRE_POLL_MS 10 /* so that who waits notices that time has passed */

/* ---- time ---------------------------------------------------------------- */

static _Atomic int64_t skew_ns;
static char frame_bytes[WIRE_FRAME_BYTES]; /* the payload of what was heard last */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = __real_clock_gettime(clock, now);
    if (clock == CLOCK_MONOTONIC)
        now->tv_sec += (time_t)(atomic_load(&skew_ns) / 1000000000);
    return status;
}

int __real_poll(struct pollfd *wanted, nfds_t count, int milliseconds);
int __wrap_poll(struct pollfd *wanted, nfds_t count, int milliseconds);

/* Comes back sooner, as after a signal. */
int __wrap_poll(struct pollfd *wanted, nfds_t count, int milliseconds)
{
    bool is_long = milliseconds < 0 || milliseconds > WIRE_POLL_MS;
    return __real_poll(wanted, count, is_long ? WIRE_POLL_MS : milliseconds);
}

static inline void pass(int64_t seconds)
{
    atomic_fetch_add(&skew_ns, seconds * 1000000000);
}

/* ---- sockets -------------------------------------------------------------- */

static inline int listen_anywhere(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(listen(listener, 64), 0);
    *ret_port = ntohs(address.sin_port);
    return listener;
}

static inline void set_patience(int caller)
{
    struct timeval limit = {.tv_sec = WIRE_PATIENCE_S};
    assert_int_equal(setsockopt(caller, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
}

static inline void say_parts(int caller, struct wire_header header, const struct iovec *parts,
                             size_t count)
{
    struct iovec all[1 + WIRE_PARTS_LIMIT];
    wire_frame(&header, parts, count, all);
    assert_int_equal(writev(caller, all, (int)count + 1), sizeof(header) + header.bytes);
}

static inline void say(int caller, struct wire_header header, const void *payload, size_t bytes)
{
    struct iovec part = {(void *)payload, bytes};
    say_parts(caller, header, &part, 1);
}

/* Of the next frame; type 0: the connection is closed. */
static inline struct wire_header hear(int caller)
{
    struct wire_header header = {.type = 0};
    ssize_t got = recv(caller, &header, sizeof(header), MSG_WAITALL);
    if (got < 0 && errno == EAGAIN)
        fail_msg("nothing was heard for %d s", WIRE_PATIENCE_S);
    if (got != sizeof(header))
        return (struct wire_header){.type = 0};
    assert_ok(wire_header_check(&header, WIRE_FRAME_BYTES - 1));
    if (header.bytes > 0)
        assert_int_equal(recv(caller, frame_bytes, header.bytes, MSG_WAITALL), header.bytes);
    frame_bytes[header.bytes] = '\0';
    return header;
}

static inline struct wire_header expect(int caller, enum wire_type type)
{
    struct wire_header header = hear(caller);
    if (header.type != type)
        fail_msg("%s was heard, not %s: %s", header.type ? wire_type_name(header.type) : "an end",
                 wire_type_name(type), header.type == WIRE_REFUSED ? frame_bytes : "");
    return header;
}

#endif
