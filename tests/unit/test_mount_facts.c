/* SPDX-License-Identifier: MIT */
/* Covers loader/tool/mount_facts: Which file system a folder lies in, and its options. */
#include "tests/unit/unit.h"

#include <string.h>

#include "loader/tool/mount_facts.h"

static void test_options_are_found_whole(void **state)
{
    (void)state;
    const struct mount_facts facts = {
        .type = "nfs4", .options = "rw,relatime,vers=4.2,rsize=1048576,hard,local_lock=none"};
    char value[8];
    assert_true(mount_facts_is_nfs(&facts));
    assert_true(mount_facts_has(&facts, "hard"));
    assert_true(mount_facts_has(&facts, "rw"));
    assert_true(mount_facts_has(&facts, "vers"));
    assert_true(mount_facts_has(&facts, "vers=4.2"));
    assert_true(mount_facts_has(&facts, "local_lock=none"));
    assert_false(mount_facts_has(&facts, "ver"));
    assert_false(mount_facts_has(&facts, "soft"));
    assert_false(mount_facts_has(&facts, "local"));
    mount_facts_value(&facts, "vers", value, sizeof(value));
    assert_string_equal(value, "4.2");
    mount_facts_value(&facts, "rsize", value, sizeof(value));
    assert_string_equal(value, "1048576");
    mount_facts_value(&facts, "local_lock", value, 4);
    assert_string_equal(value, "non");
    mount_facts_value(&facts, "hard", value, sizeof(value));
    assert_string_equal(value, "");
    mount_facts_value(&facts, "wsize", value, sizeof(value));
    assert_string_equal(value, "");
}

static void test_a_path_has_the_facts_of_its_own_mount(void **state)
{
    (void)state;
    struct mount_facts facts;
    assert_int_equal(mount_facts_find("/proc/self", &facts), OK);
    assert_string_equal(facts.type, "proc");
    assert_int_equal(strncmp(facts.options, "rw", 2) & strncmp(facts.options, "ro", 2), 0);
    assert_int_equal(mount_facts_find("/", &facts), OK);
    assert_string_not_equal(facts.type, "proc");
    assert_fails(mount_facts_find("/nowhere", &facts), ERROR_NOT_FOUND, "/nowhere");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_options_are_found_whole),
    cmocka_unit_test(test_a_path_has_the_facts_of_its_own_mount),
};
UNIT_MAIN(tests)
