/*
 * One HTTP request from its first line to its answer's last byte. Recycled by its worker; belongs
 * to one thread, except that a draw's waiter is told by the committer's thread, which only resumes
 * the connection.
 */
#ifndef SAMPLER_REQUEST_H
#define SAMPLER_REQUEST_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/batch_request.h"
#include "sampler/cut.h"
#include "sampler/stream.h"
#include "sampler/worker.h"

/* Longer request targets are answered with 414. */
#define REQUEST_TARGET_BYTES 6000

struct route;

struct request {
    struct request *next; /* in the worker's free list */
    struct worker *worker;
    struct MHD_Connection *connection;
    const struct route *route; /* NULL: no such path */
    int64_t started_ns;
    uint64_t uploaded_bytes;
    bool seen;     /* the header is complete */
    bool active;   /* counted in worker->active */
    bool head;     /* HEAD: nothing is drawn, no body is sent */
    bool too_long; /* the target was not kept */

    bool answered; /* a response is queued, and counted */

    /* GET /batch */
    bool batch_parsed;
    struct batch_request batch;
    bool drawn; /* the answer below waits for the disk */
    enum answer_format format;
    struct span span;
    struct stream_waiter waiter;
    struct output *output; /* owned until a response has it */
    size_t output_bytes;

    const char *name;  /* in target: what stands behind "/streams/", decoded; or NULL */
    const char *query; /* in target: what stands behind '?', as it came; or NULL */
    char target[REQUEST_TARGET_BYTES + 1];
};

/* A request for `target` (as it stands in the request line; NULL is taken as ""). NULL: no memory.
 */
struct request *request_take(struct worker *worker, struct MHD_Connection *connection,
                             const char *target);
/* Notes how long it took and gives it back to its worker. */
void request_put(struct request *request);
/* What it is counted under. */
enum metrics_path request_path(const struct request *request);
/* For the worker's end. */
void request_free_list(struct request *first);

#endif
