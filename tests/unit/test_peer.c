/* SPDX-License-Identifier: MIT */
/* Covers trainer/server/peer. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/socket.h>

#include "trainer/server/peer.h"

#define LARGE 5000000

static struct peer *peer;
static int other;               /* the far end */
static bool is_short_of_memory; /* is the system, for what is sent? */

ssize_t __real_sendmsg(int descriptor, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int descriptor, const struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    if (!is_short_of_memory)
        return __real_sendmsg(descriptor, message, flags);
    errno = ENOMEM;
    return -1;
}

static int connect_both(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    other = ends[1];
    assert_ok(peer_new(ends[0], "a test", &peer));
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    peer_free(peer);
    if (other >= 0)
        close(other);
    return 0;
}

static uint64_t limit(void *context, const struct peer *asked, enum wire_type type)
{
    (void)context;
    assert_ptr_equal(asked, peer);
    return type == WIRE_PUSH ? 100 : 0;
}

static struct wire_header header_of(enum wire_type type, uint64_t bytes)
{
    struct wire_header header = {.type = (uint16_t)type, .bytes = bytes, .batch = 3};
    wire_header_seal(&header);
    return header;
}

static void test_a_frame_that_comes_byte_by_byte(void **state)
{
    (void)state;
    char frame[sizeof(struct wire_header) + 10];
    struct wire_header header = header_of(WIRE_PUSH, 10);
    memcpy(frame, &header, sizeof(header));
    memcpy(frame + sizeof(header), "0123456789", 10);
    for (int times = 0; times < 3; times++) {
        for (size_t i = 0; i < sizeof(frame); i++) {
            assert_ok(peer_read(peer, limit, NULL));
            assert_false(peer->whole);
            assert_int_equal(write(other, frame + i, 1), 1);
        }
        assert_ok(peer_read(peer, limit, NULL));
        assert_true(peer->whole);
        assert_int_equal(peer->payload_bytes, 10);
        assert_memory_equal(peer->payload, "0123456789", 10);
        assert_int_equal(peer->header.batch, 3);
        peer_next(peer);
    }
}

static void test_it_reads_no_further_than_its_frame(void **state)
{
    (void)state;
    struct wire_header headers[2] = {header_of(WIRE_PULL, 0), header_of(WIRE_SKIP, 0)};
    assert_int_equal(write(other, headers, sizeof(headers)), sizeof(headers));
    assert_ok(peer_read(peer, limit, NULL));
    assert_true(peer->whole);
    assert_int_equal(peer->header.type, WIRE_PULL);
    peer_next(peer);
    assert_ok(peer_read(peer, limit, NULL));
    assert_true(peer->whole);
    assert_int_equal(peer->header.type, WIRE_SKIP);
}

static void test_what_is_announced_too_large_is_refused_before_it_comes(void **state)
{
    (void)state;
    struct wire_header header = header_of(WIRE_PUSH, 101);
    assert_int_equal(write(other, &header, sizeof(header)), sizeof(header));
    assert_fails(peer_read(peer, limit, NULL), ERROR_INPUT, "bytes, more than 100");
    assert_true(peer->capacity < 1000);
}

static void test_nonsense_and_ends(void **state)
{
    (void)state;
    char nonsense[sizeof(struct wire_header)] = "GET / HTTP/1.1";
    assert_int_equal(write(other, nonsense, sizeof(nonsense)), sizeof(nonsense));
    assert_fails(peer_read(peer, limit, NULL), ERROR_INPUT, "does not speak");
    close(other);
    other = -1;
    peer_next(peer);
    assert_fails(peer_read(peer, limit, NULL), ERROR_NETWORK, "closed the connection");
}

/* More than a socket takes: it goes out as the far end reads, in order, two frames of it. */
static void test_what_the_socket_does_not_take_is_kept(void **state)
{
    (void)state;
    unsigned char *sent = malloc(LARGE), *got = malloc(2 * (LARGE + sizeof(struct wire_header)));
    assert_true(sent && got);
    for (size_t i = 0; i < LARGE; i++)
        sent[i] = (unsigned char)(i * 7 >> 3);
    for (int times = 0; times < 2; times++) {
        struct wire_header header = {.type = WIRE_VALUES, .step = times};
        struct iovec parts[2] = {{sent, 1000}, {sent + 1000, LARGE - 1000}};
        assert_ok(peer_send(peer, &header, parts, 2));
        assert_int_equal(header.bytes, LARGE);
    }
    assert_true(peer_has_unsent(peer));
    size_t length = 0;
    for (int rounds = 0; length < 2 * (LARGE + sizeof(struct wire_header)); rounds++) {
        assert_true(rounds < 1000000);
        ssize_t more = read(other, got + length, 100000);
        if (more > 0)
            length += (size_t)more;
        else
            assert_int_equal(errno, EAGAIN);
        assert_ok(peer_flush(peer));
    }
    assert_false(peer_has_unsent(peer));
    for (int times = 0; times < 2; times++) {
        const unsigned char *frame = got + (size_t)times * (LARGE + sizeof(struct wire_header));
        struct wire_header header;
        memcpy(&header, frame, sizeof(header));
        assert_ok(wire_header_check(&header, LARGE));
        assert_int_equal(header.step, times);
        assert_memory_equal(frame + sizeof(header), sent, LARGE);
    }
    free(sent);
    free(got);
}

/* It costs one connection, and not the server. */
static void test_a_frame_that_there_is_no_memory_for(void **state)
{
    struct wire_header header = {.type = WIRE_VALUES};
    (void)state;
    is_short_of_memory = true;
    assert_fails(peer_send(peer, &header, NULL, 0), ERROR_NETWORK,
                 "a test: Cannot allocate memory");
    is_short_of_memory = false;
}

static void test_a_refusal_brings_code_and_text(void **state)
{
    (void)state;
    struct wire_header header;
    char text[100] = "";
    peer_refuse(peer, error_set(ERROR_CONFLICT, "this is server %d", 7));
    assert_true(peer->ending);
    assert_int_equal(read(other, &header, sizeof(header)), sizeof(header));
    assert_ok(wire_header_check(&header, 99));
    assert_int_equal(header.type, WIRE_REFUSED);
    assert_int_equal(header.detail, -ERROR_CONFLICT);
    assert_int_equal(read(other, text, sizeof(text) - 1), header.bytes);
    assert_string_equal(text, "this is server 7");
}

/* Sends a set and the text "rest", and gives itself back what it sent, as `stock` ranges. */
static void send_to_itself(const struct index_set *set, uint32_t stock)
{
    char frame[200];
    struct wire_header header = {.type = WIRE_PUSH};
    struct iovec rest = {.iov_base = "rest", .iov_len = 4};
    assert_ok(peer_send_set(peer, &header, set, &rest));
    ssize_t bytes = read(other, frame, sizeof(frame));
    header.stock = stock;
    wire_header_seal(&header);
    memcpy(frame, &header, sizeof(header));
    assert_int_equal(write(other, frame, (size_t)bytes), bytes);
    assert_ok(peer_read(peer, limit, NULL));
    assert_true(peer->whole);
}

static void test_a_set_in_a_frame_comes_back(void **state)
{
    (void)state;
    struct index_set set = {.count = 0}, got = {.count = 0};
    assert_ok(index_set_add(&set, (struct index_range){3, 9}));
    assert_ok(index_set_add(&set, (struct index_range){70, 71}));
    assert_ok(index_set_add(&got, (struct index_range){9, 12}));
    send_to_itself(&set, 2);
    assert_ok(peer_read_set(peer, &got));
    assert_int_equal(got.count, 2);
    assert_true(index_set_has(&got, 3) && index_set_has(&got, 11) && index_set_has(&got, 70));
    assert_memory_equal(peer->payload + 2 * sizeof(struct index_range), "rest", 4);
    peer_next(peer);
    send_to_itself(&set, 3); /* the rest is less than a range */
    assert_fails(peer_read_set(peer, &got), ERROR_INPUT, "PUSH with 3 ranges in 36 bytes");
    index_set_release(&set);
    index_set_release(&got);
}

#define PEER_TEST(test) cmocka_unit_test_setup_teardown(test, connect_both, close_both)

static const struct CMUnitTest tests[] = {
    PEER_TEST(test_a_frame_that_comes_byte_by_byte),
    PEER_TEST(test_it_reads_no_further_than_its_frame),
    PEER_TEST(test_what_is_announced_too_large_is_refused_before_it_comes),
    PEER_TEST(test_nonsense_and_ends),
    PEER_TEST(test_what_the_socket_does_not_take_is_kept),
    PEER_TEST(test_a_frame_that_there_is_no_memory_for),
    PEER_TEST(test_a_refusal_brings_code_and_text),
    PEER_TEST(test_a_set_in_a_frame_comes_back),
};

UNIT_MAIN(tests)
