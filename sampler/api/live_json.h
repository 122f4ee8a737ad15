/*
 * What the live page asks for once a second: server, streams, and one of them in detail, as JSON.
 * For the page alone: fields come and go with it. At most LIVE_STREAMS streams and LIVE_WORKERS
 * workers are told, beside how many there are.
 */
#ifndef SAMPLER_API_LIVE_JSON_H
#define SAMPLER_API_LIVE_JSON_H

#include "common/buffer.h"
#include "common/error.h"
#include "sampler/service/live.h"
#include "sampler/stream/streams.h"

#define LIVE_STREAMS 100
#define LIVE_WORKERS 200

/* Appends
 *   "streams_count":S,"streams":[{...},...],"chosen":{...}|null
 * `chosen`: a stream's name; one that does not exist, or "", is taken as `default`. */
enum error live_json_add(struct streams *streams, struct live *live, const char *chosen,
                         struct buffer *out) MUST_CHECK;

#endif
