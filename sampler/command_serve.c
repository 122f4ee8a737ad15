/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/command/options.h"
#include "common/hang.h"
#include "common/http/housekeeper.h"
#include "common/http/listener.h"
#include "common/http/server_state.h"
#include "common/http/systemd.h"
#include "common/log.h"
#include "common/stop.h"
#include "sampler/api/routes.h"
#include "sampler/commands.h"
#include "sampler/serve_options.h"

#define DRAIN_MS 10000
#define DRAIN_AT_ONCE_MS 2000 /* a process that wants to write to a frame waits this long */
#define CLOSE_MS 5000         /* for what still runs after that */
#define LOOK_MS 100           /* interval of checks_result() */
#define ANNOUNCE_BYTES 320

/* Until a signal arrives (OK), or nothing may be drawn any more. */
static enum error wait_for_end(const struct service *service)
{
    enum error error = OK;
    while (!error && !stop_wait(clock_deadline_ns(LOOK_MS)))
        error = service_check(service);
    return error;
}

/* So that load balancers notice that it stops: for `grace_ms`, or until a second signal (OK), or
 * nothing may be drawn any more. */
static enum error serve_on(struct server *server, const struct service *service, int64_t grace_ms)
{
    int64_t deadline_ns = clock_deadline_ns(grace_ms), left_ms;
    enum error error = OK;
    server_enter(server, SERVER_DRAINING);
    while (!error && !stop_repeated() && (left_ms = clock_left_ms(deadline_ns)) > 0) {
        clock_sleep_ms(left_ms < LOOK_MS ? left_ms : LOOK_MS); /* a signal ends it */
        error = service_check(service);
    }
    return error;
}

/* New draws are refused; draws in progress are still answered. */
static enum error end_at_once(struct server *server, struct service *service, enum error error)
{
    struct error_report why;
    error_report_take(error, &why);
    log_error("stopping at once: %s", why.message);
    systemd_stopping();
    if (!server_drain(server, clock_deadline_ns(DRAIN_AT_ONCE_MS)))
        log_warning("some requests were not answered within %d s", DRAIN_AT_ONCE_MS / 1000);
    if (service_finish(service))
        log_debug("%s", error_message());
    return error_restore(&why);
}

/* The line that scripts wait for. */
static bool announce(const char *scheme, const char *authority)
{
    char message[ANNOUNCE_BYTES];
    snprintf(message, sizeof(message), "listening on %s%s", scheme, authority);
    return log_announce(
        message, (const struct log_field[]){log_text("url", message + strlen("listening on ")),
                                            {.key = NULL}});
}

/* Serves until a signal arrives, then answers the requests in progress. */
static enum error serve_until_stopped(struct server *server, struct service *service,
                                      int64_t grace_ms, const char *scheme, const char *authority)
{
    server_set_service(server, service);
    if (!announce(scheme, authority))
        log_warning("cannot write the address to standard output; listening on %s%s", scheme,
                    authority);
    systemd_ready();
    enum error error = wait_for_end(service);
    if (error)
        return end_at_once(server, service, error);
    systemd_stopping();
    log_info("stopping: answering the requests received so far");
    error = serve_on(server, service, grace_ms);
    if (error)
        return end_at_once(server, service, error);
    if (!server_drain(server, clock_deadline_ns(DRAIN_MS)))
        log_warning("some requests were not answered within %d s", DRAIN_MS / 1000);
    return service_finish(service);
}

/* A thread may hang in a file of a token, a key or a frame. */
static void close_all(struct server *server, struct service *service, struct guard *guard)
{
    struct hang hang;
    hang_begin(&hang, CLOSE_MS, "while a disk does not answer; what was answered is kept");
    server_close(server);
    service_free(service);
    guard_close(guard);
    hang_end(&hang);
}

static enum error serve(struct serve_options *options)
{
    struct guard *guard = NULL;
    struct server *server = NULL;
    struct service *service = NULL;
    struct error_report outcome;
    char url[LISTENER_URL_BYTES];
    int descriptor;
    options->guard.grammar = &sampler_tokens;
    if (options->allow_anonymous)
        options->guard.anonymous_scopes = SCOPE_READ | SCOPE_DRAW;
    options->server.application = &sampler_application;
    housekeeper_block_signals();
    enum error error = guard_open(&options->guard, &guard);
    if (!error)
        error = listener_bind("listen", options->host, options->port, &descriptor, url);
    if (error) {
        guard_close(guard);
        return error;
    }
    options->server.guard = guard;
    error = server_open(descriptor, &options->server, &server);
    if (!error)
        error = service_open(&options->service, &service);
    if (!error && !stop_requested())
        error = serve_until_stopped(server, service, (int64_t)(options->drain_s * 1000),
                                    guard_uses_tls(guard) ? "https" : "http", url + strlen("http"));
    if (error == ERROR_CANCELLED) { /* a signal during the frame's build: an orderly end, too */
        log_info("stopping: %s", error_message());
        error = OK;
    }
    error_report_take(error, &outcome);
    close_all(server, service, guard);
    return error_restore(&outcome);
}

static enum error run(const struct program *program, int argc, char **argv)
{
    struct serve_options options;
    enum error error = serve_options_parse(program, &command_serve, argc, argv, &options);
    if (!error) {
        options_log_environment();
        error = serve(&options);
    }
    serve_options_release(&options);
    return error;
}

static const struct option_hint hints[] = {
    {"batch_size", BATCH_SIZE_ADVICE "100"},
    {"port", "it is part of the address: --listen 127.0.0.1:8080"},
    {"host", "it is part of the address: --listen 127.0.0.1:8080"},
    {"data_dir", "rows come from --store URI (csv:PATH, sqlite:PATH, postgresql://...)"},
    {"data", "it is called --store here"},
    {"num_epochs", "it is called --epochs here"},
    {"validation_size", "--splits 0.8,0.1,0.1 are the shares of train, validation and test"},
    {"validation_split", "--splits 0.8,0.1,0.1 are the shares of train, validation and test"},
    {"test_size", "--splits 0.8,0.1,0.1 are the shares of train, validation and test"},
    {"shuffle", "it shuffles by --design NAME and --seed N; --design sequential does not"},
    {"label", "it is part of the store's URI: --store 'csv:train.csv?label=NAME'"},
    {NULL, NULL},
};

const struct command command_serve = {
    .name = "serve",
    .hints = hints,
    .summary = "hand out batches over HTTP",
    .details =
        "Prints one line, `listening on http://HOST:PORT`, when the first batch can be drawn.\n"
        "Then: curl 'http://HOST:PORT/batch?size=100'.\n"
        "SIGTERM: answers the requests received so far, then exits with status 0.\n"
        "\n"
        "  tombola-sampler serve --store csv:train.csv --state state --epochs 10\n"
        "  tombola-sampler serve --frame train.frame --listen 127.0.0.1:8080 --seed 1\n"
        "  tombola-sampler serve --store train=csv:train.csv --store test=csv:test.csv\n",
    .run = run,
};
