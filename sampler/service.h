/*
 * What a sampler serves, without HTTP: a frame, the order of it, the default stream with its state,
 * and what answers need of them. Made once at the start; afterwards only the stream changes.
 */
#ifndef SAMPLER_SERVICE_H
#define SAMPLER_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/committer.h"
#include "sampler/frame.h"
#include "sampler/label_texts.h"
#include "sampler/order.h"
#include "sampler/state.h"
#include "sampler/stream.h"
#include "sampler/tally.h"

/* The options of `serve` that say what is served. Texts are borrowed for service_open(). */
struct service_options {
    const char *store;  /* URI, or NULL */
    const char *frame;  /* path of a frame file, or NULL; one of the two is given */
    const char *rows;   /* "A:B", or NULL: all */
    const char *design; /* NULL: proportional when there are labels, else srs */
    bool replacement;
    int64_t seed; /* -1: the kept one, else one is drawn */
    int64_t epochs;
    enum tail tail;
    int64_t max_size;
    const char *state; /* folder, or NULL */
    enum durability durability;
};

struct service {
    struct frame *whole; /* owned; what `frame` is a slice of, or NULL */
    struct frame *frame; /* owned */
    struct order *order; /* owned */
    struct design design;
    struct state *state;         /* owned, or NULL */
    struct stream *stream;       /* owned; "default" */
    struct committer *committer; /* owned; NULL when no draw waits */
    struct tally *tally;         /* owned */
    struct label_texts label_texts;
    char digest[FRAME_DIGEST_TEXT_BYTES];
    int64_t max_size;
};

/* Blocks while the frame is built or mapped. Logs what is served, and the seed when it was drawn.
 */
enum error service_open(const struct service_options *options,
                        struct service **ret_service) MUST_CHECK;

/* The orderly end of all draws: what is not written yet is written. Afterwards only service_free().
 */
enum error service_finish(struct service *service) MUST_CHECK;
/* NULL is legal. */
void service_free(struct service *service);

/* The stream of that name, or NULL (with no message). */
struct stream *service_stream(const struct service *service, const char *name);

/* Reads "A:B" with 0 <= A < B. */
enum error service_parse_rows(const char *text, int64_t *ret_begin, int64_t *ret_end) MUST_CHECK;

#endif
