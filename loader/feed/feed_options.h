/* SPDX-License-Identifier: MIT */
/* What a feed does unless its options say otherwise, by the store's rows and the machine. */
#ifndef LOADER_FEED_FEED_OPTIONS_H
#define LOADER_FEED_FEED_OPTIONS_H

#include "loader/feed/feed.h"

/* Fills the defaults in. ERROR_USAGE naming an option that cannot be, and what could. */
enum error feed_options_complete(struct feed_options *options) MUST_CHECK;

/* Of complete options: so many rows stay on the device; 0: none, and the log says why, where any
 * were wanted. */
int64_t feed_options_resident_rows(const struct feed_options *options);
/* Of complete options: leases of one request, no more than there are slots for; batches of ids that
 * wait in the pull queue. */
size_t feed_options_leases_at_once(const struct feed_options *options);
size_t feed_options_queue_capacity(const struct feed_options *options);

#endif
