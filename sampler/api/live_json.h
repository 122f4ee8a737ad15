/* SPDX-License-Identifier: MIT */
/* The JSON data of the live page, without HTTP. */
#ifndef SAMPLER_API_LIVE_JSON_H
#define SAMPLER_API_LIVE_JSON_H

#include "common/buffer.h"
#include "common/error.h"
#include "sampler/service/live.h"
#include "sampler/stream/streams.h"

/* Appends
 *   "streams_count":S,"streams":[{...},...],"chosen":{...}|null
 * `chosen`: a stream's name; one that does not exist, or "", is taken as `default`. */
enum error live_json_add(struct streams *streams, struct live *live, const char *chosen,
                         struct buffer *out) MUST_CHECK;

#endif
