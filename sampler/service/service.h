/* SPDX-License-Identifier: MIT */
/*
 * What a sampler serves, without HTTP: frames, the streams on them with their state, and what the
 * live page reads. Made once at the start; afterwards only the streams change.
 */
#ifndef SAMPLER_SERVICE_SERVICE_H
#define SAMPLER_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/build/frame_set.h"
#include "sampler/frame/split.h"
#include "sampler/journal/state_folder.h"
#include "sampler/service/checks.h"
#include "sampler/service/live.h"
#include "sampler/service/reserved_names.h"
#include "sampler/stream/streams.h"

/* The options of `serve` that say what is served. Texts are borrowed for service_open(). */
struct service_options {
    const char *stores; /* a line each: URI or NAME=URI; NULL: none */
    const char *frames; /* a line each: FILE or NAME=FILE; NULL: none; one of the two is given */
    const char *rows;   /* "A:B", or NULL: all */
    const char *splits; /* "0.8,0.1,0.1", or NULL */
    const char *split;  /* of `default`: "train" ..., or NULL */
    const char *design; /* NULL: what fits a frame, service_design() */
    const char *fields; /* of the design, as JSON; NULL: none */
    bool replacement;
    int64_t seed; /* -1: the kept one, else one is drawn */
    int64_t epochs;
    enum tail tail;
    int64_t lease_ms; /* 0: adaptive */
    int64_t max_size;
    int64_t max_streams;
    const char *state; /* folder, or NULL */
    enum durability durability;
    int64_t accept_loss; /* offset in a damaged journal; 0: none */
};

struct service {
    struct frame_set *frames; /* owned, and those below */
    struct state *state;      /* NULL: nothing is kept */
    struct streams *streams;
    struct live *live;
    struct stream_definition first; /* what the options make of `default` */
    bool design_given;              /* --design was */
    struct split_shares shares;
    bool has_shares;
    enum durability durability;
    int64_t max_size;
    struct reserved_names *names; /* of streams that are being made */
    struct checks *checks;        /* NULL before the start is through */
};

/* Blocks while frames are built or mapped and plans opened. Logs what is served, and the seed when
 * it was drawn. */
enum error service_open(const struct service_options *options,
                        struct service **ret_service) MUST_CHECK;

/* Is what it stands on still there, as far as is known (checks.h)? Does not wait; nothing may be
 * drawn any more when it fails. */
enum error service_check(const struct service *service) MUST_CHECK;
/* The orderly end of all draws: writes pending entries. ERROR_TIMEOUT: the disk does not answer.
 * Afterwards only service_free(). */
enum error service_finish(struct service *service) MUST_CHECK;
/* What a thread uses that waits for a disk for ever is left to the process's end. NULL is legal. */
void service_free(struct service *service);

/* The definition of `default`; new streams take frame, replacement, tail and lease from it. */
const struct stream_definition *service_default(const struct service *service);
/* The design of a stream on `frame` that names none: the one of --design, without it proportional
 * where there are labels. What needs labels is srs on a frame without. */
const char *service_design(const struct service *service, const struct frame *frame);
/* ERROR_USAGE: the design has batches of one size only (p * k), which is above --max-size. */
enum error service_check_batch(const struct service *service,
                               const struct sampling_plan *plan) MUST_CHECK;
/* NULL without --splits. */
const struct split_shares *service_shares(const struct service *service);

#endif
