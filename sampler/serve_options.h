/* SPDX-License-Identifier: MIT */
/*
 * The options of `tombola-sampler serve`: parsed, checked against each other, and distributed to
 * the modules that use them.
 */
#ifndef SAMPLER_SERVE_OPTIONS_H
#define SAMPLER_SERVE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/command/options.h"
#include "common/error.h"
#include "common/http/guard.h"
#include "common/http/server.h"
#include "sampler/service/service.h"

struct serve_options {
    struct service_options service;
    struct server_options server;
    struct guard_options guard;
    char host[256];
    uint16_t port;

    /* As given. */
    const char *listen;
    const char *tail;
    const char *durability;
    const char *answer_memory;
    const char *body_memory;
    double lease_s;
    bool durability_given;
    bool lease_given;
    bool allow_anonymous;
    int64_t size, p, k, groups; /* 0: not given */
    double rate;                /* -1: not given */
    double drain_s;
    const char *shares, *deviations, *column;
    char *fields; /* owned: the design's own fields as JSON; service.fields borrows it */
};

/* ERROR_END after --help; ERROR_USAGE says which option is wrong and what is right. The caller
 * releases it in any case. */
enum error serve_options_parse(const struct program *program, const struct command *command,
                               int argc, char **argv, struct serve_options *ret_options) MUST_CHECK;
void serve_options_release(struct serve_options *options);

#endif
