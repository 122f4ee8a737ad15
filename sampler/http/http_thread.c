#include "sampler/http/http_thread.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/http/request.h"

void http_threads_init(struct http_threads *set, struct server *server, int64_t answer_bytes)
{
    *set = (struct http_threads){.server = server};
    response_memory_init(&set->answers, answer_bytes);
}

static void http_thread_free(struct http_thread *thread)
{
    while (thread->outputs) {
        struct output *next = thread->outputs->next;
        free(thread->outputs);
        thread->outputs = next;
    }
    request_free_list(thread->requests);
    free(thread->ids);
    free(thread->labels);
    free(thread->scratch_ids);
    free(thread->scratch_labels);
    free(thread->rows);
    free(thread->probabilities);
    free(thread);
}

void http_threads_release(struct http_threads *set)
{
    while (set->first) {
        struct http_thread *next = set->first->next;
        http_thread_free(set->first);
        set->first = next;
    }
}

struct http_thread *http_thread_new(struct http_threads *set)
{
    struct http_thread *thread = array_new(1, sizeof(*thread), "an HTTP thread");
    if (!thread)
        return NULL;
    thread->server = set->server;
    thread->answers = &set->answers;
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

static void *grow(void *old, size_t count, size_t element_bytes)
{
    free(old); /* what it held is of an answered request */
    return array_new(count, element_bytes, "the units of a batch");
}

static size_t doubled(size_t capacity, size_t size)
{
    capacity = capacity ? capacity : 1024;
    while (capacity < size)
        capacity *= 2;
    return capacity;
}

static enum error reserve_weights(struct http_thread *thread, size_t size)
{
    if (size <= thread->weights_capacity)
        return OK;
    size_t capacity = doubled(thread->weights_capacity, size);
    thread->weights_capacity = 0;
    thread->rows = grow(thread->rows, capacity, sizeof(*thread->rows));
    thread->probabilities = grow(thread->probabilities, capacity, sizeof(*thread->probabilities));
    if (!thread->rows || !thread->probabilities)
        return ERROR_MEMORY;
    thread->weights_capacity = capacity;
    return OK;
}

enum error http_thread_reserve(struct http_thread *thread, size_t size, bool weights)
{
    if (size <= thread->capacity)
        return weights ? reserve_weights(thread, size) : OK;
    size_t capacity = doubled(thread->capacity, size);
    thread->capacity = 0;
    thread->ids = grow(thread->ids, capacity, sizeof(*thread->ids));
    thread->labels = grow(thread->labels, capacity, sizeof(*thread->labels));
    thread->scratch_ids = grow(thread->scratch_ids, capacity, sizeof(*thread->scratch_ids));
    thread->scratch_labels =
        grow(thread->scratch_labels, capacity, sizeof(*thread->scratch_labels));
    if (!thread->ids || !thread->labels || !thread->scratch_ids || !thread->scratch_labels)
        return ERROR_MEMORY;
    thread->capacity = capacity;
    return weights ? reserve_weights(thread, size) : OK;
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
    if (counted > 0 && response_memory_take(thread->answers, counted))
        return NULL;
    output = malloc(sizeof(*output) + capacity);
    if (!output) {
        response_memory_put(thread->answers, counted);
        (void)error_set_memory(capacity, "an answer");
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
    response_memory_put(trimmed->thread->answers, trimmed->counted_bytes - bytes);
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
            response_memory_put(thread->answers, output->counted_bytes);
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
