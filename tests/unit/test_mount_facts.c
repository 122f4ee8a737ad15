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

/* ---- a list of the test's own -------------------------------------------- */

static const char *list; /* NULL: the system's; "": it is hidden */

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (!list)
        return __real_fopen(path, mode);
    return list[0] ? fmemopen((void *)list, strlen(list), "r") : NULL;
}

static struct mount_facts facts_in(const char *lines)
{
    struct mount_facts facts;
    list = lines;
    assert_ok(mount_facts_find("/", &facts));
    list = NULL;
    return facts;
}

static void test_lines_of_the_list(void **state)
{
    static const struct {
        const char *lines, *type, *source, *options;
    } lists[] = {
        {"20 1 8:1 / / rw,noatime shared:1 master:2 - ext4 /dev/sda1 rw,errors=remount-ro\n",
         "ext4", "/dev/sda1", "rw,noatime,errors=remount-ro"},
        {"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "ext4", "/dev/sda1", "rw"},
        {"20 1 0:9 / / rw - nfs4 10.0.0.1:/a\\040b\\134c ro,vers=4.2\n", "nfs4", "10.0.0.1:/a b\\c",
         "rw,ro,vers=4.2"},
        {"20 1 0:9 / / rw - nfs4 a\\04 rw\n", "nfs4", "a\\04", "rw"}, /* no such escape */
        /* Of two at one place the later one is on top; of others only those that it lies in. */
        {"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 0:5 / / ro - tmpfs none ro\n"
         "22 20 8:2 / /home rw - xfs /dev/sdb rw\n",
         "tmpfs", "none", "ro"},
        /* Lines that are none. */
        {"20 1 8:1\n\n20 1 8:1 / / rw shared:1 ext4 /dev/sda1 rw\n", "unknown", "", ""},
        {"", "unknown", "", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        struct mount_facts facts = facts_in(lists[i].lines);
        assert_string_equal(facts.type, lists[i].type);
        assert_string_equal(facts.source, lists[i].source);
        assert_string_equal(facts.options, lists[i].options);
    }
}

static void test_a_place_whose_name_another_begins_with(void **state)
{
    struct mount_facts facts;
    (void)state;
    list = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 0:5 / /pro rw - xfs none rw\n"
           "22 20 0:6 / /proc rw - proc proc rw\n";
    assert_ok(mount_facts_find("/proc", &facts));
    list = NULL;
    assert_string_equal(facts.type, "proc");
    assert_false(mount_facts_is_nfs(&facts));
    strcpy(facts.type, "nfs");
    assert_true(mount_facts_is_nfs(&facts));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_lines_of_the_list),
    cmocka_unit_test(test_a_place_whose_name_another_begins_with),
    cmocka_unit_test(test_options_are_found_whole),
    cmocka_unit_test(test_a_path_has_the_facts_of_its_own_mount),
};
UNIT_MAIN(tests)
