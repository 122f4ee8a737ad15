/* SPDX-License-Identifier: MIT */
#include "sampler/serve_options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/http/listener.h"
#include "common/http/memory_budget.h"
#include "common/json.h"
#include "common/listen_socket.h"
#include "common/log.h"
#include "common/machine.h"
#include "common/text.h"
#include "sampler/commands.h"
#include "sampler/design/design_fields.h"
#include "sampler/design/designs.h"

#define LEASE_LEAST_S 0.001
#define LEASE_MOST_S 31536000.0 /* a year */
#define STREAMS_DEFAULT 1000
#define STREAMS_MOST 1000000
#define COUNT_MOST ((long double)FRAME_UNITS_LIMIT)

/* ---- the table ---------------------------------------------------------- */

static enum error parse(struct serve_options *serve, const struct program *program,
                        const struct command *command, int argc, char **argv)
{
    struct service_options *service = &serve->service;
    char designs[DESIGN_NAMES_BYTES];
    char design_help[DESIGN_NAMES_BYTES + 64];
    snprintf(design_help, sizeof(design_help),
             "%s; default proportional when there are labels, else srs",
             design_names(designs, false));
    const struct option options[] = {
        {.name = "store",
         .type = OPTION_TEXT,
         .repeated = true,
         .target = &service->stores,
         .argument = "[NAME=]URI",
         .instead = "frame",
         .help = "the training set: csv:PATH, rows:PATH, parquet:PATH, sqlite:PATH, "
                 "postgresql://..., range:N?labels=K; may be repeated, with a NAME for each frame; "
                 "one without a name is `default`"},
        {.name = "frame",
         .type = OPTION_TEXT,
         .repeated = true,
         .target = &service->frames,
         .argument = "[NAME=]FILE",
         .instead = "store",
         .help = "a frame file from `tombola-sampler build`, instead of or in addition to --store"},
        {.name = "listen",
         .type = OPTION_TEXT,
         .target = &serve->listen,
         .argument = "HOST:PORT",
         .help = "address to listen on; port 0 takes a free port"},
        {.name = "state",
         .type = OPTION_TEXT,
         .target = &service->state,
         .argument = "DIR",
         .help = "folder in which all streams are kept, so that a restart continues exactly where "
                 "they stopped"},
        {.name = "durability",
         .type = OPTION_CHOICE,
         .target = &serve->durability,
         .argument = "HOW",
         .choices = "fsync|process|none",
         .given = &serve->durability_given,
         .help = "with --state, what draws survive: a power loss (fsync), kill -9 (process), or "
                 "only an orderly stop (none)"},
        {.name = "accept_loss",
         .type = OPTION_INTEGER,
         .target = &service->accept_loss,
         .argument = "BYTE",
         .minimum = 0,
         .maximum = (long double)INT64_MAX,
         .help = "start once with a damaged journal that the server refused, and discard it from "
                 "this byte on, which the refusal named: batches drawn after it are served again"},
        {.name = "design",
         .type = OPTION_TEXT,
         .target = &service->design,
         .argument = "NAME",
         .help = design_help},
        {.name = "replacement",
         .type = OPTION_FLAG,
         .target = &service->replacement,
         .help = "draw with replacement"},
        {.name = "seed",
         .type = OPTION_INTEGER,
         .target = &service->seed,
         .argument = "N",
         .minimum = 0,
         .maximum = (long double)INT64_MAX,
         .help = "seed of the order (default: the one in --state, else drawn at random)"},
        {.name = "epochs",
         .type = OPTION_INTEGER,
         .target = &service->epochs,
         .argument = "N",
         .minimum = 0,
         .maximum = (long double)POSITION_LIMIT,
         .help = "end after N epochs; 0: never"},
        {.name = "tail",
         .type = OPTION_CHOICE,
         .target = &serve->tail,
         .argument = "HOW",
         .choices = "keep|drop|span",
         .help = "the batch at an epoch's end: short, skipped, or run on into the next epoch"},
        {.name = "lease",
         .type = OPTION_REAL,
         .target = &serve->lease_s,
         .argument = "SECONDS",
         .minimum = LEASE_LEAST_S,
         .maximum = LEASE_MOST_S,
         .given = &serve->lease_given,
         .help = "how long a worker may keep a batch before it is redelivered (default: twice the "
                 "mean time between a lease and its ack, from 30 to 3600)"},
        {.name = "rows",
         .type = OPTION_TEXT,
         .target = &service->rows,
         .argument = "A:B",
         .help = "only rows A to B-1, counted from 0 in frame order"},
        {.name = "splits",
         .type = OPTION_TEXT,
         .target = &service->splits,
         .argument = "A,B,C",
         .help =
             "shares of train, validation and test, such as 0.8,0.1,0.1; streams choose one with "
             "split=. A hash of a unit's id, or of its group, decides its side, so that it stays "
             "there when the frame grows; each label has these shares only on average"},
        {.name = "split",
         .type = OPTION_TEXT,
         .target = &service->split,
         .argument = "NAME",
         .help = "the side that stream `default` draws from: train, validation or test"},
        {.name = "size",
         .type = OPTION_INTEGER,
         .target = &serve->size,
         .argument = "N",
         .minimum = 1,
         .maximum = COUNT_MOST,
         .help = "designs weighted and systematic: units per epoch"},
        {.name = "shares",
         .type = OPTION_TEXT,
         .json = true,
         .target = &serve->shares,
         .argument = "JSON",
         .help = "design quota: the share of each label, {\"0\":0.5,\"1\":0.5}"},
        {.name = "deviations",
         .type = OPTION_TEXT,
         .json = true,
         .target = &serve->deviations,
         .argument = "JSON",
         .help = "design neyman: the standard deviation within each label, {\"0\":1.5,\"1\":4}"},
        {.name = "column",
         .type = OPTION_TEXT,
         .target = &serve->column,
         .argument = "NAME",
         .help = "design neyman: the column of the store that deviations are measured in"},
        {.name = "p",
         .type = OPTION_INTEGER,
         .target = &serve->p,
         .argument = "N",
         .minimum = 1,
         .maximum = COUNT_MOST,
         .help = "design pxk: labels per batch"},
        {.name = "k",
         .type = OPTION_INTEGER,
         .target = &serve->k,
         .argument = "N",
         .minimum = 1,
         .maximum = COUNT_MOST,
         .help = "design pxk: units per label in a batch"},
        {.name = "groups",
         .type = OPTION_INTEGER,
         .target = &serve->groups,
         .argument = "N",
         .minimum = 1,
         .maximum = COUNT_MOST,
         .help = "design cluster: groups per epoch (default: all)"},
        {.name = "rate",
         .type = OPTION_REAL,
         .target = &serve->rate,
         .argument = "R",
         .minimum = 0,
         .maximum = 1,
         .help = "design bernoulli: the probability of each unit"},
        {.name = "max_size",
         .type = OPTION_INTEGER,
         .target = &service->max_size,
         .argument = "N",
         .minimum = 1,
         .maximum = 10000000,
         .help = "the largest size= that GET /batch accepts, and the largest p * k of design pxk"},
        {.name = "max_streams",
         .type = OPTION_INTEGER,
         .target = &service->max_streams,
         .argument = "N",
         .minimum = 1,
         .maximum = STREAMS_MOST,
         .help = "the largest number of streams at once"},
        {.name = "max_connections",
         .type = OPTION_INTEGER,
         .target = &serve->server.connections,
         .argument = "N",
         .minimum = 1,
         .maximum = SERVER_CONNECTIONS_MOST,
         .help = "the largest number of connections at once; each costs an open file and up to 24 "
                 "KB, plus what its request needs"},
        {.name = "max_connections_per_address",
         .type = OPTION_INTEGER,
         .target = &serve->server.address_connections,
         .argument = "N",
         .minimum = 0,
         .maximum = SERVER_CONNECTIONS_MOST,
         .help = "the largest number of connections from one client address (IPv6: from its first "
                 "64 bits); 0: no limit of its own, since many workers may share an address"},
        {.name = "max_answer_memory",
         .type = OPTION_TEXT,
         .target = &serve->answer_memory,
         .argument = "BYTES",
         .help = "memory for all responses above 64K that clients have not read yet, such as 512M "
                 "or 2G, at least 1M; if it is full, requests get 503 before anything is drawn"},
        {.name = "max_body_memory",
         .type = OPTION_TEXT,
         .target = &serve->body_memory,
         .argument = "BYTES",
         .help = "memory for all request bodies above 4K that are not answered yet, such as 64M, "
                 "at least 1M; if it is full, requests get 503"},
        {.name = "drain",
         .type = OPTION_REAL,
         .target = &serve->drain_s,
         .argument = "SECONDS",
         .minimum = 0,
         .maximum = 600,
         .help = "after SIGTERM, keep serving this long with /readyz 503 so that load balancers "
                 "notice"},
        {.name = "header_timeout",
         .type = OPTION_INTEGER,
         .target = &serve->server.patience_seconds,
         .argument = "SECONDS",
         .minimum = 1,
         .maximum = SERVER_PATIENCE_MOST_SECONDS,
         .help = "how long a client may take to send a request's header, to send its body, or to "
                 "read a response"},
        {.name = "token_file",
         .type = OPTION_TEXT,
         .target = &serve->guard.token_file,
         .argument = "FILE",
         .help = "who may do what: JSON with the SHA-256, scopes and streams of each token; "
                 "reloaded on SIGHUP"},
        {.name = "allow_anonymous",
         .type = OPTION_FLAG,
         .target = &serve->allow_anonymous,
         .help = "anyone who reaches the address may read and draw without a token; changing "
                 "streams still needs a token of scope admin"},
        {.name = "tls_cert",
         .type = OPTION_TEXT,
         .target = &serve->guard.tls_cert,
         .argument = "FILE",
         .help = "certificate chain (PEM) for HTTPS; reloaded on SIGHUP"},
        {.name = "tls_key",
         .type = OPTION_TEXT,
         .target = &serve->guard.tls_key,
         .argument = "FILE",
         .help = "its private key (PEM)"},
    };
    return options_parse(program, command, options, sizeof(options) / sizeof(options[0]), argc,
                         argv, NULL);
}

/* ---- options that depend on each other ---------------------------------- */

static enum durability durability_of_name(const char *name)
{
    if (strcmp(name, "process") == 0)
        return DURABILITY_PROCESS;
    return strcmp(name, "none") == 0 ? DURABILITY_NONE : DURABILITY_FSYNC;
}

static enum error check_frames(const struct serve_options *serve)
{
    const struct service_options *service = &serve->service;
    bool several = (service->stores && strchr(service->stores, '\n')) ||
                   (service->frames && strchr(service->frames, '\n'));
    if (!service->stores && !service->frames)
        return error_set(ERROR_USAGE, "give one of --store URI and --frame FILE");
    if (service->stores && service->frames && !several && !strchr(service->stores, '=') &&
        !strchr(service->frames, '='))
        return error_set(ERROR_USAGE, "give one of --store URI and --frame FILE, or names to both: "
                                      "--store a=URI --frame b=FILE");
    return OK;
}

static enum error check_state(const struct serve_options *serve)
{
    if (serve->durability_given && !serve->service.state)
        return error_set(ERROR_USAGE,
                         "--durability %s needs --state DIR: without it nothing is kept",
                         serve->durability);
    if (serve->service.accept_loss > 0 && !serve->service.state)
        return error_set(ERROR_USAGE,
                         "--accept-loss %" PRId64 " needs --state DIR: it names a byte of the "
                         "damaged journal in there",
                         serve->service.accept_loss);
    return OK;
}

static enum error take_memory(const char *option, const char *given, int64_t *ret_bytes)
{
    char shown[TEXT_QUOTE_BYTES];
    if (text_parse_bytes(given, MEMORY_BUDGET_LEAST_BYTES, ret_bytes))
        return OK;
    return error_set(ERROR_USAGE,
                     "--%s is %s, must be a number of bytes, which may end in K, M, G or T, "
                     "and at least %" PRId64 "M",
                     option, text_quote(shown, sizeof(shown), given, strlen(given)),
                     MEMORY_BUDGET_LEAST_BYTES >> 20);
}

/* Clients that do not read their responses can make the server use all of it. */
static void warn_of_memory(const struct server_options *server)
{
    struct machine machine;
    uint64_t bytes = (uint64_t)server->response_bytes + (uint64_t)server->body_bytes;
    machine_look(&machine);
    if (machine.memory_bytes > 0 && bytes > machine.memory_bytes)
        log_warning("--max-answer-memory and --max-body-memory allow %" PRIu64
                    " MiB, and this machine or container has %" PRIu64
                    " MiB: clients can have the server killed; lower them",
                    bytes >> 20, machine.memory_bytes >> 20);
}

static enum error check_guard(const struct serve_options *serve)
{
    const struct guard_options *guard = &serve->guard;
    if (!guard->tls_cert != !guard->tls_key)
        return error_set(ERROR_USAGE, "--tls-cert and --tls-key go together; --tls-%s is missing",
                         guard->tls_cert ? "key" : "cert");
    if (guard->token_file || serve->allow_anonymous || listen_socket_is_loopback(serve->host))
        return OK;
    enum error error = listener_check_host(serve->host, serve->port);
    if (error)
        return error;
    return error_set(ERROR_USAGE,
                     "--listen %s is reached from other machines: give --token-file FILE, or "
                     "--allow-anonymous to let anyone read and draw",
                     serve->listen);
}

/* ---- the design's own --------------------------------------------------- */

static enum error add_json(cJSON *object, const char *name, const char *text)
{
    cJSON *value;
    char what[32] = "--";
    if (!text)
        return OK;
    strncat(what, name, sizeof(what) - 3);
    enum error error = json_parse(text, strlen(text), what, &value);
    if (error)
        return error_prefix(ERROR_USAGE, "%s", "");
    if (!cJSON_AddItemToObject(object, name, value)) {
        cJSON_Delete(value);
        return error_set_memory(strlen(text), "the design's options");
    }
    return OK;
}

/* A negative value means not given. */
static enum error add_number(cJSON *object, const char *name, double value)
{
    if (value >= 0 && !cJSON_AddNumberToObject(object, name, value))
        return error_set_memory(sizeof(value), "the design's options");
    return OK;
}

static enum error fill_fields(const struct serve_options *serve, cJSON *object)
{
    enum error error = add_number(object, "p", serve->p > 0 ? (double)serve->p : -1);
    if (!error)
        error = add_number(object, "k", serve->k > 0 ? (double)serve->k : -1);
    if (!error)
        error = add_number(object, "size", serve->size > 0 ? (double)serve->size : -1);
    if (!error)
        error = add_number(object, "groups", serve->groups > 0 ? (double)serve->groups : -1);
    if (!error)
        error = add_number(object, "rate", serve->rate);
    if (!error)
        error = add_json(object, "shares", serve->shares);
    if (!error)
        error = add_json(object, "deviations", serve->deviations);
    if (!error && serve->column && !cJSON_AddStringToObject(object, "column", serve->column))
        error = error_set_memory(strlen(serve->column), "the design's options");
    return error;
}

static enum error refuse_field(const struct serve_options *serve, const char *name)
{
    const struct design_field *field = design_field_list();
    const char *design = serve->service.design;
    char advice[128] = "";
    while (strcmp(field->name, name) != 0)
        field++;
    if (strcmp(name, "size") == 0)
        snprintf(advice, sizeof(advice), "; " BATCH_SIZE_ADVICE "%" PRId64, serve->size);
    return error_set(ERROR_USAGE, "--%s is for design %s, and %s%s%s%s", name, field->designs,
                     design ? "--design is " : "no --design is given", design ? design : "",
                     serve->service.replacement ? " with --replacement" : "", advice);
}

/* Errors that do not depend on the frame are reported before any is read. */
static enum error check_design(const struct serve_options *serve, const cJSON *fields)
{
    bool replacement = serve->service.replacement;
    const char *design = serve->service.design;
    if (!design)
        design = "srs"; /* like proportional, the other default, it has no fields */
    enum error error = order_check_design(design, replacement);
    if (error)
        return error_prefix(error, "--");
    const cJSON *item;
    cJSON_ArrayForEach(item, fields)
    {
        if (!design_has_field(design, replacement, item->string))
            return refuse_field(serve, item->string);
    }
    return OK;
}

static enum error take_fields(struct serve_options *serve)
{
    cJSON *object = cJSON_CreateObject();
    enum error error = object ? fill_fields(serve, object)
                              : error_set_memory(sizeof(*object), "the design's options");
    if (!error)
        error = check_design(serve, object);
    if (!error && object->child) {
        serve->fields = cJSON_PrintUnformatted(object);
        if (!serve->fields)
            error = error_set_memory(sizeof(*object), "the design's options");
        serve->service.fields = serve->fields;
    }
    cJSON_Delete(object);
    return error;
}

static enum error settle(struct serve_options *serve)
{
    struct service_options *service = &serve->service;
    int64_t begin;
    int64_t end;
    enum error error = check_frames(serve);
    if (!error)
        error = check_state(serve);
    if (!error && service->rows)
        error = options_range("rows", service->rows, &begin, &end);
    if (!error)
        error = options_host_port("listen", serve->listen, serve->host, &serve->port);
    if (!error)
        error = check_guard(serve);
    if (!error)
        error =
            take_memory("max-answer-memory", serve->answer_memory, &serve->server.response_bytes);
    if (!error)
        error = take_memory("max-body-memory", serve->body_memory, &serve->server.body_bytes);
    if (!error)
        warn_of_memory(&serve->server);
    if (!error)
        error = tail_of_name(serve->tail, &service->tail);
    if (!error)
        error = take_fields(serve);
    service->durability = durability_of_name(serve->durability);
    service->lease_ms = serve->lease_given ? (int64_t)llround(serve->lease_s * 1000) : 0;
    return error;
}

enum error serve_options_parse(const struct program *program, const struct command *command,
                               int argc, char **argv, struct serve_options *ret_options)
{
    *ret_options = (struct serve_options){
        .service = {.seed = -1, .max_size = 1000000, .max_streams = STREAMS_DEFAULT},
        .server = {.connections = SERVER_CONNECTIONS_DEFAULT,
                   .patience_seconds = SERVER_PATIENCE_DEFAULT_SECONDS},
        .listen = "127.0.0.1:8080",
        .tail = "keep",
        .durability = "fsync",
        .answer_memory = "1G",
        .body_memory = "64M",
        .rate = -1,
        .drain_s = 0.5,
    };
    enum error error = parse(ret_options, program, command, argc, argv);
    return error ? error : settle(ret_options);
}

void serve_options_release(struct serve_options *options)
{
    cJSON_free(options->fields);
    options->fields = NULL;
}
