#include "sampler/http/http_thread.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/http/request.h"

void worker_set_init(struct worker_set *set, struct server *server, int64_t answer_bytes)
{
    *set = (struct worker_set){.server = server};
    answer_memory_init(&set->answers, answer_bytes);
}

static void worker_free(struct worker *worker)
{
    while (worker->outputs) {
        struct output *next = worker->outputs->next;
        free(worker->outputs);
        worker->outputs = next;
    }
    request_free_list(worker->requests);
    free(worker->ids);
    free(worker->labels);
    free(worker->scratch_ids);
    free(worker->scratch_labels);
    free(worker->rows);
    free(worker->probabilities);
    free(worker);
}

void worker_set_release(struct worker_set *set)
{
    while (set->first) {
        struct worker *next = set->first->next;
        worker_free(set->first);
        set->first = next;
    }
}

struct worker *worker_new(struct worker_set *set)
{
    struct worker *worker = array_new(1, sizeof(*worker), "an HTTP thread");
    if (!worker)
        return NULL;
    worker->server = set->server;
    worker->answers = &set->answers;
    worker->number = set->count++;
    worker->next = set->first;
    set->first = worker;
    return worker;
}

void worker_set_stop(struct worker_set *set)
{
    for (struct worker *worker = set->first; worker; worker = worker->next)
        event_loop_stop(&worker->loop);
}

int64_t worker_set_active(struct worker_set *set)
{
    int64_t active = 0;
    for (struct worker *worker = set->first; worker; worker = worker->next)
        active += atomic_load(&worker->active);
    return active;
}

void worker_set_metrics(struct worker_set *set, struct metrics *ret_sum)
{
    memset(ret_sum, 0, sizeof(*ret_sum));
    for (struct worker *worker = set->first; worker; worker = worker->next)
        metrics_sum(ret_sum, &worker->metrics);
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

static enum error reserve_weights(struct worker *worker, size_t size)
{
    if (size <= worker->weights_capacity)
        return OK;
    size_t capacity = doubled(worker->weights_capacity, size);
    worker->weights_capacity = 0;
    worker->rows = grow(worker->rows, capacity, sizeof(*worker->rows));
    worker->probabilities = grow(worker->probabilities, capacity, sizeof(*worker->probabilities));
    if (!worker->rows || !worker->probabilities)
        return ERROR_MEMORY;
    worker->weights_capacity = capacity;
    return OK;
}

enum error worker_reserve(struct worker *worker, size_t size, bool weights)
{
    if (size <= worker->capacity)
        return weights ? reserve_weights(worker, size) : OK;
    size_t capacity = doubled(worker->capacity, size);
    worker->capacity = 0;
    worker->ids = grow(worker->ids, capacity, sizeof(*worker->ids));
    worker->labels = grow(worker->labels, capacity, sizeof(*worker->labels));
    worker->scratch_ids = grow(worker->scratch_ids, capacity, sizeof(*worker->scratch_ids));
    worker->scratch_labels =
        grow(worker->scratch_labels, capacity, sizeof(*worker->scratch_labels));
    if (!worker->ids || !worker->labels || !worker->scratch_ids || !worker->scratch_labels)
        return ERROR_MEMORY;
    worker->capacity = capacity;
    return weights ? reserve_weights(worker, size) : OK;
}

struct output *worker_output_take(struct worker *worker, size_t bytes)
{
    struct output *output = worker->outputs;
    if (bytes <= WORKER_OUTPUT_BYTES && output) {
        worker->outputs = output->next;
        worker->output_count--;
        return output;
    }
    size_t capacity = bytes < WORKER_OUTPUT_BYTES ? WORKER_OUTPUT_BYTES : bytes;
    size_t counted = capacity > ANSWER_SMALL_BYTES ? capacity : 0;
    if (counted > 0 && answer_memory_take(worker->answers, counted))
        return NULL;
    output = malloc(sizeof(*output) + capacity);
    if (!output) {
        answer_memory_put(worker->answers, counted);
        (void)error_set_memory(capacity, "an answer");
        return NULL;
    }
    output->worker = worker;
    output->capacity_bytes = capacity;
    output->counted_bytes = counted;
    return output;
}

struct output *worker_output_trim(struct output *output, size_t bytes)
{
    if (bytes < ANSWER_SMALL_BYTES)
        bytes = ANSWER_SMALL_BYTES; /* larger than those that are recycled */
    if (output->counted_bytes <= bytes)
        return output;
    struct output *trimmed = realloc(output, sizeof(*output) + bytes);
    if (!trimmed)
        return output;
    answer_memory_put(trimmed->worker->answers, trimmed->counted_bytes - bytes);
    trimmed->capacity_bytes = bytes;
    trimmed->counted_bytes = bytes;
    return trimmed;
}

void worker_output_put(struct output *output)
{
    if (!output)
        return;
    struct worker *worker = output->worker;
    if (output->capacity_bytes != WORKER_OUTPUT_BYTES ||
        worker->output_count >= WORKER_OUTPUTS_LIMIT) {
        if (output->counted_bytes > 0)
            answer_memory_put(worker->answers, output->counted_bytes);
        free(output);
        return;
    }
    output->next = worker->outputs;
    worker->outputs = output;
    worker->output_count++;
}

void worker_output_put_bytes(void *bytes)
{
    worker_output_put((struct output *)((char *)bytes - offsetof(struct output, bytes)));
}
