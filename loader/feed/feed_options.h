/* SPDX-License-Identifier: MIT */
/* A feed's defaults, from the store's rows and the machine. */
#ifndef LOADER_FEED_FEED_OPTIONS_H
#define LOADER_FEED_FEED_OPTIONS_H

#include "loader/feed/feed.h"

/* Fills in defaults. ERROR_USAGE names an invalid option and valid values. */
enum error feed_options_complete(struct feed_options *options) MUST_CHECK;

/* Of complete options: how many rows stay on the device; 0: none, and if any were requested, the
 * log says why. */
int64_t feed_options_resident_rows(const struct feed_options *options);
/* Of complete options: leases per request, at most one per slot; batches of ids in the pull
 * queue. */
size_t feed_options_leases_at_once(const struct feed_options *options);
size_t feed_options_queue_capacity(const struct feed_options *options);

#endif
