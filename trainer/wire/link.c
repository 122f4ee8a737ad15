/* SPDX-License-Identifier: MIT */
#include "trainer/wire/link.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/stop.h"

#define IDLE_SECONDS 10   /* idle time before the first probe */
#define PROBE_SECONDS 5   /* between probes, of which two may be lost */
#define FINISH_MS 3000    /* for requests in progress when the program must stop */
#define UNSENT_MS 20000   /* unacknowledged for this long: the peer is gone */
#define PIECE_BYTES 65536 /* of a large frame: each has the time of a small one */

void link_init(struct link *link, const char *name, const char *host, uint16_t port)
{
    *link = (struct link){.descriptor = -1, .name = name, .host = host, .port = port};
}

const char *link_reason(const struct link *link)
{
    const char *message = error_message();
    size_t length = strlen(link->name);
    if (strncmp(message, link->name, length) != 0)
        return message;
    return message + length + strspn(message + length, ": ");
}

static void hang_up(struct link *link)
{
    if (link->descriptor >= 0)
        close(link->descriptor);
    link->descriptor = -1;
}

void link_close(struct link *link)
{
    hang_up(link);
    name_lookup_leave(&link->lookup);
}

void link_set_options(int descriptor)
{
    int on = 1, idle = IDLE_SECONDS, probe = PROBE_SECONDS, probes = 2, unsent = UNSENT_MS;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &probe, sizeof(probe));
    setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent, sizeof(unsent));
}

/* ---- connecting --------------------------------------------------------- */

static enum error fail(struct link *link, int number)
{
    link_close(link);
    if (number == 0)
        return error_set(ERROR_NETWORK, "%s closed the connection", link->name);
    (void)error_set_errno(ERROR_NETWORK, number, "%s", link->name);
    return ERROR_NETWORK; /* for lack of memory, too: another connection may find some */
}

/* Is the wait over because the program must stop? */
static bool is_stopped(struct link *link)
{
    if (!stop_requested() || !link->finishes)
        return stop_requested();
    if (link->finish_by_ns == 0)
        link->finish_by_ns = clock_deadline_ns(FINISH_MS);
    return clock_left_ms(link->finish_by_ns) == 0;
}

/* A timeout changes nothing. What has happened by then counts, also if this process, on a busy
 * machine, only sees it after the deadline. */
static enum error poll_for(struct link *link, short events, int64_t deadline_ns)
{
    while (!is_stopped(link)) {
        bool finishes = link->finishes && link->finish_by_ns != 0;
        struct pollfd wanted[2] = {{.fd = link->descriptor, .events = events},
                                   {.fd = finishes ? -1 : stop_descriptor(), .events = POLLIN}};
        bool is_sooner = finishes && link->finish_by_ns < deadline_ns;
        int64_t left_ms = clock_left_ms(is_sooner ? link->finish_by_ns : deadline_ns);
        int count = poll(wanted, 2, left_ms > INT_MAX ? INT_MAX : (int)left_ms);
        if (count < 0 && errno != EINTR)
            return fail(link, errno);
        if (count > 0 && wanted[0].revents)
            return OK;
        if (left_ms == 0)
            break;
    }
    if (is_stopped(link))
        return error_set(ERROR_CANCELLED, "stopped while waiting for %s", link->name);
    return error_set(ERROR_TIMEOUT, "%s does not answer", link->name);
}

static enum error wait_ready(struct link *link, short events, int64_t deadline_ns)
{
    enum error error = poll_for(link, events, deadline_ns);
    if (error)
        link_close(link);
    return error;
}

enum error link_await(struct link *link, int64_t deadline_ns)
{
    return poll_for(link, POLLIN, deadline_ns);
}

/* While nobody listens on a port of those from which the system takes a caller's, it may take that
 * one: the socket is then its own peer, and keeps the server from its port, unless it is reset, for
 * a minute after it is closed (TIME_WAIT), too. */
static bool is_own_peer(int descriptor)
{
    struct sockaddr_storage here, there;
    socklen_t here_bytes = sizeof(here), there_bytes = sizeof(there);
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    bool is_own = getsockname(descriptor, (struct sockaddr *)&here, &here_bytes) == 0 &&
                  getpeername(descriptor, (struct sockaddr *)&there, &there_bytes) == 0 &&
                  here_bytes == there_bytes && memcmp(&here, &there, here_bytes) == 0;
    if (is_own)
        (void)setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    return is_own;
}

static enum error connect_to(struct link *link, const struct addrinfo *address, int64_t deadline_ns)
{
    int number = 0;
    socklen_t length = sizeof(number);
    link->descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->descriptor < 0)
        return fail(link, errno);
    link_set_options(link->descriptor);
    if (connect(link->descriptor, address->ai_addr, address->ai_addrlen) != 0 &&
        errno != EINPROGRESS)
        return fail(link, errno);
    enum error error = wait_ready(link, POLLOUT, deadline_ns);
    if (error)
        return error;
    if (getsockopt(link->descriptor, SOL_SOCKET, SO_ERROR, &number, &length) != 0)
        number = errno;
    if (number == 0 && is_own_peer(link->descriptor))
        number = ECONNREFUSED;
    return number == 0 ? OK : fail(link, number);
}

/* One of them may be that of a host that is gone, and answers nothing: each has its share of the
 * time. */
static enum error connect_to_any(struct link *link, const struct addrinfo *list,
                                 int64_t deadline_ns)
{
    int64_t count = 0;
    enum error error = ERROR_NETWORK;
    for (const struct addrinfo *at = list; at; at = at->ai_next)
        count++;
    for (const struct addrinfo *at = list; at; at = at->ai_next, count--) {
        error = connect_to(link, at, clock_deadline_ns(clock_left_ms(deadline_ns) / count));
        if (error != ERROR_NETWORK && error != ERROR_TIMEOUT)
            break;
    }
    return error;
}

enum error link_open(struct link *link, int64_t deadline_ns)
{
    struct addrinfo *list = NULL;
    hang_up(link);
    enum error error = name_lookup_wait(&link->lookup, link->host, link->port, deadline_ns, &list);
    if (error)
        return error_prefix(error, "%s: ", link->name);
    error = connect_to_any(link, list, deadline_ns);
    freeaddrinfo(list);
    return error;
}

/* An address without its port, as text. */
static bool host_of(int (*name)(int, struct sockaddr *, socklen_t *), int descriptor,
                    char ret_host[NI_MAXHOST])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    return name(descriptor, (struct sockaddr *)&address, &length) == 0 &&
           getnameinfo((struct sockaddr *)&address, length, ret_host, NI_MAXHOST, NULL, 0,
                       NI_NUMERICHOST) == 0;
}

bool link_is_local(const struct link *link)
{
    char here[NI_MAXHOST], there[NI_MAXHOST];
    return host_of(getsockname, link->descriptor, here) &&
           host_of(getpeername, link->descriptor, there) && strcmp(here, there) == 0;
}

/* ---- bytes -------------------------------------------------------------- */

/* Takes `bytes` off the front of the parts. */
static void advance(struct iovec **parts, size_t *count, size_t bytes)
{
    while (*count > 0 && bytes >= (*parts)->iov_len) {
        bytes -= (*parts)->iov_len;
        (*parts)++;
        (*count)--;
    }
    if (*count > 0) {
        (*parts)->iov_base = (char *)(*parts)->iov_base + bytes;
        (*parts)->iov_len -= bytes;
    }
}

/* The time for one piece after another. A peer that trickles does not have it for each byte. */
struct pace {
    int64_t patience_ms, deadline_ns;
    size_t bytes; /* of the piece */
};

static struct pace pace_until(int64_t deadline_ns)
{
    return (struct pace){.patience_ms = clock_left_ms(deadline_ns), .deadline_ns = deadline_ns};
}

static void pace_add(struct pace *pace, size_t bytes)
{
    pace->bytes += bytes;
    if (pace->bytes < PIECE_BYTES)
        return;
    pace->bytes = 0;
    pace->deadline_ns = clock_deadline_ns(pace->patience_ms);
}

static enum error send_parts(struct link *link, struct iovec *parts, size_t count,
                             int64_t deadline_ns)
{
    struct pace pace = pace_until(deadline_ns);
    advance(&parts, &count, 0);
    while (count > 0) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        ssize_t sent = sendmsg(link->descriptor, &message, MSG_NOSIGNAL);
        if (sent > 0) {
            advance(&parts, &count, (size_t)sent);
            pace_add(&pace, (size_t)sent);
        } else if (sent < 0 && errno == EAGAIN) {
            enum error error = wait_ready(link, POLLOUT, pace.deadline_ns);
            if (error)
                return error;
        } else if (errno != EINTR) {
            return fail(link, errno);
        }
    }
    return OK;
}

enum error link_send(struct link *link, struct wire_header *header, const struct iovec *parts,
                     size_t count, int64_t deadline_ns)
{
    struct iovec all[1 + WIRE_PARTS_LIMIT];
    wire_frame(header, parts, count, all);
    return send_parts(link, all, 1 + count, deadline_ns);
}

enum error link_read(struct link *link, void *out, size_t bytes, int64_t deadline_ns)
{
    char *at = out;
    struct pace pace = pace_until(deadline_ns);
    while (bytes > 0) {
        ssize_t got = recv(link->descriptor, at, bytes, 0);
        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
            pace_add(&pace, (size_t)got);
        } else if (got < 0 && errno == EAGAIN) {
            enum error error = wait_ready(link, POLLIN, pace.deadline_ns);
            if (error)
                return error;
        } else if (got == 0 || errno != EINTR) {
            return fail(link, got == 0 ? 0 : errno);
        }
    }
    return OK;
}

/* Converts the text of a REFUSED to our error. */
static enum error refused(struct link *link, const struct wire_header *header, int64_t deadline_ns)
{
    char text[1000];
    size_t bytes = header->bytes < sizeof(text) - 1 ? header->bytes : sizeof(text) - 1;
    enum error error = link_read(link, text, bytes, deadline_ns);
    if (error)
        return error;
    link_close(link);
    text[bytes] = '\0';
    return error_set(header->detail == 0 ? ERROR_INPUT : (enum error)(-(int)header->detail),
                     "%s: %s", link->name, text);
}

enum error link_receive(struct link *link, uint64_t most_bytes, struct wire_header *ret_header,
                        int64_t deadline_ns)
{
    struct wire_header header;
    enum error error = link_read(link, &header, sizeof(header), deadline_ns);
    if (error)
        return error;
    error = wire_header_check(&header, most_bytes > WIRE_TEXT_LIMIT ? most_bytes : WIRE_TEXT_LIMIT);
    if (error) {
        link_close(link);
        return error_prefix(error, "%s: ", link->name);
    }
    if (header.type == WIRE_REFUSED)
        return refused(link, &header, deadline_ns);
    *ret_header = header;
    return OK;
}
