/*
 * What each HTTP thread owns, so that a request shares nothing with other threads and allocates
 * nothing once the thread is warm: room for the units of a batch, recycled bodies and requests, its
 * counters, and the last query it parsed.
 *
 * Threads: each belongs to the thread of its loop. Only `metrics` and `active` are read by
 * others.
 *
 * Dimensions: B units of a batch.
 */
#ifndef SAMPLER_HTTP_HTTP_THREAD_H
#define SAMPLER_HTTP_HTTP_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/batch/batch_request.h"
#include "sampler/http/event_loop.h"
#include "sampler/http/response_memory.h"
#include "sampler/stream/metrics.h"

struct request;
struct server;

/* A body under construction; once it is handed to a response, that gives it back. */
struct output {
    struct output *next;
    struct http_thread *thread;
    size_t capacity_bytes;
    size_t counted_bytes;     /* in the memory of answers; 0: it is small */
    _Alignas(8) char bytes[]; /* ids stand in it */
};

/* Clients ask the same thing again and again: one comparison instead of a parse. */
#define HTTP_THREAD_MEMO_BYTES 128
struct http_thread_memo {
    char target[HTTP_THREAD_MEMO_BYTES]; /* "" at the start: no request has that target */
    struct batch_request batch;
};

struct http_thread {
    struct http_thread *next;
    struct server *server;
    struct response_memory *answers; /* of all threads */
    struct event_loop loop;
    uint32_t number;        /* 0, 1, ... in its set */
    _Atomic int64_t active; /* requests that were read and are not answered */
    size_t capacity;        /* of the four arrays, in units */
    int64_t *ids;
    uint32_t *labels;
    int64_t *scratch_ids;
    uint32_t *scratch_labels;
    size_t weights_capacity; /* of the two arrays for weights=1, in units */
    int64_t *rows;
    double *probabilities;
    struct output *outputs; /* free ones of HTTP_THREAD_OUTPUT_BYTES */
    size_t output_count;
    struct request *requests; /* free ones */
    struct http_thread_memo memo;
    struct metrics metrics;
};

#define HTTP_THREAD_OUTPUT_BYTES (16 << 10)
#define HTTP_THREAD_OUTPUTS_LIMIT 256

struct http_threads {
    struct server *server;
    struct http_thread *first;
    uint32_t count;
    struct response_memory answers;
};

/* `answer_bytes`: the limit of response_memory.h. */
void http_threads_init(struct http_threads *set, struct server *server, int64_t answer_bytes);
void http_threads_release(struct http_threads *set);

/* One more, its loop not started; NULL when there is no memory (error is set). */
struct http_thread *http_thread_new(struct http_threads *set);
/* Ends all loops. */
void http_threads_stop(struct http_threads *set);

/* Sums over all threads. */
int64_t http_threads_active(struct http_threads *set);
void http_threads_metrics(struct http_threads *set, struct metrics *ret_sum);

/* Room for B units in the arrays, with those for weights=1 when they are wanted. */
enum error http_thread_reserve(struct http_thread *thread, size_t size, bool weights) MUST_CHECK;

/* A body of at least `bytes`; NULL: no memory, also where the answers have all that they may have
 * (error is set). */
struct output *http_thread_output_take(struct http_thread *thread, size_t bytes);
/* Only `bytes` of it are in use: gives the rest of a large one back. It may move. */
struct output *http_thread_output_trim(struct output *output, size_t bytes);
/* Gives it back; NULL is legal. */
void http_thread_output_put(struct output *output);
/* The same by the address of output->bytes, as MHD's callback wants it. */
void http_thread_output_put_bytes(void *bytes);

#endif
