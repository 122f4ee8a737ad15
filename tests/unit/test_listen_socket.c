/* SPDX-License-Identifier: MIT */
/* Covers common/listen_socket. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/listen_socket.h"

static const char *localhost; /* what it resolves to: NULL: what the system says; "": nothing */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret_list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret_list);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret_list)
{
    bool is_set = localhost && strcmp(host, "localhost") == 0;
    if (is_set && !*localhost)
        return EAI_NONAME;
    return __real_getaddrinfo(is_set ? localhost : host, port, hints, ret_list);
}

static uint16_t port_of(int descriptor)
{
    struct sockaddr_in6 address = {.sin6_port = 0}; /* an IPv4 port lies at the same place */
    socklen_t length = sizeof(address);
    assert_int_equal(getsockname(descriptor, (struct sockaddr *)&address, &length), 0);
    return ntohs(address.sin6_port);
}

static int family_of(int descriptor)
{
    int family;
    socklen_t length = sizeof(family);
    assert_int_equal(getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &length), 0);
    return family;
}

static void test_a_free_port_and_one_in_use(void **state)
{
    (void)state;
    char text[100];
    int first, second = -1;
    assert_ok(listen_socket_open("localhost", 0, "", &first));
    assert_int_equal(family_of(first), AF_INET);
    assert_true(fcntl(first, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(first, F_GETFD) & FD_CLOEXEC);
    assert_true(accept(first, NULL, NULL) < 0);
    snprintf(text, sizeof(text), "localhost:%u: the port is in use by another program; take care",
             port_of(first));
    assert_fails(listen_socket_open("localhost", port_of(first), "; take care", &second),
                 ERROR_NETWORK, text);
    assert_int_equal(second, -1);
    close(first);
}

static bool connects(const char *host, uint16_t port)
{
    char service[8];
    struct addrinfo *list, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    snprintf(service, sizeof(service), "%u", port);
    assert_int_equal(getaddrinfo(host, service, &hints, &list), 0);
    int descriptor = socket(list->ai_family, SOCK_STREAM, 0);
    bool connects = connect(descriptor, list->ai_addr, list->ai_addrlen) == 0;
    freeaddrinfo(list);
    close(descriptor);
    return connects;
}

static void test_every_address_is_of_both_kinds(void **state)
{
    (void)state;
    char text[100];
    int other, all, second = -1;
    bool has_six = !listen_socket_open("::1", 0, "", &other);
    if (has_six) {
        snprintf(text, sizeof(text), "[::1]:%u: the port is in use by another program",
                 port_of(other));
        assert_fails(listen_socket_open("::1", port_of(other), "", &second), ERROR_NETWORK, text);
        close(other);
    }
    assert_ok(listen_socket_open_any(0, "", &all));
    assert_true(connects("127.0.0.1", port_of(all)));
    assert_true(!has_six || connects("::1", port_of(all)));
    snprintf(text, sizeof(text), "0.0.0.0:%u: the port is in use by another program; take care",
             port_of(all));
    assert_fails(listen_socket_open_any(port_of(all), "; take care", &second), ERROR_NETWORK, text);
    close(all);
}

static void test_addresses_that_are_not_of_this_machine(void **state)
{
    (void)state;
    int descriptor = -1;
    assert_fails(listen_socket_open("192.0.2.1", 80, "", &descriptor), ERROR_USAGE,
                 "192.0.2.1:80: this machine has no such address; 0.0.0.0 means all of them");
    assert_fails(listen_socket_open("no..host", 80, "", &descriptor), ERROR_USAGE,
                 "no..host:80: cannot find the address: ");
    assert_fails(listen_socket_check("no..host", 80), ERROR_USAGE, "no..host:80: cannot find");
    assert_ok(listen_socket_check("192.0.2.1", 80));
    assert_int_equal(descriptor, -1);
}

static void test_localhost_is_this_machine_whatever_it_resolves_to(void **state)
{
    (void)state;
    static const char *const found[] = {"192.0.2.1", "0.0.0.0", "", "127.0.0.1", "::1", "::"};
    int descriptor;
    bool has_six = !listen_socket_open("::1", 0, "", &descriptor);
    if (has_six)
        close(descriptor);
    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
        localhost = found[i];
        bool is_six = strcmp(localhost, "::1") == 0;
        if (is_six && !has_six)
            continue;
        assert_ok(listen_socket_open("localhost", 0, "", &descriptor));
        assert_int_equal(family_of(descriptor), is_six ? AF_INET6 : AF_INET);
        assert_true(connects(is_six ? "::1" : "127.0.0.1", port_of(descriptor)));
        close(descriptor);
    }
    localhost = NULL;
}

static void test_loopback_addresses(void **state)
{
    (void)state;
    static const char *const loopback[] = {"localhost", "127.0.0.1", "127.9.9.9", "::1"};
    static const char *const others[] = {"0.0.0.0", "::", "128.0.0.1", "127.0.0.1.example.org", ""};
    for (size_t i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++)
        assert_true(listen_socket_is_loopback(loopback[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(listen_socket_is_loopback(others[i]));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_free_port_and_one_in_use),
    cmocka_unit_test(test_every_address_is_of_both_kinds),
    cmocka_unit_test(test_addresses_that_are_not_of_this_machine),
    cmocka_unit_test(test_localhost_is_this_machine_whatever_it_resolves_to),
    cmocka_unit_test(test_loopback_addresses),
};

UNIT_MAIN(tests)
