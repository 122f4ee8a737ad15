/* SPDX-License-Identifier: MIT */
#include "trainer/exchange/stop_request.h"

#include <stdio.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "trainer/wire/hello.h"
#include "trainer/wire/link.h"

#define ANSWER_MS 5000

static enum error ask(struct link *link, enum wire_type type, const struct buffer *text)
{
    struct wire_header header = {.type = (uint16_t)type, .batch = WIRE_NONE, .done = WIRE_NONE};
    struct iovec part = {.iov_base = text->data, .iov_len = text->length};
    enum error error = link_send(link, &header, &part, 1, clock_deadline_ns(ANSWER_MS));
    if (!error)
        error = link_receive(link, WIRE_TEXT_LIMIT, &header, clock_deadline_ns(ANSWER_MS));
    if (error || header.type == WIRE_WELCOME)
        return error;
    return error_set(ERROR_INPUT, "%s answers %s to %s", link->name, wire_type_name(header.type),
                     wire_type_name(type));
}

enum error stop_request_send(const struct cluster *cluster)
{
    const struct cluster_task *zero = cluster_server(cluster, 0);
    struct hello hello = {.index = cluster->index,
                          .servers = (int64_t)cluster_server_count(cluster)};
    struct buffer greeting = BUFFER_INIT(WIRE_TEXT_LIMIT), nothing = BUFFER_INIT(1);
    struct link link;
    snprintf(hello.role, sizeof(hello.role), "%s", cluster_role_name(cluster, CLUSTER_EVALUATOR));
    link_init(&link, "parameter server 0", zero->host, zero->port);
    enum error error = hello_print(&hello, &greeting);
    if (!error)
        error = link_open(&link, clock_deadline_ns(ANSWER_MS));
    if (!error)
        error = ask(&link, WIRE_HELLO, &greeting);
    if (!error)
        error = ask(&link, WIRE_STOP, &nothing);
    link_close(&link);
    buffer_release(&greeting);
    return error;
}
