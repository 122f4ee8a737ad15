/* SPDX-License-Identifier: MIT */
/*
 * Where a PostgreSQL server is: the URI, and the parameters of its query that are libpq's. Several
 * hosts (`host=a,b`) are told apart here, so that each is tried with a time of its own. Any thread.
 */
#ifndef LOADER_POSTGRES_POSTGRES_PLACE_H
#define LOADER_POSTGRES_POSTGRES_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/uri.h"

#define POSTGRES_CONNECT_MS 10000 /* unless connect_timeout says otherwise */

struct postgres_host {
    const char *name;    /* borrowed; a host, the folder of a socket, or "": libpq's default */
    const char *address; /* borrowed; as numbers; "": the name's */
    const char *port;    /* borrowed; "": libpq's default */
};

struct postgres_hosts {
    _Atomic size_t first; /* took the last connection, and is tried first: silence costs once */
    size_t count;         /* 0: libpq chooses */
    struct postgres_host list[]; /* [count], in the order of the URI */
};

struct postgres_place {
    char *shown; /* owned; for messages: the URI's server and database, without the password */
    const char *keys[URI_PARAMETERS_LIMIT + 4]; /* owned; [count]: libpq's parameters */
    char *values[URI_PARAMETERS_LIMIT + 4];     /* owned; [count] */
    size_t count;
    char *lists[3];               /* owned; hosts, addresses, ports, cut at their commas */
    struct postgres_hosts *hosts; /* owned */
    int64_t connect_ms;           /* for each address of each host */
    bool
        prefers_standby; /* target_session_attrs=prefer-standby: the hosts are gone through twice */
};

/* Takes libpq's parameters out of the query (host, sslmode, user, ...). */
enum error postgres_place_init(struct postgres_place *place, struct uri *uri) MUST_CHECK;
void postgres_place_release(struct postgres_place *place);

#endif
