/* SPDX-License-Identifier: MIT */
/* Covers common/file. */
#include "tests/unit/folder_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"

static const char *lost_file; /* is removed before the next lock is taken */

int __real_flock(int descriptor, int operation);
int __wrap_flock(int descriptor, int operation);
int __wrap_flock(int descriptor, int operation)
{
    if (lost_file)
        assert_int_equal(unlink(lost_file), 0);
    lost_file = NULL;
    return __real_flock(descriptor, operation);
}

static int stats_fail; /* errno; 0: they work */

int __real_stat(const char *path, struct stat *status);
int __wrap_stat(const char *path, struct stat *status);
int __wrap_stat(const char *path, struct stat *status)
{
    if (!stats_fail)
        return __real_stat(path, status);
    errno = stats_fail;
    return -1;
}

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void check_content(const char *path, const char *expected)
{
    struct buffer content = BUFFER_INIT(1 << 20);
    assert_ok(file_read_whole(path, &content));
    assert_int_equal(content.length, strlen(expected));
    assert_string_equal(content.data, expected);
    buffer_release(&content);
}

static int exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void test_whole_files_come_back(void **state)
{
    (void)state;
    assert_ok(file_write_whole(path_of("a"), "hello", 5));
    check_content(path_of("a"), "hello");
    assert_ok(file_write_whole(path_of("a"), "", 0));
    check_content(path_of("a"), "");
}

static void test_reading_stops_at_the_limit(void **state)
{
    (void)state;
    struct buffer content = BUFFER_INIT(5);
    assert_ok(file_write_whole(path_of("a"), "hello", 5));
    assert_ok(file_read_whole(path_of("a"), &content));
    assert_string_equal(content.data, "hello");
    assert_ok(file_write_whole(path_of("a"), "hello!", 6));
    assert_fails(file_read_whole(path_of("a"), &content), ERROR_INPUT, "longer than 5 bytes");
    buffer_release(&content);
    struct buffer large = BUFFER_INIT(1 << 20);
    char *bytes = malloc(300000);
    memset(bytes, 'x', 300000);
    assert_ok(file_write_whole(path_of("large"), bytes, 300000));
    assert_ok(file_read_whole(path_of("large"), &large));
    assert_int_equal(large.length, 300000);
    assert_memory_equal(large.data, bytes, 300000);
    free(bytes);
    buffer_release(&large);
}

static void test_missing_and_wrong_files_are_named(void **state)
{
    (void)state;
    struct buffer content = BUFFER_INIT(100);
    int descriptor;
    assert_fails(file_read_whole(path_of("none"), &content), ERROR_NOT_FOUND, "/none");
    assert_fails(file_open_read(folder, &descriptor), ERROR_INPUT, "is a folder");
    assert_fails(file_open_read("", &descriptor), ERROR_NOT_FOUND, "empty");
    assert_fails(file_write_whole(path_of("no/such/x"), "x", 1), ERROR_NOT_FOUND, "/no/such/x");
    buffer_release(&content);
}

/* None of them waits for somebody at the other end. */
static void test_only_regular_files_are_opened(void **state)
{
    (void)state;
    struct buffer content = BUFFER_INIT(100);
    int descriptor;
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    assert_fails(file_open_read(path_of("fifo"), &descriptor), ERROR_INPUT, "but a pipe");
    assert_fails(file_read_whole(path_of("fifo"), &content), ERROR_INPUT, "but a pipe");
    assert_fails(file_read_whole("/dev/zero", &content), ERROR_INPUT, "but a device");
    assert_fails(file_open_own(path_of("fifo"), O_RDWR, &descriptor), ERROR_INPUT, "but a pipe");
    assert_fails(file_open_own(folder, O_RDWR, &descriptor), ERROR_INPUT, "is a folder");
    assert_fails(file_open_own(path_of("none"), O_RDWR, &descriptor), ERROR_NOT_FOUND, "/none");
    assert_int_equal(unlink(path_of("fifo")), 0);
    buffer_release(&content);
}

static void test_own_files_are_no_links(void **state)
{
    (void)state;
    int descriptor;
    assert_ok(file_write_whole(path_of("a"), "hello", 5));
    assert_int_equal(symlink("a", path_of("link")), 0);
    assert_ok(file_open_read(path_of("link"), &descriptor));
    close(descriptor);
    assert_fails(file_open_own(path_of("link"), O_RDWR | O_TRUNC, &descriptor), ERROR_INPUT,
                 "but a symbolic link");
    assert_int_equal(unlink(path_of("a")), 0);
    assert_fails(file_open_own(path_of("link"), O_RDWR | O_CREAT, &descriptor), ERROR_INPUT,
                 "but a symbolic link");
    assert_false(exists(path_of("a")));
    assert_int_equal(unlink(path_of("link")), 0);
    assert_ok(file_open_own(path_of("a"), O_RDWR | O_CREAT, &descriptor));
    assert_int_equal(pwrite(descriptor, "own", 3, 0), 3);
    close(descriptor);
    check_content(path_of("a"), "own");
}

/* <(COMMAND), and `COMMAND | tombola-... --config /dev/stdin`. */
static void test_pipes_of_a_shell_are_read_to_their_end(void **state)
{
    (void)state;
    struct buffer content = BUFFER_INIT(100);
    char path[64];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
    pid_t writer = fork();
    if (writer == 0) {
        bool written = true;
        for (int i = 0; i < 3; i++) {
            usleep(20000);
            written = written && write(ends[1], "word ", 5) == 5;
        }
        _exit(!written);
    }
    close(ends[1]);
    assert_ok(file_read_whole(path, &content));
    assert_string_equal(content.data, "word word word ");
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    assert_fails(file_open_read(path, &ends[1]), ERROR_INPUT, "but a pipe");
    close(ends[0]);
    buffer_release(&content);
}

static void test_read_at_is_exact(void **state)
{
    (void)state;
    char bytes[8] = {0};
    int descriptor;
    assert_ok(file_write_whole(path_of("a"), "0123456789", 10));
    assert_ok(file_open_read(path_of("a"), &descriptor));
    assert_ok(file_read_at(descriptor, "a", bytes, 3, 7));
    assert_memory_equal(bytes, "789", 3);
    assert_ok(file_read_at(descriptor, "a", bytes, 0, 1000));
    assert_fails(file_read_at(descriptor, "a", bytes, 4, 7), ERROR_INPUT,
                 "a ends at byte 10, 11 were expected");
    close(descriptor);
    assert_fails(file_read_at(descriptor, "a", bytes, 1, 0), ERROR_IO, "cannot read");
}

static void test_identity_tells_files_apart(void **state)
{
    (void)state;
    struct file_identity first;
    struct file_identity second;
    int descriptor;
    assert_ok(file_write_whole(path_of("a"), "one", 3));
    assert_ok(file_open_read(path_of("a"), &descriptor));
    assert_ok(file_identity_of(descriptor, "a", &first));
    assert_int_equal(first.size_bytes, 3);
    assert_ok(file_identity_of(descriptor, "a", &second));
    assert_true(file_identity_equal(&first, &second));
    close(descriptor);
    assert_ok(file_write_whole(path_of("b"), "two", 3));
    assert_ok(file_open_read(path_of("b"), &descriptor));
    assert_ok(file_identity_of(descriptor, "b", &second));
    assert_false(file_identity_equal(&first, &second));
    close(descriptor);
}

static void test_folders_are_made_with_parents(void **state)
{
    (void)state;
    struct stat status;
    assert_ok(file_make_folders(path_of("x/y//z/")));
    assert_int_equal(stat(path_of("x/y/z"), &status), 0);
    assert_true(S_ISDIR(status.st_mode));
    assert_ok(file_make_folders(path_of("x/y")));
    assert_ok(file_make_folders("/"));
    assert_ok(file_make_folders("."));
    assert_fails(file_make_folders(""), ERROR_USAGE, "empty");
    assert_ok(file_write_whole(path_of("f"), "x", 1));
    assert_fails(file_make_folders(path_of("f")), ERROR_NOT_FOUND, "Not a directory");
    assert_fails(file_make_folders(path_of("f/g")), ERROR_NOT_FOUND, "Not a directory");
    assert_int_equal(symlink("x", path_of("link")), 0);
    assert_ok(file_make_folders(path_of("link/w")));
    assert_int_equal(symlink("nowhere", path_of("astray")), 0);
    assert_fails(file_make_folders(path_of("astray")), ERROR_NOT_FOUND,
                 "astray, which is a link: No such file");
    assert_fails(file_make_folders(path_of("astray/w")), ERROR_NOT_FOUND,
                 "astray, which is a link: No such file");
    stats_fail = ESTALE; /* by a file server that was away */
    assert_fails(file_make_folder(path_of("x")), ERROR_IO, "cannot look at ");
    assert_fails(file_make_folder(path_of("link")), ERROR_IO, "link, which is a link: Stale");
    stats_fail = 0;
}

static void test_folders_that_were_made_are_taken_back(void **state)
{
    (void)state;
    char deep[600], other[600];
    snprintf(deep, sizeof(deep), "%s", path_of("old"));
    assert_ok(file_make_folders(deep));
    size_t old_length = strlen(deep);
    assert_int_equal(file_folders_there(deep), old_length);
    snprintf(deep, sizeof(deep), "%s", path_of("old/new//newer/newest//"));
    assert_int_equal(file_folders_there(deep), old_length);
    assert_ok(file_make_folders(deep));
    file_remove_folders(deep, old_length);
    assert_int_equal(access(path_of("old"), F_OK), 0);
    assert_int_not_equal(access(path_of("old/new"), F_OK), 0);
    assert_ok(file_make_folders(deep));
    snprintf(other, sizeof(other), "%s", path_of("old/new/somebody's"));
    assert_ok(file_write_whole(other, "x", 1));
    file_remove_folders(deep, old_length); /* only what is empty */
    assert_int_equal(access(other, F_OK), 0);
    assert_int_not_equal(access(path_of("old/new/newer"), F_OK), 0);
    assert_int_equal(file_folders_there("/"), 1);
    assert_int_equal(file_folders_there("no such folder/x"), 0);
}

static void test_nothing_shows_before_commit(void **state)
{
    (void)state;
    struct file_writer *writer = NULL;
    char temporary[512];
    assert_ok(file_write_whole(path_of("a"), "old", 3));
    assert_ok(file_writer_open(path_of("a"), &writer));
    snprintf(temporary, sizeof(temporary), "%s", file_writer_temporary_path(writer));
    assert_ok(file_writer_add(writer, "new", 3));
    check_content(path_of("a"), "old");
    assert_true(exists(temporary));
    file_writer_close(writer);
    check_content(path_of("a"), "old");
    assert_false(exists(temporary));
    file_writer_close(NULL);
}

static void test_commit_replaces_at_once(void **state)
{
    (void)state;
    struct file_writer *writer = NULL;
    char temporary[512];
    assert_ok(file_write_whole(path_of("a"), "old", 3));
    assert_ok(file_writer_open(path_of("a"), &writer));
    snprintf(temporary, sizeof(temporary), "%s", file_writer_temporary_path(writer));
    assert_ok(file_writer_add(writer, "n__", 3));
    assert_ok(file_writer_patch(writer, "ew", 2, 1));
    assert_ok(file_writer_add(writer, "est", 3));
    assert_int_equal(file_writer_length(writer), 6);
    assert_ok(file_writer_commit(writer));
    check_content(path_of("a"), "newest");
    file_writer_close(writer);
    check_content(path_of("a"), "newest");
    assert_false(exists(temporary));
}

static struct stat status_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status;
}

static mode_t mode_of(const char *path)
{
    return status_of(path).st_mode & 0777;
}

/* What was private stays so, also while it is written; what others may write to, too. */
static void test_a_file_keeps_its_permissions(void **state)
{
    static const mode_t modes[] = {0600, 0640, 0664, 0444, 0400};
    struct file_writer *writer = NULL;
    const char *path = path_of("private");
    mode_t mask = umask(022);
    (void)state;
    assert_ok(file_write_whole(path, "a", 1));
    assert_int_equal(mode_of(path), 0644);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_ok(file_writer_open(path, &writer));
        assert_int_equal(mode_of(file_writer_temporary_path(writer)) & ~(modes[i] | 0600), 0);
        assert_ok(file_writer_add(writer, "b", 1));
        assert_ok(file_writer_commit(writer));
        file_writer_close(writer);
        assert_int_equal(mode_of(path), modes[i]);
    }
    umask(mask);
}

/* What root replaces is still its owner's, and no group's that it was not. */
static void test_root_gives_a_file_back_to_its_owner(void **state)
{
    struct file_writer *writer = NULL;
    const char *path = path_of("private");
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_ok(file_write_whole(path, "a", 1));
    assert_int_equal(chown(path, 12345, 23456), 0);
    assert_int_equal(chmod(path, 0640), 0);
    assert_ok(file_writer_open(path, &writer));
    assert_int_equal(mode_of(file_writer_temporary_path(writer)), 0600);
    assert_ok(file_writer_commit(writer));
    file_writer_close(writer);
    assert_int_equal(mode_of(path), 0640);
    assert_int_equal(status_of(path).st_uid, 12345);
    assert_int_equal(status_of(path).st_gid, 23456);
}

static void test_parts_grow_side_by_side(void **state)
{
    (void)state;
    struct file_writer *writer = NULL;
    assert_ok(file_writer_open(path_of("a"), &writer));
    assert_ok(file_writer_add_at(writer, "ef", 2, 4));
    assert_int_equal(file_writer_length(writer), 6);
    assert_ok(file_writer_add_at(writer, "ab", 2, 0));
    assert_ok(file_writer_add_at(writer, "cd", 2, 2));
    assert_int_equal(file_writer_length(writer), 6);
    assert_ok(file_writer_commit(writer));
    file_writer_close(writer);
    check_content(path_of("a"), "abcdef");
}

static void test_two_writers_do_not_mix(void **state)
{
    (void)state;
    struct file_writer *first = NULL;
    struct file_writer *second = NULL;
    assert_ok(file_writer_open(path_of("a"), &first));
    assert_ok(file_writer_open(path_of("a"), &second));
    assert_string_not_equal(file_writer_temporary_path(first), file_writer_temporary_path(second));
    assert_ok(file_writer_add(first, "1", 1));
    assert_ok(file_writer_add(second, "2", 1));
    assert_ok(file_writer_commit(second));
    assert_ok(file_writer_commit(first));
    file_writer_close(first);
    file_writer_close(second);
    check_content(path_of("a"), "1");
}

/* A file with the name that the next writer would take. */
static int take_next_name(char *ret_name, size_t bytes)
{
    struct file_writer *writer = NULL;
    assert_ok(file_writer_open(path_of("a"), &writer));
    snprintf(ret_name, bytes, "%s", file_writer_temporary_path(writer));
    file_writer_close(writer);
    char *number = strrchr(ret_name, '.') + 1;
    snprintf(number, 16, "%d", atoi(number) + 1);
    return open(ret_name, O_CREAT | O_WRONLY, 0600);
}

static void test_what_a_killed_writer_left_is_removed(void **state)
{
    (void)state;
    struct file_writer *writer = NULL;
    char left[600];
    close(take_next_name(left, sizeof(left)));
    assert_ok(file_writer_open(path_of("a"), &writer));
    file_writer_close(writer);
    assert_false(exists(left));
}

static void test_name_of_a_living_writer_is_passed_over(void **state)
{
    (void)state;
    struct file_writer *writer = NULL;
    char taken[600];
    int other = take_next_name(taken, sizeof(taken));
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_ok(file_writer_open(path_of("a"), &writer));
    assert_string_not_equal(file_writer_temporary_path(writer), taken);
    file_writer_close(writer);
    assert_true(exists(taken));
    close(other);
}

static void test_a_name_that_is_lost_before_its_lock(void **state)
{
    (void)state;
    struct file_writer *writer = NULL;
    char taken[600];
    close(take_next_name(taken, sizeof(taken)));
    assert_int_equal(unlink(taken), 0);
    lost_file = taken; /* as another writer does that finds it without a lock */
    assert_ok(file_writer_open(path_of("a"), &writer));
    assert_null(lost_file);
    assert_string_not_equal(file_writer_temporary_path(writer), taken);
    assert_ok(file_writer_add(writer, "whole", 5));
    assert_ok(file_writer_commit(writer));
    file_writer_close(writer);
    check_content(path_of("a"), "whole");
}

static void test_a_child_keeps_no_lock_of_a_closed_writer(void **state)
{
    (void)state;
    struct file_writer *writer = NULL;
    assert_ok(file_writer_open(path_of("a"), &writer));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_ok(file_writer_commit(writer));
    file_writer_close(writer);
    int other = open(path_of("a"), O_RDONLY);
    int failed = flock(other, LOCK_SH | LOCK_NB);
    close(other);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(failed, 0);
}

static void test_large_and_small_pieces_keep_their_order(void **state)
{
    (void)state;
    struct file_writer *writer = NULL;
    struct buffer content = BUFFER_INIT(16 << 20);
    static char piece[3 << 20];
    const size_t sizes[] = {1, 1 << 20, 100, (1 << 20) - 1, 3 << 20, 7};
    assert_ok(file_writer_open(path_of("a"), &writer));
    uint64_t length = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(piece, 'a' + (int)i, sizes[i]);
        assert_ok(file_writer_add(writer, piece, sizes[i]));
        length += sizes[i];
        assert_int_equal(file_writer_length(writer), length);
    }
    assert_ok(file_writer_commit(writer));
    file_writer_close(writer);
    assert_ok(file_read_whole(path_of("a"), &content));
    assert_int_equal(content.length, length);
    size_t at = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t k = 0; k < sizes[i]; k++, at++) {
            if (content.data[at] != 'a' + (char)i)
                fail_msg("byte %zu is of another piece", at);
        }
    }
    buffer_release(&content);
}

/* RLIMIT_FSIZE stands for a full disk: both refuse a write in the middle. */
static void test_failed_write_leaves_nothing(void **state)
{
    (void)state;
    struct rlimit old;
    static char megabytes[2 << 20];
    assert_ok(file_write_whole(path_of("a"), "old", 3));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit small = {.rlim_cur = 100000, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum error error = file_write_whole(path_of("a"), megabytes, sizeof(megabytes));
    setrlimit(RLIMIT_FSIZE, &old);
    assert_fails(error, ERROR_IO, "cannot write 2097152 bytes at byte 0 of");
    check_content(path_of("a"), "old");
    unlink(path_of("a"));
    assert_int_equal(rmdir(folder), 0); /* nothing else was left */
    assert_int_equal(mkdir(folder, 0700), 0);
}

/* A file is never put where a pipe, a device or a folder is. */
static void test_only_files_are_replaced(void **state)
{
    (void)state;
    struct file_writer *writer;
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    assert_fails(file_writer_open(path_of("pipe"), &writer), ERROR_USAGE, "is not a regular file");
    assert_fails(file_writer_open(folder, &writer), ERROR_USAGE, "is not a regular file");
    assert_fails(file_writer_open("", &writer), ERROR_USAGE, "the name of a file is empty");
    assert_fails(file_writer_open("/dev/null", &writer), ERROR_USAGE, "/dev/null");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

static const struct CMUnitTest tests[] = {
    TEST(test_whole_files_come_back),
    TEST(test_reading_stops_at_the_limit),
    TEST(test_missing_and_wrong_files_are_named),
    TEST(test_only_regular_files_are_opened),
    TEST(test_own_files_are_no_links),
    TEST(test_pipes_of_a_shell_are_read_to_their_end),
    TEST(test_read_at_is_exact),
    TEST(test_identity_tells_files_apart),
    TEST(test_folders_are_made_with_parents),
    TEST(test_folders_that_were_made_are_taken_back),
    TEST(test_nothing_shows_before_commit),
    TEST(test_commit_replaces_at_once),
    TEST(test_a_file_keeps_its_permissions),
    TEST(test_root_gives_a_file_back_to_its_owner),
    TEST(test_parts_grow_side_by_side),
    TEST(test_two_writers_do_not_mix),
    TEST(test_what_a_killed_writer_left_is_removed),
    TEST(test_name_of_a_living_writer_is_passed_over),
    TEST(test_a_name_that_is_lost_before_its_lock),
    TEST(test_a_child_keeps_no_lock_of_a_closed_writer),
    TEST(test_large_and_small_pieces_keep_their_order),
    TEST(test_failed_write_leaves_nothing),
    TEST(test_only_files_are_replaced),
};

UNIT_MAIN(tests)
