/* SPDX-License-Identifier: MIT */
#include "common/http/http_thread.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/http/request.h"

void http_threads_init(struct http_threads *set, struct server *server, int64_t response_bytes,
                       int64_t body_bytes)
{
    *set = (struct http_threads){.server = server};
    memory_budget_init(&set->responses, response_bytes, "responses", "max-answer-memory");
    memory_budget_init(&set->bodies, body_bytes, "bodies", "max-body-memory");
}

static void http_thread_free(struct http_thread *thread)
{
    while (thread->outputs) {
        struct output *next = thread->outputs->next;
        free(thread->outputs);
        thread->outputs = next;
    }
    while (thread->requests) {
        struct request *next = thread->requests->next;
        free(thread->requests);
        thread->requests = next;
    }
    free(thread->api);
    free(thread);
}

void http_threads_release(struct http_threads *set, void (*release)(struct api_thread *api))
{
    while (set->first) {
        struct http_thread *next = set->first->next;
        if (release)
            release(set->first->api);
        http_thread_free(set->first);
        set->first = next;
    }
}

struct http_thread *http_thread_new(struct http_threads *set, size_t api_bytes)
{
    struct http_thread *thread = array_new(1, sizeof(*thread), "an HTTP thread");
    if (!thread)
        return NULL;
    thread->api = array_new(1, api_bytes, "an HTTP thread");
    if (!thread->api) {
        free(thread);
        return NULL;
    }
    thread->server = set->server;
    thread->responses = &set->responses;
    thread->bodies = &set->bodies;
    thread->number = set->count++;
    thread->next = set->first;
    set->first = thread;
    return thread;
}

void http_threads_stop(struct http_threads *set)
{
    for (struct http_thread *thread = set->first; thread; thread = thread->next)
        event_loop_stop(&thread->loop);
}

int64_t http_threads_active(struct http_threads *set)
{
    int64_t active = 0;
    for (struct http_thread *thread = set->first; thread; thread = thread->next)
        active += atomic_load(&thread->active);
    return active;
}

void http_threads_metrics(struct http_threads *set, struct metrics *ret_sum)
{
    memset(ret_sum, 0, sizeof(*ret_sum));
    for (struct http_thread *thread = set->first; thread; thread = thread->next)
        metrics_sum(ret_sum, &thread->metrics);
}

struct output *http_thread_output_take(struct http_thread *thread, size_t bytes)
{
    struct output *output = thread->outputs;
    if (bytes <= HTTP_THREAD_OUTPUT_BYTES && output) {
        thread->outputs = output->next;
        thread->output_count--;
        return output;
    }
    size_t capacity = bytes < HTTP_THREAD_OUTPUT_BYTES ? HTTP_THREAD_OUTPUT_BYTES : bytes;
    size_t counted = capacity > RESPONSE_SMALL_BYTES ? capacity : 0;
    if (counted > 0 && memory_budget_take(thread->responses, counted))
        return NULL;
    output = malloc(sizeof(*output) + capacity);
    if (!output) {
        memory_budget_put(thread->responses, counted);
        (void)error_set_memory(capacity, "a response");
        return NULL;
    }
    output->thread = thread;
    output->capacity_bytes = capacity;
    output->counted_bytes = counted;
    return output;
}

struct output *http_thread_output_trim(struct output *output, size_t bytes)
{
    if (bytes < RESPONSE_SMALL_BYTES)
        bytes = RESPONSE_SMALL_BYTES; /* larger than those that are recycled */
    if (output->counted_bytes <= bytes)
        return output;
    struct output *trimmed = realloc(output, sizeof(*output) + bytes);
    if (!trimmed)
        return output;
    memory_budget_put(trimmed->thread->responses, trimmed->counted_bytes - bytes);
    trimmed->capacity_bytes = bytes;
    trimmed->counted_bytes = bytes;
    return trimmed;
}

void http_thread_output_put(struct output *output)
{
    if (!output)
        return;
    struct http_thread *thread = output->thread;
    if (output->capacity_bytes != HTTP_THREAD_OUTPUT_BYTES ||
        thread->output_count >= HTTP_THREAD_OUTPUTS_LIMIT) {
        if (output->counted_bytes > 0)
            memory_budget_put(thread->responses, output->counted_bytes);
        free(output);
        return;
    }
    output->next = thread->outputs;
    thread->outputs = output;
    thread->output_count++;
}

void http_thread_output_put_bytes(void *bytes)
{
    http_thread_output_put((struct output *)((char *)bytes - offsetof(struct output, bytes)));
}
