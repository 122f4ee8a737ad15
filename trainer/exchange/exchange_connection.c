/* SPDX-License-Identifier: MIT */
/* A worker's connections to parameter servers: greetings, and waiting for a server that is away. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "trainer/checkpoint/logdir.h"
#include "trainer/exchange/exchange_private.h"
#include "trainer/wire/hello.h"

#define CONNECT_MS 5000 /* for one attempt */
#define AGAIN_MS 200    /* between two attempts */
#define KEPT_MS 1000    /* a connection that lasts so long is one to a server */
#define TELL_MS 1000
#define START_MS 5000 /* processes that are started together may be this far apart */

void exchange_say_waiting(struct exchange *exchange, const struct remote *remote, const char *why)
{
    if (exchange->waits_for != remote->name)
        log_warning("waiting for %s: %s", remote->name, why);
    exchange->waits_for = remote->name;
}

static void say_there(struct exchange *exchange, const struct remote *remote)
{
    if (exchange->waits_for == remote->name && !remote->in_vain) {
        log_info("%s answers again", remote->name);
        exchange->waits_for = NULL;
    }
}

void exchange_was_answered(struct exchange *exchange, struct remote *remote)
{
    remote->greeted_ns = 0;
    remote->in_vain = false;
    say_there(exchange, remote);
}

enum error exchange_receive(struct exchange *exchange, struct remote *remote, uint64_t most_bytes,
                            struct wire_header *ret_header)
{
    enum error error;
    while ((error = link_await(&remote->link, clock_deadline_ns(EXCHANGE_SAY_MS))) == ERROR_TIMEOUT)
        exchange_say_waiting(exchange, remote, "it is connected, and has not answered for 5 s");
    if (!error)
        error = link_receive(&remote->link, most_bytes, ret_header,
                             clock_deadline_ns(EXCHANGE_SEND_MS));
    if (!error)
        say_there(exchange, remote);
    return error;
}

static enum error say_hello(struct exchange *exchange, struct remote *remote)
{
    const struct cluster *cluster = exchange->options.cluster;
    struct hello hello = {.index = cluster->index,
                          .server = remote - exchange->remotes,
                          .servers = (int64_t)exchange->servers,
                          .aggregate = (int64_t)exchange->options.aggregate,
                          .staleness = exchange->options.staleness,
                          .train_steps = exchange->options.train_steps,
                          .was_saved = exchange->was_saved,
                          .is_grouped = exchange->options.is_grouped,
                          .round_robin = exchange->options.round_robin,
                          .bad_rows = exchange->options.bad_rows};
    struct buffer text = BUFFER_INIT(WIRE_TEXT_LIMIT);
    struct wire_header header = {.type = WIRE_HELLO};
    snprintf(hello.role, sizeof(hello.role), "%s", cluster_role_name(cluster, cluster->role));
    enum error error = hello_print(&hello, &text);
    struct iovec part = {.iov_base = text.data, .iov_len = text.length};
    if (!error)
        error = link_send(&remote->link, &header, &part, 1, clock_deadline_ns(EXCHANGE_SEND_MS));
    buffer_release(&text);
    return error;
}

/* Reads the training's facts. This worker's batches and gradients fit no other training. */
static enum error take_facts(struct exchange *exchange, struct remote *remote, size_t bytes)
{
    struct buffer facts = BUFFER_INIT(WIRE_FACTS_LIMIT + 1), *known = &exchange->facts;
    enum error error = buffer_reserve(&facts, bytes);
    if (!error)
        error = link_read(&remote->link, facts.data, bytes, clock_deadline_ns(EXCHANGE_SEND_MS));
    if (!error && known->length > 0 &&
        (known->length != bytes || memcmp(known->data, facts.data, bytes) != 0))
        error = error_set(ERROR_CONFLICT,
                          "%s trains something else now than when this worker came: another "
                          "--logdir, or with other options; start this worker again",
                          remote->name);
    if (error) {
        buffer_release(&facts);
        return error;
    }
    buffer_release(known);
    *known = facts;
    known->length = bytes;
    return OK;
}

/* Reads WELCOME or, from server 0, FACTS or PROPOSE. */
static enum error take_greeting(struct exchange *exchange, struct remote *remote)
{
    struct wire_header header = {.type = 0};
    enum error error = exchange_receive(exchange, remote, WIRE_FACTS_LIMIT, &header);
    if (error)
        return error;
    bool is_word_of_0 = header.type == WIRE_FACTS || header.type == WIRE_PROPOSE;
    if (header.type != WIRE_WELCOME && (!is_word_of_0 || remote != exchange->remotes))
        return error_set(ERROR_INPUT, "%s answers %s to HELLO", remote->name,
                         wire_type_name(header.type));
    exchange->proposes = header.type == WIRE_PROPOSE;
    bool is_same = header.type == WIRE_FACTS && header.generation == exchange->generation &&
                   header.generation != 0;
    if (remote == exchange->remotes && !is_same) /* it may have been restarted */
        exchange->told = 0;
    remote->is_empty = header.type == WIRE_WELCOME && header.generation == 0;
    return header.type == WIRE_FACTS ? take_facts(exchange, remote, header.bytes) : OK;
}

enum error exchange_send_proposal(struct exchange *exchange, const struct buffer *facts)
{
    struct remote *zero = &exchange->remotes[0];
    struct wire_header header = {.type = WIRE_PROPOSAL};
    struct iovec part = {.iov_base = facts->data, .iov_len = facts->length};
    enum error error =
        link_send(&zero->link, &header, &part, 1, clock_deadline_ns(EXCHANGE_SEND_MS));
    return error ? error : take_greeting(exchange, zero);
}

enum error exchange_send_stream(struct exchange *exchange)
{
    struct remote *zero = &exchange->remotes[0];
    struct wire_header header = {.type = WIRE_STREAM, .batch = exchange->epochs};
    enum error error =
        link_send(&zero->link, &header, NULL, 0, clock_deadline_ns(EXCHANGE_SEND_MS));
    if (!error)
        error = exchange_receive(exchange, zero, 0, &header);
    if (!error && header.type != WIRE_WELCOME)
        error = error_set(ERROR_INPUT, "%s answers %s to STREAM", zero->name,
                          wire_type_name(header.type));
    exchange->told = error ? 0 : exchange->epochs;
    return error;
}

/* A single server's memory has all parameters: the model computes there, and nothing is copied. */
static void move_model(struct exchange *exchange, float *values, float *gradient)
{
    if (exchange->servers > 1 || exchange->own_memory)
        return;
    model_move(exchange->model, values, gradient);
    exchange->values = model_values(exchange->model);
    exchange->gradient = model_gradient_values(exchange->model);
}

void exchange_use_memory(struct exchange *exchange, const struct remote *remote)
{
    move_model(exchange, remote->shared.values, remote->shared.gradient);
}

void exchange_release_memory(struct exchange *exchange, struct remote *remote)
{
    if (remote->shared.values && remote->shared.values == exchange->values)
        move_model(exchange, NULL, NULL);
    shared_memory_release(&remote->shared);
}

/* A server 0 that was restarted before its first save asks again what is trained. One that knows
 * this worker's stream is not told again: others' epochs may have been raised since. */
static enum error connect_once(struct exchange *exchange, struct remote *remote)
{
    exchange_release_memory(exchange, remote);
    remote->offered = false;
    enum error error = link_open(&remote->link, clock_deadline_ns(CONNECT_MS));
    if (!error)
        error = say_hello(exchange, remote);
    if (!error)
        error = take_greeting(exchange, remote);
    if (!error && exchange->proposes && exchange->facts.length > 0)
        error = exchange_send_proposal(exchange, &exchange->facts);
    if (!error && remote == exchange->remotes && exchange->told != exchange->epochs)
        error = exchange_send_stream(exchange);
    return error;
}

/* Nobody waits for it, and the worker ends anyway. */
void exchange_tell_why(struct exchange *exchange, enum error error)
{
    struct remote *zero = &exchange->remotes[0];
    struct error_report report;
    error_report_take(error, &report);
    struct wire_header header = {.type = WIRE_REFUSED};
    struct iovec part = {.iov_base = report.message, .iov_len = strlen(report.message)};
    if (!exchange->rank && zero->link.descriptor >= 0 &&
        link_send(&zero->link, &header, &part, 1, clock_deadline_ns(TELL_MS)))
        log_debug("%s", error_message());
    (void)error_restore(&report);
}

void exchange_lose_grants(struct exchange *exchange)
{
    index_set_clear(&exchange->held);
    index_set_clear(&exchange->granted);
}

bool exchange_may_come_back(enum error error)
{
    return error == ERROR_NETWORK || error == ERROR_TIMEOUT;
}

static bool is_trained(struct exchange *exchange, bool was_met)
{
    const struct exchange_options *options = &exchange->options;
    return logdir_is_trained(options->logdir, options->train_steps,
                             logdir_end_for(was_met, options->may_stop), &exchange->seen);
}

/* Was the last connection lost before it served a request? A server that greets and hangs up, or
 * what stands between, is as good as away. */
static bool is_in_vain(const struct remote *remote)
{
    return remote->greeted_ns != 0 &&
           clock_now_ns() - remote->greeted_ns < KEPT_MS * INT64_C(1000000);
}

enum error exchange_connect(struct exchange *exchange, struct remote *remote)
{
    bool waits = remote->in_vain = is_in_vain(remote);
    if (!remote->in_vain)
        exchange->away_ns = 0;
    for (;; waits = false) {
        enum error error =
            waits ? error_set(ERROR_NETWORK, "%s: closed the connection at a request", remote->name)
                  : connect_once(exchange, remote);
        if (!error)
            say_there(exchange, remote);
        if (!error && remote == exchange->remotes)
            exchange_lose_grants(exchange);
        if (!exchange_may_come_back(error)) {
            remote->greeted_ns = clock_now_ns();
            return error;
        }
        int64_t now_ns = clock_now_ns();
        if (exchange->away_ns == 0)
            exchange->away_ns = now_ns;
        int64_t away_ms = (now_ns - exchange->away_ns) / 1000000;
        int64_t patience_ms = exchange->options.patience_ms;
        bool was_patient = patience_ms >= 0 && away_ms > patience_ms;
        if (!was_patient)
            exchange_say_waiting(exchange, remote, link_reason(&remote->link));
        struct error_report report;
        error_report_take(error, &report);
        if (is_trained(exchange, exchange->facts.length > 0 || away_ms > START_MS || was_patient))
            return error_set(ERROR_END, "the training is over: %s has its last step",
                             exchange->options.logdir);
        if (was_patient)
            return error_prefix(error_restore(&report),
                                "no answer for %" PRId64 " s: ", away_ms / 1000);
        if (stop_wait(clock_deadline_ns(AGAIN_MS)))
            return error_set(ERROR_CANCELLED, "stopped while waiting for %s", remote->name);
    }
}
