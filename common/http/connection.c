/* SPDX-License-Identifier: MIT */
#include "common/http/connection.h"

#include <linux/tcp.h> /* glibc's struct tcp_info ends before tcpi_bytes_received */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/log.h"

#define PHASE_MASK 7u
#define STATE_CLOSE 7      /* TCP_CLOSE; its header and <linux/tcp.h> exclude each other */
#define STATE_CLOSE_WAIT 8 /* TCP_CLOSE_WAIT */
#define SECOND_NS INT64_C(1000000000)
#define NO_REQUEST_LINE                                                   \
    "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400," \
    "\"detail\":\"there is no complete request line\"}\n"

void connections_init(struct connections *set, int64_t limit, int64_t address_limit,
                      int64_t patience_ms, bool tls)
{
    *set = (struct connections){.limit = limit,
                                .address_limit = address_limit,
                                .patience_ns = patience_ms * (SECOND_NS / 1000),
                                .tls = tls};
    pthread_mutex_init(&set->mutex, NULL);
}

void connections_release(struct connections *set)
{
    while (set->first)
        connections_remove(set, set->first);
    pthread_mutex_destroy(&set->mutex);
}

static bool ask_kernel(const struct connection *connection, struct tcp_info *ret_info)
{
    socklen_t length = sizeof(*ret_info);
    *ret_info = (struct tcp_info){0};
    return getsockopt(connection->descriptor, IPPROTO_TCP, TCP_INFO, ret_info, &length) == 0;
}

static uint64_t received_bytes(const struct connection *connection)
{
    struct tcp_info info;
    return ask_kernel(connection, &info) ? info.tcpi_bytes_received : 0;
}

/* libmicrohttpd may have answered by itself: then nothing was received after the last bytes
 * sent. */
static bool was_answered(const struct connection *connection)
{
    struct tcp_info info;
    return ask_kernel(connection, &info) && info.tcpi_bytes_sent > 0 &&
           info.tcpi_last_data_sent <= info.tcpi_last_data_recv;
}

/* Bytes were received, but never a request line. */
static void say_bad_request(const struct connections *set, const struct connection *connection)
{
    char response[sizeof(NO_REQUEST_LINE) + 160];
    if (set->tls ||
        atomic_load_explicit(&connection->phase, memory_order_relaxed) != CONNECTION_WAITING ||
        received_bytes(connection) == 0)
        return;
    int length = snprintf(response, sizeof(response),
                          "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n"
                          "Content-Type: application/problem+json\r\nContent-Length: %zu\r\n\r\n%s",
                          sizeof(NO_REQUEST_LINE) - 1, NO_REQUEST_LINE);
    ssize_t sent =
        send(connection->descriptor, response, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* whoever sent nonsense may miss it */
}

/* Shuts down the connection that has waited longest for its client. A request that may just have
 * come is not lost: `idles` is of the last sweep, the kernel is asked again. Under the mutex. */
static bool make_room(struct connections *set)
{
    struct connection *idlest = NULL;
    for (struct connection *one = set->first; one; one = one->next) {
        if (one->idles && (!idlest || one->waits_ns < idlest->waits_ns) &&
            atomic_load_explicit(&one->phase, memory_order_relaxed) == one->seen_phase)
            idlest = one;
    }
    if (!idlest)
        return false;
    idlest->idles = false;
    return received_bytes(idlest) == idlest->seen_received &&
           shutdown(idlest->descriptor, SHUT_RDWR) == 0;
}

bool connections_have_room(struct connections *set)
{
    pthread_mutex_lock(&set->mutex);
    bool room = set->count + set->expected < set->limit + CONNECTIONS_SURPLUS;
    if (!room)
        (void)make_room(set); /* for the next call, when it is gone */
    pthread_mutex_unlock(&set->mutex);
    return room;
}

static void expect(struct connections *set, int64_t more)
{
    pthread_mutex_lock(&set->mutex);
    set->expected += more;
    pthread_mutex_unlock(&set->mutex);
}

void connections_expect(struct connections *set)
{
    expect(set, 1);
}

void connections_expect_less(struct connections *set)
{
    expect(set, -1);
}

/* Under the mutex. */
static void check_limits(struct connections *set, struct connection *connection,
                         const struct sockaddr *peer)
{
    if (set->address_limit > 0)
        connection->address = addresses_enter(&set->addresses, peer);
    connection->crowds = connection->address && connection->address->count > set->address_limit;
    set->crowding += connection->crowds;
    if (connection->crowds)
        connection->surplus = "your address has as many connections as "
                              "--max-connections-per-address allows";
    else if (set->count > set->limit && !make_room(set))
        connection->surplus = "there are as many connections as --max-connections allows";
    if (connection->crowds && set->crowding > CONNECTIONS_SURPLUS)
        (void)shutdown(connection->descriptor, SHUT_RDWR);
}

struct connection *connections_add(struct connections *set, int descriptor,
                                   const struct sockaddr *peer)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection) {
        connections_expect_less(set);
        return NULL;
    }
    connection->descriptor = descriptor;
    /* The same for a response that the kernel has taken whole. */
    unsigned int patience_ms = (unsigned int)(set->patience_ns / (SECOND_NS / 1000));
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof(patience_ms));
    pthread_mutex_lock(&set->mutex);
    connection->next = set->first;
    if (set->first)
        set->first->previous = connection;
    set->first = connection;
    set->expected--;
    set->count++;
    check_limits(set, connection, peer);
    pthread_mutex_unlock(&set->mutex);
    return connection;
}

void connections_remove(struct connections *set, struct connection *connection)
{
    if (!connection)
        return;
    if (!was_answered(connection))
        say_bad_request(set, connection);
    pthread_mutex_lock(&set->mutex);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        set->first = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    set->count--;
    set->crowding -= connection->crowds;
    addresses_leave(&set->addresses, connection->address);
    pthread_mutex_unlock(&set->mutex);
    free(connection);
}

int64_t connections_count(struct connections *set)
{
    pthread_mutex_lock(&set->mutex);
    int64_t count = set->count;
    pthread_mutex_unlock(&set->mutex);
    return count;
}

/* ---- the sweep ---------------------------------------------------------- */

/* Has the client read nothing of its response for too long? */
static bool is_stuck(const struct connections *set, struct connection *connection, int64_t now_ns)
{
    struct tcp_info info;
    if ((connection->seen_phase & PHASE_MASK) != CONNECTION_SENDING ||
        !ask_kernel(connection, &info))
        return false;
    if (connection->moved_ns < connection->seen_ns ||
        info.tcpi_bytes_acked != connection->seen_acked)
        connection->moved_ns = now_ns;
    connection->seen_acked = info.tcpi_bytes_acked;
    return now_ns - connection->moved_ns > set->patience_ns;
}

/* Has the client closed its side, or reset the connection, while the server waits for more of a
 * request? libmicrohttpd may not notice if that came with the last bytes. */
static bool is_abandoned(const struct connection *connection)
{
    struct tcp_info info;
    return (connection->seen_phase & PHASE_MASK) <= CONNECTION_BODY &&
           ask_kernel(connection, &info) &&
           (info.tcpi_state == STATE_CLOSE_WAIT || info.tcpi_state == STATE_CLOSE);
}

/* How long this phase may last. */
static int64_t allowed_ns(const struct connections *set, const struct connection *connection)
{
    uint64_t bytes = atomic_load_explicit(&connection->bytes, memory_order_relaxed);
    switch (connection->seen_phase & PHASE_MASK) {
    case CONNECTION_WAITING:
    case CONNECTION_HEADER:
        return set->patience_ns;
    case CONNECTION_BODY:
    case CONNECTION_SENDING:
        return set->patience_ns + (int64_t)(bytes / CONNECTION_BYTES_PER_SECOND) * SECOND_NS;
    default:
        return INT64_MAX;
    }
}

static bool is_too_slow(const struct connections *set, struct connection *connection,
                        int64_t now_ns)
{
    uint32_t phase = atomic_load_explicit(&connection->phase, memory_order_relaxed);
    bool waiting = (phase & PHASE_MASK) == CONNECTION_WAITING;
    if (phase != connection->seen_phase || connection->seen_ns == 0) {
        connection->seen_phase = phase;
        connection->seen_ns = connection->waits_ns = now_ns;
        connection->idles = false;
        connection->seen_received = waiting ? received_bytes(connection) : 0;
        return false;
    }
    if (is_abandoned(connection))
        return true;
    connection->idles = waiting && received_bytes(connection) == connection->seen_received;
    /* Between two requests a connection may rest, up to the server's limit for that, which is not
     * ours: its time begins with the first byte that is not a whole line yet. */
    if (connection->idles && !connection->surplus && phase > PHASE_MASK) {
        connection->seen_ns = now_ns;
        return false;
    }
    if (is_stuck(set, connection, now_ns))
        return true;
    /* What was seen may have begun right after the sweep before. */
    int64_t allowed = allowed_ns(set, connection);
    return allowed < INT64_MAX - SECOND_NS && now_ns - connection->seen_ns > allowed + SECOND_NS;
}

int64_t connections_sweep(struct connections *set, int64_t now_ns)
{
    int64_t slow = 0;
    pthread_mutex_lock(&set->mutex);
    for (struct connection *one = set->first; one; one = one->next) {
        if (!is_too_slow(set, one, now_ns))
            continue;
        say_bad_request(set, one);
        (void)shutdown(one->descriptor, SHUT_RDWR);
        slow++;
    }
    pthread_mutex_unlock(&set->mutex);
    if (slow > 0)
        log_debug("%lld connections were too slow and are closed", (long long)slow);
    return slow;
}

/* ---- from the HTTP thread ----------------------------------------------- */

static void set_phase(struct connection *connection, uint32_t phase)
{
    atomic_store_explicit(&connection->phase, phase, memory_order_relaxed);
}

static uint32_t requests_of(const struct connection *connection)
{
    return atomic_load_explicit(&connection->phase, memory_order_relaxed) & ~PHASE_MASK;
}

void connection_enter(struct connection *connection, enum connection_phase phase, uint64_t bytes)
{
    if (!connection)
        return;
    atomic_store_explicit(&connection->bytes, bytes, memory_order_relaxed);
    set_phase(connection, requests_of(connection) | (uint32_t)phase);
}

void connection_rest(struct connection *connection)
{
    if (connection)
        set_phase(connection, (requests_of(connection) + PHASE_MASK + 1) | CONNECTION_WAITING);
}
