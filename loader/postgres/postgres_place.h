/* SPDX-License-Identifier: MIT */
/*
 * The location of a PostgreSQL server: the URI, and the parameters of its query that are libpq's.
 * Several hosts (`host=a,b`) are separated here, so that each is tried with its own timeout. Any
 * thread.
 */
#ifndef LOADER_POSTGRES_POSTGRES_PLACE_H
#define LOADER_POSTGRES_POSTGRES_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/uri.h"

#define POSTGRES_CONNECT_MS 10000 /* default of connect_timeout */

struct postgres_host {
    const char *name;    /* borrowed; a host, a socket's folder, or "": libpq's default */
    const char *address; /* borrowed; numeric; "": the name's */
    const char *port;    /* borrowed; "": libpq's default */
};

struct postgres_hosts {
    _Atomic size_t first; /* accepted the last connection, and is tried first: silence costs time
                           * only once */
    size_t count;         /* 0: libpq chooses */
    struct postgres_host list[]; /* [count], in URI order */
};

struct postgres_place {
    char *shown; /* owned; for messages: the URI's server and database, without password */
    const char *keys[URI_PARAMETERS_LIMIT + 4]; /* owned; [count]: libpq's parameters */
    char *values[URI_PARAMETERS_LIMIT + 4];     /* owned; [count] */
    size_t count;
    char *lists[3];               /* owned; hosts, addresses, ports, split at commas */
    struct postgres_hosts *hosts; /* owned */
    int64_t connect_ms;           /* per address of each host */
    bool prefers_standby; /* target_session_attrs=prefer-standby: goes through the hosts twice */
};

/* Takes libpq's parameters (host, sslmode, user, ...) out of the query. */
enum error postgres_place_init(struct postgres_place *place, struct uri *uri) MUST_CHECK;
void postgres_place_release(struct postgres_place *place);

#endif
