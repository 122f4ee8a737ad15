/* SPDX-License-Identifier: MIT */
#include "common/command/healthcheck.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "common/http_client.h"

#define URL_BYTES 320
#define BODY_LIMIT_BYTES ((size_t)64 << 10)
#define DETAIL_BYTES 400

struct healthcheck {
    const char *listen, *url;
    double timeout_seconds;
    bool live;
};

/* The address on which a client reaches a server that listens there. "::" means IPv4, too, which is
 * all that a container has by default; localhost is both. */
static const char *reachable(const char *host)
{
    if (strcmp(host, "0.0.0.0") == 0)
        return "127.0.0.1";
    return strcmp(host, "::") == 0 ? "localhost" : host;
}

static enum error find_url(const struct healthcheck *check, char url[URL_BYTES])
{
    char host[256];
    uint16_t port;
    enum error error = options_host_port("listen", check->listen, host, &port);
    if (error)
        return error;
    if (port == 0)
        return error_set(ERROR_USAGE,
                         "--listen %s: port 0 cannot be asked; give the "
                         "one that the server printed",
                         check->listen);
    const char *address = reachable(host);
    const char *form = strchr(address, ':') ? "http://[%s]:%u" : "http://%s:%u";
    snprintf(url, URL_BYTES, form, address, (unsigned)port);
    return OK;
}

static enum error ask(const struct healthcheck *check, const char *url)
{
    static const struct http_credentials nobody = {.token = ""};
    const char *path = check->live ? "/healthz" : "/readyz";
    struct http_response response = HTTP_RESPONSE_INIT(BODY_LIMIT_BYTES);
    struct http_client *client = NULL;
    enum error error = http_client_open(url, &nobody, &client);
    if (!error) {
        http_client_try_once(client);
        error = http_client_get(client, path, (int64_t)(check->timeout_seconds * 1000), false,
                                &response);
    }
    if (!error && response.status != 200) {
        char detail[DETAIL_BYTES];
        http_response_problem(&response, detail, sizeof(detail));
        error =
            error_set(ERROR_NETWORK, "%s%s: answered %d: %s", url, path, response.status, detail);
    }
    http_client_close(client);
    http_response_release(&response);
    return error;
}

enum error healthcheck_run(const struct program *program, const struct command *command,
                           const char *listen, int argc, char **argv)
{
    struct healthcheck check = {.listen = listen, .timeout_seconds = 2};
    char url[URL_BYTES];
    const struct option table[] = {
        {.name = "listen",
         .type = OPTION_TEXT,
         .target = &check.listen,
         .argument = "HOST:PORT",
         .help = "the address on which the server listens",
         .instead = "url"},
        {.name = "url",
         .type = OPTION_TEXT,
         .target = &check.url,
         .argument = "URL",
         .help = "the server's http:// or https:// URL; replaces --listen",
         .instead = "listen"},
        {.name = "live",
         .type = OPTION_FLAG,
         .target = &check.live,
         .help = "ask /healthz (is the process alive?) instead of /readyz (can it serve?)"},
        {.name = "timeout",
         .type = OPTION_REAL,
         .target = &check.timeout_seconds,
         .argument = "SECONDS",
         .help = "seconds to wait for the answer",
         .minimum = 0.001,
         .maximum = 3600},
    };
    enum error error =
        options_parse(program, command, table, sizeof(table) / sizeof(table[0]), argc, argv, NULL);
    if (!error && !check.url)
        error = find_url(&check, url);
    return error ? error : ask(&check, check.url ? check.url : url);
}
