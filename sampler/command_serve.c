#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/options.h"
#include "common/stop.h"
#include "sampler/commands.h"
#include "sampler/listener.h"
#include "sampler/server.h"
#include "sampler/service.h"

#define DRAIN_MS 10000

struct serve_options {
    struct service_options service;
    const char *listen;
    const char *tail;
    const char *durability;
    bool durability_given;
};

static enum error parse(struct serve_options *serve, int argc, char **argv)
{
    struct service_options *service = &serve->service;
    const struct option options[] = {
        {.name = "store",
         .type = OPTION_TEXT,
         .target = &service->store,
         .argument = "URI",
         .help = "where the units are: csv:PATH, sqlite:PATH, range:N?labels=K"},
        {.name = "frame",
         .type = OPTION_TEXT,
         .target = &service->frame,
         .argument = "FILE",
         .help = "instead of --store: a frame that `tombola-sampler build` made"},
        {.name = "listen",
         .type = OPTION_TEXT,
         .target = &serve->listen,
         .argument = "HOST:PORT",
         .help = "address to listen on; port 0 takes a free one"},
        {.name = "state",
         .type = OPTION_TEXT,
         .target = &service->state,
         .argument = "DIR",
         .help = "folder where the position is kept, so that a restart goes on exactly"},
        {.name = "design",
         .type = OPTION_TEXT,
         .target = &service->design,
         .argument = "NAME",
         .help = "proportional, srs or sequential; default proportional when there are labels, "
                 "else srs"},
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
         .help = "chooses the order; not given: the one in --state, else a random one is drawn"},
        {.name = "epochs",
         .type = OPTION_INTEGER,
         .target = &service->epochs,
         .argument = "N",
         .minimum = 0,
         .maximum = (long double)CUT_POSITION_LIMIT,
         .help = "end after N epochs; 0: never"},
        {.name = "tail",
         .type = OPTION_CHOICE,
         .target = &serve->tail,
         .argument = "HOW",
         .choices = "keep|drop|span",
         .help = "the batch at an epoch's end: short, skipped, or run on into the next epoch"},
        {.name = "rows",
         .type = OPTION_TEXT,
         .target = &service->rows,
         .argument = "A:B",
         .help = "only the rows from A up to and without B, counted from 0 in frame order"},
        {.name = "max_size",
         .type = OPTION_INTEGER,
         .target = &service->max_size,
         .argument = "N",
         .minimum = 1,
         .maximum = 10000000,
         .help = "the largest size= that GET /batch takes"},
        {.name = "durability",
         .type = OPTION_CHOICE,
         .target = &serve->durability,
         .argument = "HOW",
         .choices = "fsync|process|none",
         .given = &serve->durability_given,
         .help = "what a draw survives with --state: power loss (fsync), kill -9 (process), or an "
                 "orderly stop only (none)"},
    };
    return options_parse(&sampler_program, &command_serve, options,
                         sizeof(options) / sizeof(options[0]), argc, argv, NULL);
}

static enum durability durability_of_name(const char *name)
{
    if (strcmp(name, "process") == 0)
        return DURABILITY_PROCESS;
    return strcmp(name, "none") == 0 ? DURABILITY_NONE : DURABILITY_FSYNC;
}

static enum error check(struct serve_options *serve)
{
    struct service_options *service = &serve->service;
    int64_t begin;
    int64_t end;
    if (!service->store == !service->frame)
        return error_set(ERROR_USAGE, "give one of --store URI and --frame FILE");
    if (serve->durability_given && !service->state)
        return error_set(ERROR_USAGE,
                         "--durability %s needs --state DIR: without it nothing is kept",
                         serve->durability);
    if (service->rows) {
        enum error error = service_parse_rows(service->rows, &begin, &end);
        if (error != OK)
            return error;
    }
    service->durability = durability_of_name(serve->durability);
    return tail_of_name(serve->tail, &service->tail);
}

/* Serves until a signal comes, then lets everything that was asked be answered. */
static enum error serve_until_stopped(struct server *server, struct service *service,
                                      const char *url)
{
    server_set_service(server, service);
    if (printf("listening on %s\n", url) < 0 || fflush(stdout) != 0)
        log_warning("cannot write the address to standard output; listening on %s", url);
    (void)stop_wait(clock_deadline_ns(-1));
    log_info("stopping: answering what was asked");
    if (!server_drain(server, clock_deadline_ns(DRAIN_MS)))
        log_warning("some requests were not answered within %d s", DRAIN_MS / 1000);
    return service_finish(service);
}

static enum error serve(const struct serve_options *options)
{
    struct server *server = NULL;
    struct service *service = NULL;
    char host[256];
    char url[LISTENER_URL_BYTES];
    uint16_t port;
    int descriptor;
    enum error error = options_host_port("listen", options->listen, host, &port);
    if (error == OK)
        error = stop_install();
    if (error == OK)
        error = listener_open(host, port, &descriptor, url);
    if (error != OK)
        return error;
    error = server_open(descriptor, options->service.state != NULL, &server);
    if (error == OK)
        error = service_open(&options->service, &service);
    if (error == OK && !stop_requested())
        error = serve_until_stopped(server, service, url);
    if (error == ERROR_CANCELLED) { /* a signal while the frame was built: an orderly end, too */
        log_info("stopping: %s", error_message());
        error = OK;
    }
    server_close(server);
    service_free(service);
    return error;
}

static enum error run(int argc, char **argv, int *exit_status)
{
    struct serve_options options = {
        .service = {.seed = -1, .max_size = 1000000},
        .listen = "127.0.0.1:8080",
        .tail = "keep",
        .durability = "fsync",
    };
    (void)exit_status;
    enum error error = parse(&options, argc, argv);
    if (error == OK)
        error = check(&options);
    return error == OK ? serve(&options) : error;
}

const struct command command_serve = {
    .name = "serve",
    .summary = "hand out batches over HTTP",
    .details =
        "Prints one line, `listening on http://HOST:PORT`, when the first batch can be drawn.\n"
        "Then: curl 'http://HOST:PORT/batch?size=100'. SIGTERM: answers what was asked, exit 0.\n"
        "\n"
        "  tombola-sampler serve --store csv:train.csv --state state --epochs 10\n"
        "  tombola-sampler serve --frame train.frame --listen 0.0.0.0:8080 --seed 1\n",
    .run = run,
};
