/* SPDX-License-Identifier: MIT */
/*
 * Can the store have a row for every unit that a stream of the sampler draws? Checked before the
 * first draw, so that a wrong store does not show only at its first missing row, an hour later.
 */
#ifndef LOADER_FEED_STREAM_CHECK_H
#define LOADER_FEED_STREAM_CHECK_H

#include <stdbool.h>

#include "common/error.h"
#include "loader/feed/sampler_stream.h"
#include "loader/store/store.h"

/* ERROR_INPUT naming both if the stream draws more units than the store has rows, and
 * `fails_on_missing`; otherwise, or if it need not draw all of its units, a warning in the log.
 * More rows than units are logged too: the frame may be of a part, or of another store. `url` is
 * the sampler's, for the message. */
enum error stream_check_rows(const struct sampler_stream *stream, const char *url,
                             const struct store_info *store, bool fails_on_missing) MUST_CHECK;

#endif
