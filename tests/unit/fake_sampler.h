/* SPDX-License-Identifier: MIT */
/*
 * A sampler of a few lines, on a port of its own in this process: one thread a connection, HTTP/1.1
 * with keep-alive, GET /streams/NAME and GET /batch?size=&index=&stream=&format=binary of a
 * sequential order of N units (tail keep), also by lease (worker=, seq=, batches=): each lease is
 * new, and POST /ack, /extend and /release are heard. What it does wrong is scripted per batch
 * request.
 */
#ifndef TESTS_UNIT_FAKE_SAMPLER_H
#define TESTS_UNIT_FAKE_SAMPLER_H

#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "loader/feed/sampler_batch.h"

enum fake_answer {
    FAKE_RIGHT,
    FAKE_BUSY,     /* 503 with Retry-After: 0 */
    FAKE_LENT,     /* the same, as only leased batches are left */
    FAKE_LOST,     /* 409: the response of before was lost, and so is its lease */
    FAKE_SILENT,   /* no answer, the connection stays open */
    FAKE_HANG_UP,  /* closes without an answer */
    FAKE_DIES,     /* closes in the middle of the body */
    FAKE_SHORT,    /* a body of one unit less than it says */
    FAKE_TOO_MANY, /* one unit more than was asked for, as of a batch that comes again */
    FAKE_LARGE,    /* the same, as of a new batch */
    FAKE_OTHER_EPOCH,
    FAKE_NEGATIVE_ID,
    FAKE_GARBAGE,    /* HTML */
    FAKE_OTHER_PLACE /* begins one unit further on */
};

#define FAKE_CONNECTIONS 32
#define FAKE_BODY_BYTES (1 << 20)
#define FAKE_EXPIRES_MS 600000

struct fake_connection {
    struct fake_sampler *sampler;
    int socket;
    pthread_t thread;
    int attempt; /* of what is answered */
    char request[4096];
    char body[FAKE_BODY_BYTES];
};

struct fake_sampler {
    /* Set before fake_start(): */
    int64_t units;    /* N */
    int64_t epochs;   /* 0: without end */
    int64_t max_size; /* 0: no limit */
    const char *tail; /* as GET /streams gives it; NULL: "keep" */
    bool unnamed;     /* refuses worker= beside index=, as samplers of old did */
    bool new_seed;    /* another seed from the second description on, as after a restart */
    enum fake_answer (*script)(int64_t request, void *context); /* NULL: always right */
    void *context;
    int delay_us; /* before each batch */
    /* Seen: */
    _Atomic int64_t batch_requests, connections, largest_size, descriptions;
    _Atomic int64_t named;    /* batch requests with worker= */
    _Atomic int64_t leased;   /* batches */
    _Atomic int64_t settled;  /* POSTs */
    _Atomic int64_t acked;    /* of them, POST /ack */
    _Atomic int64_t position; /* of the default stream */
    /* Its own: */
    uint16_t port;
    char url[64];
    const char *labels; /* what GET /labels says; NULL: 404 */
    bool cuts_labels;   /* closes in the middle of them */
    int listener;
    pthread_t thread;
    _Atomic bool ending;
    struct fake_connection *opened[FAKE_CONNECTIONS];
};

/* The order: any bijection will do. */
static inline int64_t fake_id(const struct fake_sampler *sampler, int64_t position)
{
    return (position % sampler->units * 7 + 3) % sampler->units;
}

static inline void fake_send(struct fake_connection *connection, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t sent = send(connection->socket, at, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        at += sent;
        length -= (size_t)sent;
    }
}

static inline void fake_reply(struct fake_connection *connection, int status, const char *type,
                              const char *body, size_t length, size_t sent_length)
{
    char head[256];
    int head_length = snprintf(head, sizeof(head),
                               "HTTP/1.1 %d X\r\nContent-Type: %s\r\n%sContent-Length: %zu\r\n"
                               "Tombola-Attempt: %d\r\nTombola-Expires-Ms: %d\r\n\r\n",
                               status, type, status == 503 ? "Retry-After: 0\r\n" : "", length,
                               connection->attempt, FAKE_EXPIRES_MS);
    if (status == 204)
        head_length = snprintf(head, sizeof(head), "HTTP/1.1 204 X\r\n\r\n");
    fake_send(connection, head, (size_t)head_length);
    fake_send(connection, body, sent_length);
}

static inline void fake_problem(struct fake_connection *connection, int status, const char *type,
                                const char *detail)
{
    char body[256];
    int length = snprintf(body, sizeof(body),
                          "{\"type\":\"%s\",\"title\":\"No\",\"status\":%d,\"detail\":\"%s\"}",
                          type, status, detail);
    fake_reply(connection, status, "application/problem+json", body, (size_t)length,
               (size_t)length);
}

static inline void fake_describe(struct fake_connection *connection)
{
    struct fake_sampler *sampler = connection->sampler;
    bool again = atomic_fetch_add(&sampler->descriptions, 1) > 0;
    char body[512];
    int length = snprintf(
        body, sizeof(body),
        "{\"name\":\"seed\",\"frame\":\"default\",\"digest\":\"00112233445566778899aabbccddeeff\","
        "\"design\":\"sequential\",\"replacement\":false,\"other\":{\"seed\":5},"
        "\"seed\":%" PRId64 ",\"units\":%" PRId64 ",\"epochs\":%" PRId64
        ",\"tail\":\"%s\",\"epoch_draws\":%" PRId64 ",\"position\":0}",
        again && sampler->new_seed ? 7 : INT64_MAX, sampler->units, sampler->epochs,
        sampler->tail ? sampler->tail : "keep", sampler->units);
    fake_reply(connection, 200, "application/json", body, (size_t)length, (size_t)length);
}

static inline int64_t fake_parameter(const char *request, const char *name, int64_t fallback)
{
    const char *at = strstr(request, name);
    return at ? atoll(at + strlen(name)) : fallback;
}

/* `lease`: as one of a list; NULL: as all there is. */
static inline size_t fake_write_batch(struct fake_connection *connection, size_t at, int64_t first,
                                      int64_t size, const struct sampler_lease *lease)
{
    const struct fake_sampler *sampler = connection->sampler;
    const struct sampler_batch_header header = {.magic = SAMPLER_BATCH_MAGIC,
                                                .epoch = first / sampler->units,
                                                .first = first,
                                                .rows = (uint32_t)size,
                                                .flags = lease ? SAMPLER_BATCH_LISTED : 0};
    char *body = connection->body + at, *ids = body + sampler_batch_ids_at(lease);
    memset(body, 0, sampler_batch_bytes((size_t)size, lease));
    memcpy(body, &header, sizeof(header));
    if (lease)
        memcpy(body + sizeof(header), lease, sizeof(*lease));
    for (int64_t i = 0; i < size; i++) {
        int64_t id = fake_id(sampler, first + i);
        uint32_t label = (uint32_t)(id % 10);
        memcpy(ids + 8 * i, &id, 8);
        memcpy(ids + 8 * size + 4 * i, &label, 4);
    }
    return sampler_batch_bytes((size_t)size, lease);
}

/* Tail keep: a batch ends with its epoch. */
static inline int64_t fake_cut(const struct fake_sampler *sampler, int64_t first, int64_t size)
{
    int64_t left = sampler->units - first % sampler->units;
    if (sampler->epochs > 0 && first >= sampler->epochs * sampler->units)
        return 0;
    return size < left ? size : left;
}

static inline int64_t fake_first(struct fake_sampler *sampler, int64_t size, int64_t index)
{
    if (index >= 0) {
        int64_t batches = (sampler->units + size - 1) / size;
        return index / batches * sampler->units + index % batches * size;
    }
    int64_t first = atomic_load(&sampler->position);
    while (!atomic_compare_exchange_weak(&sampler->position, &first,
                                         first + fake_cut(sampler, first, size)))
        ;
    return first;
}

/* Up to `most` batches; how many bytes, 0: the stream has ended. */
static inline size_t fake_write_leases(struct fake_connection *connection, int64_t size,
                                       int64_t seq, int64_t most)
{
    struct fake_sampler *sampler = connection->sampler;
    size_t length = 0;
    for (int64_t i = 0; i < most; i++) {
        const struct sampler_lease lease = {
            .seq = seq + i, .attempt = 1, .expires_ms = FAKE_EXPIRES_MS};
        int64_t first = fake_first(sampler, size, -1), rows = fake_cut(sampler, first, size);
        if (rows == 0)
            break;
        length += fake_write_batch(connection, length, first, rows, most > 1 ? &lease : NULL);
        atomic_fetch_add(&sampler->leased, 1);
    }
    return length;
}

/* false: the connection is to be closed. */
static inline bool fake_batch(struct fake_connection *connection)
{
    struct fake_sampler *sampler = connection->sampler;
    int64_t number = atomic_fetch_add(&sampler->batch_requests, 1);
    enum fake_answer answer =
        sampler->script ? sampler->script(number, sampler->context) : FAKE_RIGHT;
    int64_t size = fake_parameter(connection->request, "size=", 100);
    if (size > atomic_load(&sampler->largest_size))
        atomic_store(&sampler->largest_size, size);
    if (sampler->delay_us > 0)
        usleep((useconds_t)sampler->delay_us);
    if (answer == FAKE_SILENT)
        return true;
    if (answer == FAKE_HANG_UP)
        return false;
    if (answer == FAKE_BUSY || answer == FAKE_LENT) {
        fake_problem(connection, 503, answer == FAKE_LENT ? "/problems/all-lent" : "about:blank",
                     "nothing but leased batches");
        return true;
    }
    if (answer == FAKE_LOST) {
        fake_problem(connection, 409, "/problems/pair-lost", "its lease expired");
        return true;
    }
    if (sampler->max_size > 0 && size > sampler->max_size) {
        fake_problem(connection, 400, "about:blank", "size is over --max-size");
        return true;
    }
    bool named = strstr(connection->request, "&worker=") != NULL;
    atomic_fetch_add(&sampler->named, named);
    if (named && sampler->unnamed) {
        fake_problem(connection, 400, "about:blank",
                     "worker: index=2 moves nothing; it goes without worker, seq and ack");
        return true;
    }
    int64_t index = fake_parameter(connection->request, "index=", -1);
    int64_t seq = fake_parameter(connection->request, "&seq=", -1);
    if (seq >= 0) {
        size_t leases = fake_write_leases(connection, size, seq,
                                          fake_parameter(connection->request, "&batches=", 1));
        fake_reply(connection, leases > 0 ? 200 : 204, "application/octet-stream", connection->body,
                   leases, leases);
        return true;
    }
    int64_t first = fake_first(sampler, size, index) + (answer == FAKE_OTHER_PLACE);
    bool larger = answer == FAKE_TOO_MANY || answer == FAKE_LARGE;
    int64_t rows = fake_cut(sampler, first, size) + larger;
    connection->attempt = 1 + (answer == FAKE_TOO_MANY);
    if (rows == 0) {
        fake_reply(connection, 204, "", "", 0, 0);
        return true;
    }
    size_t length = fake_write_batch(connection, 0, first, rows, NULL);
    if (answer == FAKE_OTHER_EPOCH)
        connection->body[offsetof(struct sampler_batch_header, epoch)]++;
    if (answer == FAKE_NEGATIVE_ID)
        memset(connection->body + 32, 0xff, 8);
    if (answer == FAKE_GARBAGE)
        length = (size_t)snprintf(connection->body, 64, "<html>It works!</html>");
    size_t sent = answer == FAKE_DIES ? length / 2 : length;
    if (answer == FAKE_SHORT)
        length = sent = length - 12;
    fake_reply(connection, 200, "application/octet-stream", connection->body, length, sent);
    return answer != FAKE_DIES;
}

static inline bool fake_is_whole(const char *request)
{
    const char *end = strstr(request, "\r\n\r\n"), *length = strstr(request, "Content-Length: ");
    return end && (!length || strlen(end + 4) >= strtoul(length + 16, NULL, 10));
}

static inline void fake_settle(struct fake_connection *connection)
{
    char body[sizeof(connection->request) + 100];
    const char *list = strstr(connection->request, "\"seqs\":["), *seqs = list ? list + 8 : "";
    int length = snprintf(body, sizeof(body), "{\"expires_ms\":%d,\"acked\":[%.*s],\"released\":0}",
                          FAKE_EXPIRES_MS, (int)strcspn(seqs, "]"), seqs);
    atomic_fetch_add(&connection->sampler->settled, 1);
    atomic_fetch_add(&connection->sampler->acked,
                     strncmp(connection->request, "POST /ack ", 10) == 0);
    fake_reply(connection, 200, "application/json", body, (size_t)length, (size_t)length);
}

static inline bool fake_labels(struct fake_connection *connection)
{
    const struct fake_sampler *sampler = connection->sampler;
    size_t length = strlen(sampler->labels);
    fake_reply(connection, 200, "application/json", sampler->labels, length,
               sampler->cuts_labels ? length / 2 : length);
    return !sampler->cuts_labels;
}

static inline void *fake_serve(void *context)
{
    struct fake_connection *connection = context;
    size_t length = 0;
    bool open = true;
    while (open) {
        ssize_t got = recv(connection->socket, connection->request + length,
                           sizeof(connection->request) - 1 - length, 0);
        if (got <= 0)
            break;
        length += (size_t)got;
        connection->request[length] = '\0';
        if (!fake_is_whole(connection->request))
            continue;
        if (strncmp(connection->request, "GET /streams/", 13) == 0)
            fake_describe(connection);
        else if (strncmp(connection->request, "POST ", 5) == 0)
            fake_settle(connection);
        else if (connection->sampler->labels &&
                 strncmp(connection->request, "GET /labels?", 12) == 0)
            open = fake_labels(connection);
        else if (strncmp(connection->request, "GET /batch?", 11) == 0)
            open = fake_batch(connection);
        else
            fake_problem(connection, 404, "about:blank", "no such path");
        length = 0;
    }
    shutdown(connection->socket, SHUT_RDWR);
    return NULL;
}

static inline void *fake_listen(void *context)
{
    struct fake_sampler *sampler = context;
    for (;;) {
        int socket = accept(sampler->listener, NULL, NULL);
        if (socket < 0)
            return NULL;
        size_t at = (size_t)atomic_fetch_add(&sampler->connections, 1);
        if (at >= FAKE_CONNECTIONS || atomic_load(&sampler->ending)) {
            atomic_fetch_sub(&sampler->connections, 1);
            close(socket);
            continue;
        }
        int at_once = 1;
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
        struct fake_connection *connection = calloc(1, sizeof(*connection));
        connection->sampler = sampler;
        connection->attempt = 1;
        connection->socket = socket;
        sampler->opened[at] = connection;
        pthread_create(&connection->thread, NULL, fake_serve, connection);
    }
}

/* Takes a free port on loopback; from now on connections are accepted by the system, answered after
 * fake_start(). */
static inline void fake_bind(struct fake_sampler *sampler)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    sampler->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(sampler->listener >= 0);
    assert_int_equal(bind(sampler->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(sampler->listener, (struct sockaddr *)&address, &length), 0);
    sampler->port = ntohs(address.sin_port);
    snprintf(sampler->url, sizeof(sampler->url), "http://127.0.0.1:%u", (unsigned)sampler->port);
}

static inline void fake_start(struct fake_sampler *sampler)
{
    if (sampler->port == 0)
        fake_bind(sampler);
    assert_int_equal(listen(sampler->listener, 64), 0);
    assert_int_equal(pthread_create(&sampler->thread, NULL, fake_listen, sampler), 0);
}

static inline void fake_stop(struct fake_sampler *sampler)
{
    atomic_store(&sampler->ending, true);
    shutdown(sampler->listener, SHUT_RDWR);
    pthread_join(sampler->thread, NULL);
    for (int64_t i = 0; i < atomic_load(&sampler->connections); i++) {
        shutdown(sampler->opened[i]->socket, SHUT_RDWR);
        pthread_join(sampler->opened[i]->thread, NULL);
        close(sampler->opened[i]->socket);
        free(sampler->opened[i]);
    }
    close(sampler->listener);
}

#endif
