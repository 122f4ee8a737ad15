/* SPDX-License-Identifier: MIT */
#include "sampler/service/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/command/options.h"
#include "common/json.h"
#include "common/log.h"
#include "sampler/build/split_check.h"
#include "sampler/design/design_fields.h"
#include "sampler/frame/frame_file.h"
#include "sampler/frame/frame_summary.h"

/* ---- frames ------------------------------------------------------------- */

/* A database that does not answer is not gone: it may be starting as well, and a server that ends
 * with 1 is started again. */
static bool is_gone(enum error error)
{
    switch (error) {
    case OK:
    case ERROR_USAGE:
    case ERROR_MEMORY:
    case ERROR_CANCELLED:
    case ERROR_NETWORK:
    case ERROR_TIMEOUT:
        return false;
    default:
        return true;
    }
}

static enum error add_frame(struct service *service, const char *option, const char *text,
                            bool is_store)
{
    char name[FRAME_NAME_BYTES];
    const char *rest;
    enum error error = frame_set_parse(option, text, name, &rest);
    if (error)
        return error;
    error = frame_set_add(service->frames, name, is_store ? rest : NULL, is_store ? NULL : rest);
    if (is_gone(error) && streams_can_wait_for(service->streams, name))
        return frame_set_miss(service->frames, name);
    return error;
}

/* `lines`: one per line, the form of a repeated option. */
static enum error add_frames(struct service *service, const char *option, const char *lines,
                             bool is_store)
{
    enum error error = OK;
    char *copy = lines ? strdup(lines) : NULL;
    if (lines && !copy)
        return error_set_memory(strlen(lines), "the names of frames");
    char *rest;
    for (char *line = copy; line && !error; line = rest) {
        rest = strchr(line, '\n');
        if (rest)
            *rest++ = '\0';
        error = add_frame(service, option, line, is_store);
    }
    free(copy);
    return error;
}

/* ---- what `default` is -------------------------------------------------- */

static enum error choose_seed(struct service *service, const struct service_options *options)
{
    uint64_t *seed = &service->first.seed;
    if (options->seed >= 0) {
        *seed = (uint64_t)options->seed;
        return OK;
    }
    if (streams_kept_seed(service->streams, seed)) {
        log_info("seed %" PRIu64 " goes on, kept in %s", *seed, options->state);
        return OK;
    }
    enum error error = stream_seed_draw(seed);
    if (!error)
        log_info("seed %" PRIu64 " was drawn; --seed %" PRIu64 " repeats this order", *seed, *seed);
    return error;
}

static enum error choose_fields(struct service *service, const struct service_options *options,
                                const struct named_frame *named)
{
    struct stream_definition *first = &service->first;
    cJSON *object = NULL;
    char *given = NULL;
    enum error error = OK;
    if (options->fields)
        error =
            json_parse(options->fields, strlen(options->fields), "the design's options", &object);
    if (!error)
        error = design_fields_canonical(named->frame, first->design, first->replacement, object,
                                        &given);
    if (!error)
        error = design_fields_resolve(named->frame, given, named->source, &first->fields);
    free(given);
    cJSON_Delete(object);
    return error;
}

static enum error choose_rows(struct service *service, const struct service_options *options)
{
    struct stream_definition *first = &service->first;
    enum error error = OK;
    if (options->rows)
        error = options_range("rows", options->rows, &first->rows_begin, &first->rows_end);
    if (!error && options->split)
        error = split_of_name(options->split, &first->split);
    if (!error && options->splits) {
        error = split_shares_parse(options->splits, &service->shares);
        service->has_shares = true;
    }
    if (!error && first->split != SPLIT_NONE && !service->has_shares)
        error = error_set(ERROR_USAGE, "--split %s needs --splits, such as --splits 0.8,0.1,0.1",
                          options->split);
    return error;
}

static enum error define_default(struct service *service, const struct service_options *options)
{
    struct stream_definition *first = &service->first;
    const struct named_frame *named = frame_set_find(service->frames, FRAME_NAME_DEFAULT);
    if (!named)
        named = frame_set_at(service->frames, 0); /* all have names: the first one given */
    service->design_given = options->design != NULL;
    const char *design = options->design ? options->design : service_design(service, named->frame);
    if (strlen(design) >= sizeof(first->design))
        return error_set(ERROR_USAGE, "--design %.40s... is not a design", design);
    snprintf(first->name, sizeof(first->name), "%s", STREAM_DEFAULT);
    snprintf(first->frame, sizeof(first->frame), "%s", named->name);
    snprintf(first->design, sizeof(first->design), "%s", design);
    first->replacement = options->replacement;
    first->epochs = options->epochs;
    first->tail = options->tail;
    first->lease_ms = options->lease_ms;
    enum error error = choose_rows(service, options);
    if (!error)
        error = choose_seed(service, options);
    return error ? error : choose_fields(service, options, named);
}

/* ---- life --------------------------------------------------------------- */

static void log_what_is_served(struct service *service)
{
    struct stream_status status;
    char size[FRAME_SIZE_BYTES];
    struct stream *stream = streams_take(service->streams, STREAM_DEFAULT);
    const struct sampling_plan *plan = stream_plan(stream);
    stream_status(stream, &status);
    log_info("frame %s: %s; design %s%s%s, %s replacement, seed %" PRIu64 "; position %" PRId64,
             plan->binding.digest, frame_summary_size(plan->frame, plan->binding.units, size),
             service->first.design, service->first.fields[0] ? " " : "", service->first.fields,
             service->first.replacement ? "with" : "without", service->first.seed, status.position);
    stream_put(stream);
}

/* Once per frame, if streams without a design would be stratified by its labels. */
static void warn_of_labels(const struct service *service)
{
    for (size_t i = 0; i < frame_set_count(service->frames); i++) {
        const struct named_frame *named = frame_set_at(service->frames, i);
        char name[FRAME_NAME_BYTES + sizeof("frame ")];
        if (strcmp(service_design(service, named->frame), "proportional") != 0)
            continue;
        snprintf(name, sizeof(name), "frame %s", named->name);
        frame_warn_of_labels(named->frame, name);
    }
}

/* In large frame files only data with one entry per label was checked. */
static void log_what_is_not_checked(const struct service *service)
{
    for (size_t i = 0; i < frame_set_count(service->frames); i++) {
        const struct named_frame *named = frame_set_at(service->frames, i);
        uint64_t bytes = frame_file_bytes(named->frame);
        if (bytes > FRAME_FILE_CHECKED_BYTES)
            log_info("frame %s: a file of %" PRIu64 " MiB is not compared with its checksums at "
                     "the start; `tombola-sampler info --verify` does it",
                     named->name, bytes >> 20);
    }
}

static enum error open_streams(struct service *service, const struct service_options *options)
{
    struct streams_options of_streams = {
        .state = service->state,
        .durability = options->durability,
        .max_streams = options->max_streams,
        .accept_loss = (uint64_t)options->accept_loss,
    };
    return streams_open(&of_streams, &service->streams);
}

static enum error start_streams(struct service *service)
{
    struct sampling_plan *plan;
    enum error error =
        sampling_plan_open(service->frames, service_shares(service), &service->first, &plan);
    if (error)
        return error;
    error = service_check_batch(service, plan);
    if (error) {
        sampling_plan_put(plan);
        return error;
    }
    return streams_start(service->streams, service->frames, service_shares(service),
                         &service->first, plan);
}

static enum error watch_frames(const struct service *service)
{
    enum error error = OK;
    for (size_t i = 0; i < frame_set_count(service->frames) && !error; i++)
        error = frame_watch_file(frame_set_at(service->frames, i)->frame);
    return error;
}

static enum error fill(struct service *service, const struct service_options *options)
{
    enum error error = reserved_names_new(&service->names);
    service->max_size = options->max_size;
    service->durability = options->durability;
    if (!error && options->state)
        error = state_open(options->state, &service->state);
    if (!error)
        error = open_streams(service, options);
    if (!error)
        error = frame_set_new(&service->frames);
    if (!error)
        error = add_frames(service, "store", options->stores, true);
    if (!error)
        error = add_frames(service, "frame", options->frames, false);
    if (!error)
        error = frame_set_require(service->frames);
    if (!error)
        error = watch_frames(service);
    if (!error)
        error = define_default(service, options);
    if (!error)
        error = start_streams(service);
    if (!error && service->state)
        state_take(service->state);
    if (!error)
        error = live_new(service->streams, &service->live);
    return error ? error : checks_new(service->state, service->frames, &service->checks);
}

enum error service_open(const struct service_options *options, struct service **ret_service)
{
    struct service *service = array_new(1, sizeof(*service), "the service");
    if (!service)
        return ERROR_MEMORY;
    enum error error = fill(service, options);
    if (error) {
        service_free(service);
        return error;
    }
    log_what_is_served(service);
    warn_of_labels(service);
    log_what_is_not_checked(service);
    if (service->has_shares)
        split_check_frames(service->frames, &service->shares);
    *ret_service = service;
    return OK;
}

enum error service_finish(struct service *service)
{
    return streams_finish(service->streams);
}

enum error service_check(const struct service *service)
{
    return checks_result(service->checks);
}

/* What a hung or late thread may still read when the process ends: kept reachable, so that no leak
 * is reported. */
static struct {
    struct frame_set *volatile frames;
    struct state *volatile state;
} left_behind;

void service_free(struct service *service)
{
    if (!service)
        return;
    live_free(service->live);
    bool ended = checks_free(service->checks);
    if (streams_free(service->streams) && ended)
        state_close(service->state);
    else
        left_behind.state = service->state;
    if (ended)
        frame_set_free(service->frames);
    else
        left_behind.frames = service->frames;
    stream_definition_release(&service->first);
    reserved_names_free(service->names);
    free(service);
}

const struct stream_definition *service_default(const struct service *service)
{
    return &service->first;
}

const char *service_design(const struct service *service, const struct frame *frame)
{
    const char *given = service->design_given ? service->first.design : "proportional";
    return strcmp(given, "proportional") == 0 && !frame_has_labels(frame) ? "srs" : given;
}

enum error service_check_batch(const struct service *service, const struct sampling_plan *plan)
{
    int64_t only = order_batch_size(plan->order);
    if (only <= service->max_size)
        return OK;
    return error_set(ERROR_USAGE,
                     "p * k is %" PRId64 ", the size of every batch of this design, and more than "
                     "the %" PRId64 " units that this server hands out at once (--max-size)",
                     only, service->max_size);
}

const struct split_shares *service_shares(const struct service *service)
{
    return service->has_shares ? &service->shares : NULL;
}
