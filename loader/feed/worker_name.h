/* SPDX-License-Identifier: MIT */
/*
 * The names under which feeds of this process lease batches. The sampler releases by name: of two
 * feeds with the same one, the first that ends would take the other's leases away, and their
 * batches would be trained twice. Names in a parent of fork() do not count in the child.
 *
 * Threads: any.
 */
#ifndef LOADER_FEED_WORKER_NAME_H
#define LOADER_FEED_WORKER_NAME_H

#include "common/error.h"

/* All borrowed, until it is given up. */
struct worker_name {
    const char *url, *stream, *worker;
    struct worker_name *next; /* of this process */
};

/* This machine's name, to begin or to be a worker's: other characters than A-Z, a-z, 0-9, '.', '_'
 * and '-' become '-'. "host": it has none. */
#define WORKER_HOST_BYTES 65
void worker_name_host(char ret_host[WORKER_HOST_BYTES]);

/* ERROR_USAGE: another feed leases from this stream under this name. */
enum error worker_name_claim(struct worker_name *name) MUST_CHECK;
/* Of one that was not claimed: nothing. */
void worker_name_give_up(struct worker_name *name);

#endif
