/* SPDX-License-Identifier: MIT */
/* Covers sampler/journal/state_folder. */
#include "tests/unit/unit.h"

#include <sys/file.h>
#include <xxhash.h>

#include "common/file.h"
#include "sampler/journal/state_folder.h"

static const char *lost_lock; /* goes between its opening and its locking, once (-Wl,--wrap) */
static bool locks_nothing;    /* as where the server of a network file system gave the lock away */

int __real_flock(int descriptor, int operation);
int __wrap_flock(int descriptor, int operation);
int __wrap_flock(int descriptor, int operation)
{
    if (lost_lock)
        assert_int_equal(unlink(lost_lock), 0);
    lost_lock = NULL;
    if (locks_nothing)
        return 0;
    return __real_flock(descriptor, operation);
}

/* What versions before the journal kept was of other orders. */
static void test_a_position_of_before_is_refused(void **unused)
{
    (void)unused;
    char folder[256];
    char path[512];
    struct state *state;
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/position", folder);
    assert_ok(file_write_whole(path, "TMBLPOS1", 8));
    assert_fails(state_open(folder, &state), ERROR_INPUT, "before the journal");
    snprintf(path, sizeof(path), "%s/journal", folder);
    assert_ok(file_write_whole(path, "", 0)); /* a journal counts, whatever is beside it */
    assert_ok(state_open(folder, &state));
    state_close(state);
    unit_folder_remove(folder);
}

static void test_a_folder_has_one_server(void **unused)
{
    (void)unused;
    char folder[256];
    struct state *state;
    struct state *second;
    unit_folder_make(folder);
    assert_ok(state_open(folder, &state));
    assert_string_equal(state_folder(state), folder);
    assert_fails(state_open(folder, &second), ERROR_CONFLICT, "in use");
    state_close(state);
    assert_ok(state_open(folder, &state));
    state_close(state);
    unit_folder_remove(folder);
}

static void make_path(char path[512], const char *folder, const char *name)
{
    snprintf(path, 512, "%s/%s", folder, name);
}

/* Its holder may remove the lock when we have it open already: we then lock nobody's file. */
static void test_a_lock_that_goes_meanwhile_is_no_lock(void **unused)
{
    (void)unused;
    char folder[256];
    char path[512];
    struct state *state;
    struct state *second;
    unit_folder_make(folder);
    make_path(path, folder, "lock");
    lost_lock = path;
    assert_ok(state_open(folder, &state));
    assert_null(lost_lock);
    assert_ok(state_check(state));
    assert_fails(state_open(folder, &second), ERROR_CONFLICT, "in use");
    state_close(state);
    unit_folder_remove(folder);
}

/* As it was: with a lock that another one left, or none; with a folder or without. */
static void test_a_refused_start_changes_nothing(void **unused)
{
    (void)unused;
    char folder[256];
    char path[512];
    char inner[512];
    struct state *state;
    struct buffer content = BUFFER_INIT(1000);
    unit_folder_make(folder);
    make_path(path, folder, "lock");
    assert_ok(state_open(folder, &state));
    assert_int_equal(access(path, F_OK), 0);
    state_close(state);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_ok(file_write_whole(path, "77\n", 3));
    assert_ok(state_open(folder, &state));
    state_close(state);
    assert_ok(file_read_whole(path, &content));
    assert_string_equal(content.data, "77\n");
    assert_ok(state_open(folder, &state));
    state_take(state);
    state_close(state);
    assert_ok(file_read_whole(path, &content));
    assert_string_not_equal(content.data, "77\n");
    make_path(inner, folder, "a/b");
    assert_ok(state_open(inner, &state));
    assert_int_equal(access(inner, F_OK), 0);
    state_close(state);
    make_path(inner, folder, "a");
    assert_int_not_equal(access(inner, F_OK), 0);
    buffer_release(&content);
    unit_folder_remove(folder);
}

static void test_a_lock_of_somebody_else_stays(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "data", "\n", "1\n1", "1 \n", "-1\n", "1\nx\n", "11111111111111111111111111111111"};
    char folder[256];
    char path[512];
    struct state *state;
    unit_folder_make(folder);
    make_path(path, folder, "lock");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct buffer content = BUFFER_INIT(100);
        assert_ok(file_write_whole(path, texts[i], strlen(texts[i])));
        assert_fails(state_open(folder, &state), ERROR_INPUT, "process number");
        assert_ok(file_read_whole(path, &content));
        assert_string_equal(content.data, texts[i]);
        buffer_release(&content);
    }
    unit_folder_remove(folder);
}

/* The disk may keep a number without the file's new size, or the size without the number. */
static void test_a_lock_after_power_loss_is_ours(void **unused)
{
    (void)unused;
    static const struct {
        size_t length;
        char text[8];
    } left[] = {{4, ""}, {3, "12\n"}, {2, "12"}, {4, "7\n2\n"}, {4, "77\n\n"}, {5, "7\n"}};
    char folder[256];
    char path[512];
    struct state *state;
    unit_folder_make(folder);
    make_path(path, folder, "lock");
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        assert_ok(file_write_whole(path, left[i].text, left[i].length));
        assert_ok(state_open(folder, &state));
        state_close(state);
    }
    unit_folder_remove(folder);
}

/* And the one that lost it takes nothing away from the next one. */
static void test_a_folder_that_was_replaced_is_told(void **unused)
{
    (void)unused;
    char folder[256];
    char path[512];
    struct state *state;
    struct state *second;
    unit_folder_make(folder);
    make_path(path, folder, "lock");
    assert_ok(state_open(folder, &state));
    assert_ok(state_check(state));
    assert_int_equal(unlink(path), 0);
    assert_fails(state_check(state), ERROR_IO, "removed or replaced");
    assert_ok(state_open(folder, &second));
    assert_fails(state_check(state), ERROR_IO, folder);
    assert_ok(state_check(second));
    state_close(state);
    assert_ok(state_check(second));
    assert_fails(state_open(folder, &state), ERROR_CONFLICT, "in use");
    state_close(second);
    unit_folder_remove(folder);
}

/* The lock keeps nobody out: who came last has the folder, and who had it sees that. */
static void test_a_lock_that_was_lost(void **unused)
{
    (void)unused;
    char folder[256];
    char path[512];
    struct state *first;
    struct state *second;
    struct state *third;
    struct buffer content = BUFFER_INIT(1000);
    unit_folder_make(folder);
    make_path(path, folder, "lock");
    assert_ok(state_open(folder, &first));
    state_take(first);
    locks_nothing = true;
    assert_ok(state_open(folder, &second));
    assert_true(state_mark(second) != state_mark(first));
    assert_fails(state_check(first), ERROR_IO, "taken over by another server (process ");
    assert_non_null(strstr(error_message(), "generation 2, since "));
    assert_ok(state_check(second));
    assert_ok(state_open(folder, &third)); /* of the same process, in the same second */
    assert_fails(state_check(second), ERROR_IO, "generation 3");
    state_close(second); /* a refused start takes nothing away from who came after it */
    assert_ok(state_check(third));
    state_close(third); /* and gives back what it took */
    assert_fails(state_check(first), ERROR_IO, "generation 2");
    state_close(first);
    assert_ok(state_open(folder, &first));
    state_take(first);
    assert_ok(file_read_whole(path, &content));
    assert_non_null(strstr(content.data, ", generation 3, since "));
    assert_ok(state_open(folder, &second));
    state_close(second);
    assert_ok(state_check(first));
    assert_ok(file_read_whole(path, &content));
    assert_ok(file_write_whole(path, content.data, content.length)); /* a copy is not the lock */
    assert_fails(state_check(first), ERROR_IO, "removed or replaced");
    state_close(first);
    locks_nothing = false;
    buffer_release(&content);
    unit_folder_remove(folder);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_position_of_before_is_refused),
    cmocka_unit_test(test_a_folder_has_one_server),
    cmocka_unit_test(test_a_lock_that_goes_meanwhile_is_no_lock),
    cmocka_unit_test(test_a_refused_start_changes_nothing),
    cmocka_unit_test(test_a_lock_of_somebody_else_stays),
    cmocka_unit_test(test_a_lock_after_power_loss_is_ours),
    cmocka_unit_test(test_a_folder_that_was_replaced_is_told),
    cmocka_unit_test(test_a_lock_that_was_lost),
};

UNIT_MAIN(tests)
