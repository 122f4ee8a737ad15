/* SPDX-License-Identifier: MIT */
/* Covers common/name_lookup: also of a name that no name server answers for. */
#include "tests/unit/unit.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/clock.h"
#include "common/name_lookup.h"
#include "common/stop.h"

#define LONG_MS 600000

static _Atomic bool answers; /* does the name server, for the name "deaf"? */
static _Atomic int freed;    /* lists */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret_list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret_list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret_list)
{
    bool is_deaf = strcmp(host, "deaf") == 0;
    while (is_deaf && !atomic_load(&answers))
        clock_sleep_ms(1);
    return __real_getaddrinfo(is_deaf ? "127.0.0.1" : host, port, hints, ret_list);
}

void __real_freeaddrinfo(struct addrinfo *list);
void __wrap_freeaddrinfo(struct addrinfo *list);
void __wrap_freeaddrinfo(struct addrinfo *list)
{
    __real_freeaddrinfo(list);
    atomic_fetch_add(&freed, 1);
}

static void test_an_address_with_its_port(void **state)
{
    (void)state;
    struct addrinfo *list = NULL;
    assert_ok(name_lookup("127.0.0.1", 2222, clock_deadline_ns(LONG_MS), &list));
    assert_int_equal(list->ai_family, AF_INET);
    assert_int_equal(list->ai_socktype, SOCK_STREAM);
    assert_int_equal(ntohs(((struct sockaddr_in *)(void *)list->ai_addr)->sin_port), 2222);
    freeaddrinfo(list);
}

static void test_a_name_without_an_address(void **state)
{
    (void)state;
    struct addrinfo *list = NULL;
    assert_fails(name_lookup("no..host", 1, clock_deadline_ns(LONG_MS), &list), ERROR_NETWORK,
                 "no..host has no address: ");
    assert_null(list);
}

/* The thread that asks is left behind, and frees what comes too late. */
static void look_up_in_vain(enum error expected, const char *text, int64_t deadline_ns)
{
    struct addrinfo *list = NULL;
    int before = atomic_load(&freed);
    atomic_store(&answers, false);
    assert_fails(name_lookup("deaf", 1, deadline_ns, &list), expected, text);
    assert_null(list);
    assert_int_equal(atomic_load(&freed), before);
    atomic_store(&answers, true);
    while (atomic_load(&freed) == before)
        clock_sleep_ms(1);
}

static void test_a_name_server_that_does_not_answer(void **state)
{
    (void)state;
    look_up_in_vain(ERROR_TIMEOUT, "no name server answers for the address of deaf",
                    clock_deadline_ns(5));
}

static void test_a_stop(void **state)
{
    (void)state;
    static const _Atomic bool stops = true;
    stop_follow(&stops);
    look_up_in_vain(ERROR_CANCELLED, "stopped while waiting for the address of deaf", INT64_MAX);
    stop_follow(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_an_address_with_its_port),
    cmocka_unit_test(test_a_name_without_an_address),
    cmocka_unit_test(test_a_name_server_that_does_not_answer),
    cmocka_unit_test(test_a_stop),
};

UNIT_MAIN(tests)
