/* SPDX-License-Identifier: MIT */
/*
 * What each HTTP thread owns, so that requests share nothing across threads and allocate nothing
 * once the thread is warm: recycled bodies and requests, counters, the last memoized target, and
 * the application's struct api_thread.
 *
 * Threads: each belongs to the thread of its loop. Others read only `metrics` and `active`.
 */
#ifndef COMMON_HTTP_HTTP_THREAD_H
#define COMMON_HTTP_HTTP_THREAD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/http/event_loop.h"
#include "common/http/memory_budget.h"
#include "common/http/metrics.h"

struct api_thread; /* the application's per-thread data */
struct request;
struct route;
struct server;

/* A response body under construction; libmicrohttpd gives it back once sent. */
struct output {
    struct output *next;
    struct http_thread *thread;
    size_t capacity_bytes;
    size_t counted_bytes;     /* in the responses' memory budget; 0: small, not counted */
    _Alignas(8) char bytes[]; /* aligned for integers */
};

/* Clients repeat the same request: a comparison replaces a parse. */
#define HTTP_THREAD_MEMO_BYTES 128
struct http_thread_memo {
    char target[HTTP_THREAD_MEMO_BYTES]; /* initially "", which no request has as its target */
    const struct route *route;
};

struct http_thread {
    struct http_thread *next;
    struct server *server;
    struct memory_budget *responses; /* of all threads, as is the next one */
    struct memory_budget *bodies;
    struct event_loop loop;
    uint32_t number;        /* 0, 1, ... in its set */
    _Atomic int64_t active; /* requests read and not yet answered */
    struct api_thread *api; /* owned */
    struct output *outputs; /* free ones, of HTTP_THREAD_OUTPUT_BYTES */
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
    struct memory_budget responses; /* large ones being made or sent */
    struct memory_budget bodies;    /* of requests */
};

/* Sets the memory limits of all responses, and of all request bodies, together. */
void http_threads_init(struct http_threads *set, struct server *server, int64_t response_bytes,
                       int64_t body_bytes);
/* Adds a thread with `api_bytes` of zeros for the application; its loop is not started. NULL: no
 * memory (the error is set). */
struct http_thread *http_thread_new(struct http_threads *set, size_t api_bytes);
/* Ends all loops. */
void http_threads_stop(struct http_threads *set);
/* After that. `release` frees what the application's data owns. */
void http_threads_release(struct http_threads *set, void (*release)(struct api_thread *api));

/* Sum over all threads. */
int64_t http_threads_active(struct http_threads *set);
void http_threads_metrics(struct http_threads *set, struct metrics *ret_sum);

/* A body of at least `bytes`; NULL: no memory, or the responses' limit is reached (the error is
 * set). */
struct output *http_thread_output_take(struct http_thread *thread, size_t bytes);
/* Shrinks a large body to the `bytes` in use. It may move. */
struct output *http_thread_output_trim(struct output *output, size_t bytes);
/* Gives it back; NULL is legal. */
void http_thread_output_put(struct output *output);
/* The same, given the address of output->bytes, as libmicrohttpd's callback is. */
void http_thread_output_put_bytes(void *bytes);

#endif
