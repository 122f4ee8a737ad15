/* SPDX-License-Identifier: MIT */
/* A stream as JSON, as GET /streams/NAME shows it. */
#ifndef SAMPLER_API_STREAM_JSON_H
#define SAMPLER_API_STREAM_JSON_H

#include "common/buffer.h"
#include "common/error.h"
#include "sampler/stream/stream.h"

/* "running", ... "unavailable". */
const char *stream_state_name(enum stream_state state);

/* Appends {"name":...,"state":"running"}; the design's own fields are on the same level, as in POST
 * /streams. */
enum error stream_text_add(struct buffer *buffer, struct stream *stream);

#endif
