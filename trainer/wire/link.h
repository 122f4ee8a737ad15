/* SPDX-License-Identifier: MIT */
/*
 * A link: the client end of a connection to a parameter server. Each link_open() looks the name up
 * again, so that a server may return elsewhere. Sockets do not block; every wait has a deadline and
 * ends early when the program must stop.
 *
 * Threads: one at a time.
 */
#ifndef TRAINER_WIRE_LINK_H
#define TRAINER_WIRE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/error.h"
#include "common/name_lookup.h"
#include "trainer/wire/wire.h"

struct link {
    int descriptor;   /* -1: not connected */
    const char *name; /* "parameter server 1 (HOST:PORT)", for messages; borrowed */
    const char *host; /* borrowed */
    uint16_t port;
    bool finishes;             /* when the program must stop, waits continue for three seconds */
    int64_t finish_by_ns;      /* their end; 0: no stop requested yet */
    struct name_lookup lookup; /* goes on between attempts to connect */
};

/* Not connected. */
void link_init(struct link *link, const char *name, const char *host, uint16_t port);
/* Looks the name up and connects. ERROR_NETWORK, ERROR_TIMEOUT, ERROR_CANCELLED leave it closed. */
enum error link_open(struct link *link, int64_t deadline_ns) MUST_CHECK;
/* Closes it, and ends a lookup in progress. */
void link_close(struct link *link);

/* The part of error_message() after the link's name, for a line that has named it: "Connection
 * refused". */
const char *link_reason(const struct link *link);

/* Is the other end on this machine, as far as addresses tell? */
bool link_is_local(const struct link *link);

/* Sends a frame (wire_frame()). The same errors; each leaves the link closed. The time until the
 * deadline begins again with every 64 KiB, here and where a link is read: a large frame may take as
 * long as it needs. */
enum error link_send(struct link *link, struct wire_header *header, const struct iovec *parts,
                     size_t count, int64_t deadline_ns) MUST_CHECK;
/* Waits until data has arrived: ERROR_TIMEOUT leaves the link as it is. */
enum error link_await(struct link *link, int64_t deadline_ns) MUST_CHECK;
/* The next header, checked. REFUSED becomes the error that it contains, with its text. */
enum error link_receive(struct link *link, uint64_t most_bytes, struct wire_header *ret_header,
                        int64_t deadline_ns) MUST_CHECK;
/* Reads bytes of its payload. */
enum error link_read(struct link *link, void *out, size_t bytes, int64_t deadline_ns) MUST_CHECK;

/* Socket options between trainers: no delay, and a lost machine is detected within about 20 s. */
void link_set_options(int descriptor);

#endif
