/* SPDX-License-Identifier: MIT */
/* Covers common/http/addresses. */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "common/http/addresses.h"

#define MANY 1000

static struct address *enter(struct addresses *set, const char *text)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        return addresses_enter(set, (const struct sockaddr *)&four);
    assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
    return addresses_enter(set, (const struct sockaddr *)&six);
}

/* How many connections the address has with this one, which is closed again. */
static int64_t count_with(struct addresses *set, const char *text)
{
    struct address *address = enter(set, text);
    assert_non_null(address);
    int64_t count = address->count;
    addresses_leave(set, address);
    return count;
}

static void test_each_address_counts_its_own(void **state)
{
    (void)state;
    struct addresses set = {NULL};
    struct address *list[MANY];
    char text[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof(text), "10.0.%d.%d", i % 100 / 10, i % 10);
        list[i] = enter(&set, text);
        assert_non_null(list[i]);
        assert_int_equal(list[i]->count, i / 100 + 1);
    }
    assert_int_equal(count_with(&set, "10.0.9.9"), 11);
    assert_int_equal(count_with(&set, "10.0.9.10"), 1);
    for (int i = 0; i < MANY; i++)
        addresses_leave(&set, list[i]);
    assert_null(set.tree);
}

static void test_ipv6_counts_by_its_first_half(void **state)
{
    (void)state;
    struct addresses set = {NULL};
    struct address *six = enter(&set, "2001:db8:1:2::7");
    struct address *four = enter(&set, "192.0.2.7");
    assert_int_equal(count_with(&set, "2001:db8:1:2:ffff::1"), 2);
    assert_int_equal(count_with(&set, "2001:db8:1:3::7"), 1);
    assert_int_equal(count_with(&set, "::ffff:192.0.2.7"), 2);
    assert_int_equal(count_with(&set, "::ffff:192.0.2.8"), 1);
    addresses_leave(&set, six);
    addresses_leave(&set, four);
    assert_null(set.tree);
}

static void test_what_is_no_internet_address_is_not_counted(void **state)
{
    (void)state;
    struct addresses set = {NULL};
    struct sockaddr local = {.sa_family = AF_UNIX};
    assert_null(addresses_enter(&set, &local));
    assert_null(addresses_enter(&set, NULL));
    addresses_leave(&set, NULL);
    assert_null(set.tree);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_each_address_counts_its_own),
    cmocka_unit_test(test_ipv6_counts_by_its_first_half),
    cmocka_unit_test(test_what_is_no_internet_address_is_not_counted),
};

UNIT_MAIN(tests)
