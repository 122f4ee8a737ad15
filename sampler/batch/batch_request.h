/* SPDX-License-Identifier: MIT */
/*
 * A GET /batch request: its query string and its Accept header, parsed and checked.
 */
#ifndef SAMPLER_BATCH_BATCH_REQUEST_H
#define SAMPLER_BATCH_BATCH_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/uri.h"
#include "sampler/batch/batch_format.h"
#include "sampler/ledger/worker_table.h"
#include "sampler/stream/stream_definition.h"

#define BATCH_SIZE_DEFAULT 100
#define BATCH_ACKS_LIMIT 1024
#define BATCHES_LIMIT 64 /* per response */

struct batch_request {
    char stream[STREAM_NAME_BYTES];
    int64_t size;    /* 1 to max_size */
    int64_t index;   /* the batch's number, or -1: draw the next one */
    int64_t batches; /* up to this many in one response, as a list; 0: a single one */
    bool size_given;
    bool sort;
    bool weights;
    bool leased;       /* with worker and seq: struct batch_lease */
    bool named;        /* a worker with index: only batch_lease.worker is set */
    bool format_given; /* else Accept decides */
    enum batch_format format;
};

/* Who leases the batch; of one that is read by index only `worker`. */
struct batch_lease {
    char worker[WORKER_NAME_BYTES];
    int64_t seq;
    size_t ack_count;
    int64_t acks[BATCH_ACKS_LIMIT];
};

/* `query`: the part after '?', still percent-encoded; NULL or empty: all defaults. Sets *ret_lease
 * if ret_request->leased or ->named. ERROR_USAGE names the parameter, its value and what is
 * allowed. */
enum error batch_request_parse(const char *query, int64_t max_size,
                               struct batch_request *ret_request,
                               struct batch_lease *ret_lease) MUST_CHECK;

/* The parameter `stream` of a query, of any path; "default" if absent. ERROR_USAGE names it. */
enum error stream_name_of_query(struct uri_query *query,
                                char ret_name[STREAM_NAME_BYTES]) MUST_CHECK;

/* The format that an Accept header prefers (RFC 9110: the most specific range decides, then q);
 * BATCH_FORMAT_JSON if it names none of ours. */
enum batch_format batch_format_of_accept(const char *accept, size_t length);

#endif
