/* SPDX-License-Identifier: MIT */
/*
 * Everything that a sampler serves, without HTTP: frames, their streams with the state, and the
 * data of the live page. Created at the start; afterwards only the streams change.
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

/* The options of `serve` about what is served. Texts are borrowed for service_open(). */
struct service_options {
    const char *stores; /* one per line: URI or NAME=URI; NULL: none */
    const char *frames; /* one per line: FILE or NAME=FILE; NULL: none; one of the two is given */
    const char *rows;   /* "A:B", or NULL: all */
    const char *splits; /* "0.8,0.1,0.1", or NULL */
    const char *split;  /* of `default`: "train" ..., or NULL */
    const char *design; /* NULL: chosen for the frame, service_design() */
    const char *fields; /* of the design, as JSON; NULL: none */
    bool replacement;
    int64_t seed; /* -1: the stored one, else a random one */
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
    struct state *state;      /* NULL: nothing is stored */
    struct streams *streams;
    struct live *live;
    struct stream_definition first; /* the definition of `default` from the options */
    bool design_given;              /* by --design */
    struct split_shares shares;
    bool has_shares;
    enum durability durability;
    int64_t max_size;
    struct reserved_names *names; /* of streams being created */
    struct checks *checks;        /* NULL until the start is complete */
};

/* Blocks while it builds or maps frames and opens plans. Logs what is served, and a randomly drawn
 * seed. */
enum error service_open(const struct service_options *options,
                        struct service **ret_service) MUST_CHECK;

/* Are the files under it unchanged, as far as is known (checks.h)? Does not wait; if it fails
 * nothing may be drawn any more. */
enum error service_check(const struct service *service) MUST_CHECK;
/* Orderly end of all draws: writes pending entries. ERROR_TIMEOUT: the disk does not respond.
 * Afterwards only service_free() may be called. */
enum error service_finish(struct service *service) MUST_CHECK;
/* Leaks what a thread blocked forever on a disk still uses. NULL is legal. */
void service_free(struct service *service);

/* The definition of `default`; new streams inherit frame, replacement, tail and lease from it. */
const struct stream_definition *service_default(const struct service *service);
/* The default design of a stream on `frame`: that of --design, else proportional if there are
 * labels. On a frame without labels, srs replaces a design that needs them. */
const char *service_design(const struct service *service, const struct frame *frame);
/* ERROR_USAGE: the design has only one batch size (p * k), which is above --max-size. */
enum error service_check_batch(const struct service *service,
                               const struct sampling_plan *plan) MUST_CHECK;
/* NULL without --splits. */
const struct split_shares *service_shares(const struct service *service);

#endif
