/* SPDX-License-Identifier: MIT */
/*
 * POST /streams. The body is read on the HTTP thread; a thread pool opens the plan, which may have
 * to read all units; then the stream is created.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/http/response.h"
#include "common/text.h"
#include "sampler/api/audit.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"
#include "sampler/api/stream_json.h"
#include "sampler/design/design_fields.h"
#include "sampler/design/designs.h"
#include "sampler/ledger/conflicts.h"

#define BODY_LIMIT_BYTES ((size_t)1 << 20)
#define MESSAGE_BYTES 1024
#define LOCATION_BYTES (STREAM_NAME_BYTES + 16)

struct creation {
    const struct service *service;
    struct stream_definition definition; /* owned */
    cJSON *fields;                       /* owned: the body's members for the design */
    char known[BODY_NAMES_BYTES];        /* the fields that every stream has, for messages */
    bool design_given;
    bool replacement_given;
    int64_t position;
    struct sampling_plan *plan; /* owned until the stream has it */
    struct reserved_names *names;
    struct reserved_name name;     /* while the stream is being created */
    struct name_waiter other_made; /* while another one with that name is */
    struct request *request;
};

static void release_creation(struct request *request)
{
    struct creation *creation = request->api->work;
    reserved_names_leave(creation->names, &creation->name);
    stream_definition_release(&creation->definition);
    cJSON_Delete(creation->fields);
    sampling_plan_put(creation->plan);
    free(creation);
}

/* ---- the body ----------------------------------------------------------- */

static enum error read_design(struct body *body, const struct stream_definition *server,
                              struct creation *creation)
{
    struct stream_definition *definition = &creation->definition;
    const char *design;
    char quoted[TEXT_QUOTE_BYTES];
    enum error error = body_text(body, "design", NULL, &design);
    creation->design_given = design != NULL;
    if (!error && !design)
        design = server->design;
    if (!error && strlen(design) >= sizeof(definition->design))
        error = error_set(ERROR_INPUT, "\"design\": there is no design %s",
                          text_quote(quoted, sizeof(quoted), design, strlen(design)));
    if (!error)
        memcpy(definition->design, design, strlen(design) + 1);
    creation->replacement_given = cJSON_HasObjectItem(body->json, "replacement");
    if (!error)
        error = body_boolean(body, "replacement", server->replacement, &definition->replacement);
    return error;
}

static enum error read_seed(struct body *body, struct stream_definition *definition)
{
    int64_t seed;
    enum error error = body_integer(body, "seed", 0, INT64_MAX, -1, &seed);
    if (error || seed < 0)
        return error ? error : stream_seed_draw(&definition->seed);
    definition->seed = (uint64_t)seed;
    return OK;
}

static enum error read_tail(struct body *body, const struct stream_definition *server,
                            struct stream_definition *definition)
{
    const char *tail;
    enum error error = body_text(body, "tail", tail_name(server->tail), &tail);
    if (error)
        return error;
    error = tail_of_name(tail, &definition->tail);
    return !error ? OK : error_prefix(error, "\"tail\": ");
}

static enum error read_lease(struct body *body, const struct stream_definition *server,
                             struct stream_definition *definition)
{
    double seconds;
    enum error error = body_real(body, "lease_s", (double)STREAM_LEASE_LEAST_MS / 1000,
                                 (double)STREAM_LEASE_MOST_MS / 1000, -1, &seconds);
    definition->lease_ms = seconds > 0 ? (int64_t)llround(seconds * 1000) : server->lease_ms;
    return error;
}

static enum error read_rows(struct body *body, struct stream_definition *definition)
{
    const char *rows;
    char quoted[TEXT_QUOTE_BYTES];
    enum error error = body_text(body, "rows", NULL, &rows);
    if (error || !rows)
        return error;
    const char *colon = strchr(rows, ':');
    if (colon &&
        text_parse_integer(rows, (size_t)(colon - rows), 0, INT64_MAX - 1,
                           &definition->rows_begin) &&
        text_parse_integer(colon + 1, strlen(colon + 1), definition->rows_begin + 1, INT64_MAX,
                           &definition->rows_end))
        return OK;
    return error_set(ERROR_INPUT,
                     "\"rows\" is %s, must be \"A:B\" with 0 <= A < B (from A, B excluded)",
                     text_quote(quoted, sizeof(quoted), rows, strlen(rows)));
}

static enum error read_split(struct body *body, struct stream_definition *definition)
{
    const char *split;
    enum error error = body_text(body, "split", NULL, &split);
    if (error || !split)
        return error;
    error = split_of_name(split, &definition->split);
    return !error ? OK : error_prefix(error, "\"split\": ");
}

static enum error read_definition(struct request *request, struct body *body)
{
    struct creation *creation = request->api->work;
    struct stream_definition *definition = &creation->definition;
    const struct stream_definition *server = service_default(creation->service);
    enum error error = handler_read_name(body, "name", NULL, definition->name);
    if (!error)
        error = handler_read_name(body, "frame", server->frame, definition->frame);
    if (!error)
        error = read_design(body, server, creation);
    if (!error)
        error = read_seed(body, definition);
    if (!error)
        error = body_integer(body, "epochs", 0, POSITION_LIMIT, 0, &definition->epochs);
    if (!error)
        error = read_tail(body, server, definition);
    if (!error)
        error = read_lease(body, server, definition);
    if (!error)
        error = read_rows(body, definition);
    if (!error)
        error = read_split(body, definition);
    if (!error)
        error = body_integer(body, "position", 0, INT64_MAX, 0, &creation->position);
    if (error)
        return error;
    body_list_known(body, creation->known);
    body_drop_known(body);
    creation->fields = body->json;
    body->json = NULL;
    return OK;
}

/* ---- in a thread pool --------------------------------------------------- */

/* Does the design have all of these fields? weighted has none with replacement. */
static bool has_fields(const struct stream_definition *definition, const char *fields)
{
    cJSON *json = cJSON_Parse(fields);
    enum error error = design_fields_check_names(definition->design, definition->replacement, json);
    cJSON_Delete(json);
    return !error;
}

/* Uses the server's own fields if the design was not changed. */
static bool takes_server_fields(const struct creation *creation)
{
    const struct stream_definition *server = service_default(creation->service);
    return !creation->design_given && !creation->fields->child && server->fields &&
           strcmp(creation->definition.frame, server->frame) == 0 &&
           has_fields(&creation->definition, server->fields);
}

/* If the body names none, it depends on the stream's frame. */
static void choose_design(struct creation *creation, const struct frame *frame)
{
    struct stream_definition *definition = &creation->definition;
    if (!creation->design_given)
        snprintf(definition->design, sizeof(definition->design), "%s",
                 service_design(creation->service, frame));
}

/* Replacement came only from the server's options. */
static enum error check_replacement(const struct creation *creation)
{
    const struct stream_definition *definition = &creation->definition;
    const struct design_ops *design = design_find(definition->design);
    if (creation->replacement_given || !definition->replacement || !design ||
        design->takes_replacement)
        return OK;
    return error_set(ERROR_USAGE,
                     "design %s has no replacement, and this server was started with "
                     "--replacement, the default of its streams: send "
                     "\"replacement\":false with \"design\":\"%s\"",
                     definition->design, definition->design);
}

/* A member unknown to the design may be a misspelled common one. */
static enum error check_members(const struct creation *creation)
{
    char message[MESSAGE_BYTES];
    enum error error = design_fields_check_names(
        creation->definition.design, creation->definition.replacement, creation->fields);
    if (!error)
        return OK;
    snprintf(message, sizeof(message), "%s", error_message());
    return error_set(error, "the body has an unknown field: %s; every stream has %s", message,
                     creation->known);
}

static enum error settle_fields(struct creation *creation)
{
    struct stream_definition *definition = &creation->definition;
    const struct named_frame *named;
    char *given = NULL;
    if (takes_server_fields(creation)) {
        definition->fields = strdup(service_default(creation->service)->fields);
        return definition->fields ? OK : error_set_memory(1, "a design's fields");
    }
    enum error error = frame_set_get(creation->service->frames, definition->frame, &named);
    if (!error) {
        choose_design(creation, named->frame);
        error = check_replacement(creation);
    }
    if (!error)
        error = check_members(creation);
    if (!error)
        error = design_fields_canonical(named->frame, definition->design, definition->replacement,
                                        creation->fields, &given);
    if (!error)
        error = design_fields_resolve(named->frame, given, named->source, &definition->fields);
    free(given);
    return error;
}

static enum error open_plan(struct request *request, const _Atomic bool *stop)
{
    struct creation *creation = request->api->work;
    (void)stop;
    enum error error = settle_fields(creation);
    if (!error)
        error = sampling_plan_open(creation->service->frames, service_shares(creation->service),
                                   &creation->definition, &creation->plan);
    if (!error)
        error = service_check_batch(creation->service, creation->plan);
    return error;
}

/* ---- the response ------------------------------------------------------- */

/* The stream is kept: others hear that its name is in use. */
static enum MHD_Result respond_created(struct request *request, struct service *service)
{
    struct creation *creation = request->api->work;
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    char location[LOCATION_BYTES];
    (void)service;
    reserved_names_leave(creation->names, &creation->name);
    snprintf(location, sizeof(location), "/streams/%s",
             stream_definition(request->api->stream)->name);
    const struct response_header header = {MHD_HTTP_HEADER_LOCATION, location};
    stream_text_add(&body, request->api->stream);
    enum error error = buffer_add_text(&body, "\n");
    return response_json(request, error, MHD_HTTP_CREATED, &body, &header);
}

static enum MHD_Result create(struct request *request, struct service *service)
{
    struct creation *creation = request->api->work;
    bool waits = false;
    if (request->api->outcome) {
        reserved_names_leave(creation->names, &creation->name);
        return response_error(request, api_request_outcome(request));
    }
    struct sampling_plan *plan = creation->plan;
    creation->plan = NULL;
    enum error error =
        streams_create(service->streams, &creation->definition, plan, creation->position,
                       api_request_waiter(request), &request->api->stream, &waits);
    api_request_count(request);
    if (error)
        reserved_names_leave(creation->names, &creation->name);
    else
        live_notice(service->live, request->api->stream);
    return handler_finish(request, service, error, waits, respond_created);
}

static enum error refuse_name(const struct service *service, const char *name)
{
    struct stream *stream = streams_take(service->streams, name);
    if (!stream)
        stream = streams_take_aside(service->streams, name);
    if (!stream)
        return OK;
    stream_put(stream);
    return error_set_kind(error_set(ERROR_CONFLICT, "there is a stream \"%s\" already", name),
                          PROBLEM_NAME_IN_USE);
}

static void try_again(struct name_waiter *waiter)
{
    struct creation *creation =
        (struct creation *)((char *)waiter - offsetof(struct creation, other_made));
    request_pass(creation->request);
}

/* Continues when no other creation has that name: usually at once. */
static enum MHD_Result start(struct request *request, struct service *service)
{
    struct creation *creation = request->api->work;
    request_gate(request);
    if (!reserved_names_enter(service->names, &creation->name, creation->definition.name,
                              &creation->other_made)) {
        request_wait(request, start);
        return MHD_YES;
    }
    enum error error = refuse_name(service, creation->definition.name);
    if (!error)
        return handler_run_slowly(request, open_plan, create);
    reserved_names_leave(creation->names, &creation->name);
    return response_error(request, error);
}

static enum MHD_Result check(struct request *request, struct service *service)
{
    const struct creation *creation = request->api->work;
    enum error error = api_request_outcome(request);
    if (!error && !request_may(request, SCOPE_ADMIN, creation->definition.name))
        return response_forbidden(request, SCOPE_ADMIN, creation->definition.name);
    if (error)
        return response_error(request, error);
    audit_expect(request, "stream created", log_text("design", creation->definition.design));
    return start(request, service);
}

enum MHD_Result route_create(struct request *request, struct service *service)
{
    struct creation *creation = calloc(1, sizeof(*creation));
    if (!creation)
        return response_error(request, error_set_memory(sizeof(*creation), "a stream"));
    creation->service = service;
    creation->names = service->names;
    creation->request = request;
    creation->other_made.wake = try_again;
    request->api->work = creation;
    request->api->release = release_creation;
    return handler_read_body(request, service, false, read_definition, check);
}
