#include "sampler/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/array.h"
#include "common/log.h"
#include "common/text.h"

enum error service_parse_rows(const char *text, int64_t *ret_begin, int64_t *ret_end)
{
    const char *colon = strchr(text, ':');
    int64_t begin;
    int64_t end;
    if (colon && text_parse_integer(text, (size_t)(colon - text), 0, INT64_MAX, &begin) &&
        text_parse_integer(colon + 1, strlen(colon + 1), begin + 1, INT64_MAX, &end)) {
        *ret_begin = begin;
        *ret_end = end;
        return OK;
    }
    return error_set(
        ERROR_USAGE,
        "--rows \"%s\": must be A:B with 0 <= A < B, the rows from A up to and without "
        "B, counted from 0",
        text);
}

static enum error open_frame(struct service *service, const struct service_options *options)
{
    int64_t begin = 0;
    int64_t end = 0;
    enum error error = OK;
    if (options->rows)
        error = service_parse_rows(options->rows, &begin, &end);
    if (error == OK)
        error = options->frame ? frame_open(options->frame, &service->frame)
                               : frame_build(options->store, &service->frame);
    if (error != OK || !options->rows)
        return error;
    service->whole = service->frame;
    service->frame = NULL;
    return frame_slice(service->whole, begin, end, &service->frame);
}

static enum error draw_seed(uint64_t *ret_seed)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        return error_set_errno(ERROR_IO, errno, "cannot draw a seed; give one with --seed");
    *ret_seed = seed & INT64_MAX;
    return OK;
}

static enum error choose_design(struct service *service, const struct service_options *options)
{
    const struct state_record *kept = service->state ? state_kept(service->state) : NULL;
    struct design *design = &service->design;
    design->name = options->design;
    if (!design->name)
        design->name = frame_has_labels(service->frame) ? "proportional" : "srs";
    design->replacement = options->replacement;
    if (options->seed >= 0) {
        design->seed = (uint64_t)options->seed;
        return OK;
    }
    if (kept) {
        design->seed = kept->binding.seed;
        log_info("seed %" PRIu64 " goes on, kept in %s", design->seed, options->state);
        return OK;
    }
    enum error error = draw_seed(&design->seed);
    if (error == OK)
        log_info("seed %" PRIu64 " was drawn; --seed %" PRIu64 " repeats this order", design->seed,
                 design->seed);
    return error;
}

static enum error bind_state(struct service *service)
{
    struct state_binding binding = {
        .digest = *frame_digest(service->frame),
        .units = frame_units(service->frame),
        .epoch_positions = order_epoch_positions(service->order),
        .replacement = service->design.replacement,
        .seed = service->design.seed,
    };
    snprintf(binding.design, sizeof(binding.design), "%s", service->design.name);
    return state_bind(service->state, &binding);
}

static enum error open_stream(struct service *service, const struct service_options *options)
{
    struct cut cut = {.epoch_positions = order_epoch_positions(service->order),
                      .epochs = options->epochs,
                      .tail = options->tail};
    enum error error = cut_check(&cut);
    if (error == OK && service->state)
        error = bind_state(service);
    if (error == OK)
        error = stream_new(&cut, service->state, options->durability, &service->stream);
    if (error == OK && stream_waits(service->stream))
        error = committer_new(service->stream, &service->committer);
    return error;
}

static void log_what_is_served(const struct service *service)
{
    struct stream_status status;
    stream_status(service->stream, &status);
    log_info("frame %s: %" PRId64 " units, %" PRIu32 " labels; design %s, %s replacement, seed "
             "%" PRIu64 "; position %" PRId64,
             service->digest, frame_units(service->frame), frame_labels(service->frame),
             service->design.name, service->design.replacement ? "with" : "without",
             service->design.seed, status.position);
}

static enum error fill(struct service *service, const struct service_options *options)
{
    enum error error = OK;
    service->max_size = options->max_size;
    if (options->state)
        error = state_open(options->state, &service->state);
    if (error == OK)
        error = open_frame(service, options);
    if (error == OK)
        error = choose_design(service, options);
    if (error == OK)
        error = order_new(service->frame, &service->design, &service->order);
    if (error == OK)
        error = open_stream(service, options);
    if (error == OK)
        error = label_texts_init(&service->label_texts, service->frame);
    if (error == OK)
        error = tally_new(service->frame, service->order, &service->tally);
    if (error == OK)
        frame_digest_text(frame_digest(service->frame), service->digest);
    return error;
}

enum error service_open(const struct service_options *options, struct service **ret_service)
{
    struct service *service = array_new(1, sizeof(*service), "the service");
    if (!service)
        return ERROR_MEMORY;
    enum error error = fill(service, options);
    if (error != OK) {
        service_free(service);
        return error;
    }
    log_what_is_served(service);
    *ret_service = service;
    return OK;
}

enum error service_finish(struct service *service)
{
    committer_free(service->committer);
    service->committer = NULL;
    return stream_finish(service->stream);
}

void service_free(struct service *service)
{
    if (!service)
        return;
    committer_free(service->committer);
    tally_free(service->tally);
    label_texts_release(&service->label_texts);
    stream_free(service->stream);
    state_close(service->state);
    order_free(service->order);
    frame_free(service->frame);
    frame_free(service->whole);
    free(service);
}

struct stream *service_stream(const struct service *service, const char *name)
{
    return strcmp(name, "default") == 0 ? service->stream : NULL;
}
