/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/tool/folder_probe: what each check of `tombola-loader check` says of a folder that
 * is not as it should be. Calls of the system fail or lie by --wrap; time is what the test says.
 */
#include "tests/unit/folder_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/clock.h"
#include "common/stop.h"
#include "loader/tool/folder_probe.h"

#define PAGE 4096
#define MEGABYTE (1 << 20)

/* The call that does something else, of the calls of that name the one with this number, from 0,
 * and, `lasts`, all behind it. */
enum lie {
    FAILS,    /* with errno `number` */
    PRETENDS, /* 0, and nothing is done */
    GARBLES,  /* what was read is something else */
    CUTS,     /* half of what was asked for */
    FORGETS,  /* O_EXCL; who owns a file; that a lock is taken */
};
static struct wrong {
    const char *call; /* NULL: none */
    int nth;
    bool lasts;
    enum lie lie;
    int number;
} wrong;

static int calls; /* of that name */
static double wall_skew_s;
static int64_t step_ns; /* each look at the clock takes so long */
static int64_t now_ns;

static bool lies(const char *call)
{
    if (!wrong.call || strcmp(wrong.call, call) != 0)
        return false;
    int nth = calls++;
    if (nth != wrong.nth && !(wrong.lasts && nth > wrong.nth))
        return false;
    errno = wrong.lie == FAILS ? wrong.number : errno;
    return true;
}

#define WRAP(type, name, parameters) \
    type __real_##name parameters;   \
    type __wrap_##name parameters;   \
    type __wrap_##name parameters

WRAP(int, open, (const char *path, int flags, ...))
{
    bool is_wrong = lies("open");
    if (is_wrong && wrong.lie == FAILS)
        return -1;
    return __real_open(path, is_wrong && wrong.lie == FORGETS ? flags & ~O_EXCL : flags, 0600);
}

WRAP(ssize_t, pwrite, (int file, const void *bytes, size_t count, off_t at))
{
    return lies("pwrite") ? -1 : __real_pwrite(file, bytes, count, at);
}

WRAP(ssize_t, write, (int file, const void *bytes, size_t count))
{
    if (file <= STDERR_FILENO || !lies("write"))
        return __real_write(file, bytes, count);
    return wrong.lie == CUTS ? 0 : -1;
}

WRAP(ssize_t, pread, (int file, void *bytes, size_t count, off_t at))
{
    bool is_wrong = lies("pread");
    if (is_wrong && wrong.lie == FAILS)
        return -1;
    ssize_t got = __real_pread(file, bytes, is_wrong && wrong.lie == CUTS ? count / 2 : count, at);
    if (is_wrong && wrong.lie == GARBLES && got > 0)
        ((char *)bytes)[0]++;
    return is_wrong && wrong.lie == PRETENDS ? 0 : got;
}

WRAP(ssize_t, read, (int file, void *bytes, size_t count))
{
    ssize_t got = __real_read(file, bytes, count);
    if (got > 0 && lies("read"))
        ((char *)bytes)[0]++;
    return got;
}

WRAP(int, ftruncate, (int file, off_t bytes))
{
    return lies("ftruncate") ? -(wrong.lie == FAILS) : __real_ftruncate(file, bytes);
}

WRAP(int, fdatasync, (int file))
{
    return lies("fdatasync") ? -1 : __real_fdatasync(file);
}

WRAP(int, fsync, (int file))
{
    return lies("fsync") ? -1 : __real_fsync(file);
}

WRAP(int, fstat, (int file, struct stat *status))
{
    return lies("fstat") ? -1 : __real_fstat(file, status);
}

WRAP(int, stat, (const char *path, struct stat *status))
{
    bool is_wrong = lies("stat");
    if (is_wrong && wrong.lie == FAILS)
        return -1;
    int done = __real_stat(path, status);
    status->st_uid += is_wrong && wrong.lie == FORGETS;
    return done;
}

WRAP(int, statvfs, (const char *path, struct statvfs *space))
{
    bool is_wrong = lies("statvfs");
    if (is_wrong && wrong.lie == FAILS)
        return -1;
    int done = __real_statvfs(path, space);
    *space = is_wrong ? (struct statvfs){.f_frsize = PAGE, .f_bavail = 1000} : *space;
    space->f_files = is_wrong && wrong.lie == FORGETS ? 5000 : 0;
    space->f_favail = 999;
    if (is_wrong && wrong.lie == FORGETS)
        space->f_bavail = UINT64_C(1) << 30;
    return done;
}

WRAP(void *, mmap, (void *at, size_t bytes, int access, int flags, int file, off_t offset))
{
    if (!lies("mmap"))
        return __real_mmap(at, bytes, access, flags, file, offset);
    return wrong.lie == FAILS ? MAP_FAILED
                              : __real_mmap(at, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

WRAP(int, link, (const char *path, const char *other))
{
    return lies("link") ? -1 : __real_link(path, other);
}

WRAP(int, flock, (int file, int operation))
{
    if (!lies("flock"))
        return __real_flock(file, operation);
    return wrong.lie == FAILS ? -1 : 0;
}

WRAP(pid_t, fork, (void))
{
    return lies("fork") ? -1 : __real_fork();
}

WRAP(double, clock_wall_seconds, (void))
{
    return __real_clock_wall_seconds() + wall_skew_s;
}

WRAP(int64_t, clock_now_ns, (void))
{
    return now_ns += step_ns;
}

WRAP(int64_t, clock_left_ms, (int64_t deadline_ns))
{
    (void)deadline_ns;
    return 0;
}

/* ---- a folder ------------------------------------------------------------ */

static struct folder_probe probe;

static int start(void **state)
{
    make_folder(state);
    wrong.call = NULL;
    wall_skew_s = 0;
    step_ns = 1000;
    assert_ok(folder_probe_begin(folder, &probe));
    probe.bytes = 2 * MEGABYTE;
    return 0;
}

/* It leaves nothing. */
static int stop(void **state)
{
    (void)state;
    wrong.call = NULL;
    folder_probe_end(&probe);
    return rmdir(folder);
}

static struct probe_result run(const char *name)
{
    struct probe_result result = {.verdict = VERDICT_GOOD};
    calls = 0;
    for (size_t i = 0; i < folder_probe_count; i++) {
        if (strcmp(folder_probes[i].name, name) == 0)
            folder_probes[i].run(&probe, &result);
    }
    wrong.call = NULL;
    assert_true(result.says[0] != '\0');
    return result;
}

static void assert_says(const char *name, enum verdict verdict, const char *text)
{
    struct probe_result result = run(name);
    if (result.verdict != verdict || !strstr(result.says, text))
        fail_msg("%s says %d: \"%s\", not %d: \"%s\"", name, result.verdict, result.says, verdict,
                 text);
}

/* Files of the earlier check are in nobody's way. */
static void restart(void)
{
    void *none = NULL;
    assert_int_equal(stop(&none), 0);
    start(&none);
}

static void test_all_is_well(void **state)
{
    (void)state;
    for (size_t i = 0; i < folder_probe_count; i++) {
        struct probe_result result = run(folder_probes[i].name);
        if (result.verdict == VERDICT_BAD)
            fail_msg("%s: %s", folder_probes[i].name, result.says);
        assert_int_equal(folder_probes[i].unit && strcmp(folder_probes[i].unit, "skew_s") != 0,
                         result.value > 0);
    }
}

static void test_calls_that_fail_or_lie(void **state)
{
    static const struct {
        const char *probe;
        enum verdict verdict;
        const char *text;
        struct wrong wrong;
    } cases[] = {
        {"space",
         VERDICT_BAD,
         "asking for the space that is left: Input",
         {.call = "statvfs", .number = EIO}},
        {"space", VERDICT_SLOW, "0.0 GB are left", {.call = "statvfs", .lie = PRETENDS}},
        {"space",
         VERDICT_SLOW,
         "GB are left, and less than 1,000 files",
         {.call = "statvfs", .lie = FORGETS}},
        {"rename", VERDICT_BAD, "Permission denied", {.call = "open", .number = EACCES}},
        {"rename",
         VERDICT_BAD,
         "Input/output error",
         {.call = "fsync", .lasts = true, .number = EIO}},
        {"rename", VERDICT_BAD, "Input/output error", {.call = "pread", .number = EIO}},
        {"rename", VERDICT_BAD, "half old, half new", {.call = "pread", .lie = GARBLES}},
        {"rename",
         VERDICT_BAD,
         "written, synced and renamed reads otherwise",
         {.call = "read", .lie = GARBLES}},
        {"create",
         VERDICT_BAD,
         "making a file: Read-only file system",
         {.call = "open", .number = EROFS}},
        {"create",
         VERDICT_BAD,
         "two made the same file, each as the only one",
         {.call = "open", .nth = 1, .lie = FORGETS}},
        {"create",
         VERDICT_BAD,
         "making a file once more: Input/output error",
         {.call = "open", .nth = 1, .number = EIO}},
        {"journal",
         VERDICT_BAD,
         "appending, and cutting what is torn off: P",
         {.call = "open", .number = EACCES}},
        {"journal",
         VERDICT_BAD,
         "torn off: No space left on device",
         {.call = "pwrite", .number = ENOSPC}},
        {"journal",
         VERDICT_BAD,
         "torn off: No space left on device",
         {.call = "pwrite", .nth = 1, .number = ENOSPC}},
        {"journal",
         VERDICT_BAD,
         "torn off: Operation not permitted",
         {.call = "ftruncate", .number = EPERM}},
        {"journal",
         VERDICT_BAD,
         "cut to 4096 bytes has others",
         {.call = "ftruncate", .lie = PRETENDS}},
        {"journal",
         VERDICT_BAD,
         "torn off: Input/output error",
         {.call = "fdatasync", .number = EIO}},
        {"journal", VERDICT_BAD, "torn off: Input/output error", {.call = "fstat", .number = EIO}},
        {"journal", VERDICT_BAD, "cut to 4096 bytes has others", {.call = "read", .lie = GARBLES}},
        {"map", VERDICT_BAD, "Permission denied", {.call = "open", .number = EACCES}},
        {"map",
         VERDICT_BAD,
         "a frame that `build` made cannot be served",
         {.call = "mmap", .number = ENODEV}},
        {"map",
         VERDICT_BAD,
         "reads otherwise than it was written",
         {.call = "mmap", .lie = PRETENDS}},
        {"link", VERDICT_BAD, "Permission denied", {.call = "open", .number = EACCES}},
        {"link",
         VERDICT_SLOW,
         "no second name for a file (Operation not",
         {.call = "link", .number = EPERM}},
        {"lock",
         VERDICT_BAD,
         "locking a file: Permission denied",
         {.call = "open", .number = EACCES}},
        {"lock",
         VERDICT_BAD,
         "two samplers could take one --state folder",
         {.call = "flock", .number = ENOLCK}},
        {"lock",
         VERDICT_BAD,
         "two processes hold one lock",
         {.call = "flock", .lasts = true, .lie = FORGETS}},
        {"lock",
         VERDICT_BAD,
         "another process cannot even ask for the lock",
         {.call = "flock", .nth = 1, .number = EIO}},
        {"lock",
         VERDICT_BAD,
         "another process cannot even ask for the lock",
         {.call = "open", .nth = 1, .number = EIO}},
        {"lock",
         VERDICT_BAD,
         "another process cannot even ask for the lock",
         {.call = "fork", .number = EAGAIN}},
        {"lock",
         VERDICT_BAD,
         "killed is not free after 5 s",
         {.call = "fork", .nth = 1, .number = EAGAIN}},
        {"lock",
         VERDICT_BAD,
         "killed is not free after 5 s",
         {.call = "flock", .nth = 2, .lasts = true, .number = EWOULDBLOCK}},
        {"clock", VERDICT_BAD, "Permission denied", {.call = "open", .number = EACCES}},
        {"clock", VERDICT_BAD, "Stale file handle", {.call = "stat", .nth = 1, .number = ESTALE}},
        {"clock", VERDICT_SLOW, "(root_squash?)", {.call = "stat", .nth = 1, .lie = FORGETS}},
        {"fsync",
         VERDICT_BAD,
         "appending 4 kB and fdatasync: Permission",
         {.call = "open", .number = EACCES}},
        {"fsync",
         VERDICT_BAD,
         "fdatasync: Disk quota exceeded",
         {.call = "pwrite", .nth = 1, .number = EDQUOT}},
        {"fsync",
         VERDICT_BAD,
         "no answer of --state would be safe",
         {.call = "fdatasync", .nth = 2, .number = EIO}},
        {"checkpoint",
         VERDICT_BAD,
         "Input/output error",
         {.call = "fsync", .lasts = true, .number = EIO}},
        {"write",
         VERDICT_BAD,
         "writing a large file: Permission denied",
         {.call = "open", .number = EACCES}},
        {"write",
         VERDICT_BAD,
         "writing a large file: No space left",
         {.call = "write", .nth = 1, .number = ENOSPC}},
        {"write", VERDICT_BAD, "writing a large file", {.call = "write", .nth = 1, .lie = CUTS}},
        {"write",
         VERDICT_BAD,
         "writing a large file: Input/output error",
         {.call = "fsync", .number = EIO}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        wrong = cases[i].wrong;
        assert_says(cases[i].probe, cases[i].verdict, cases[i].text);
        restart();
    }
}

/* Of the file that `write` made. */
static void test_reading_that_fails(void **state)
{
    static const struct {
        const char *probe, *text;
        struct wrong wrong;
    } cases[] = {
        {"read",
         "reading a large file: Input/output error",
         {.call = "pread", .nth = 1, .number = EIO}},
        {"read",
         "a file of 2097152 bytes ends at byte 1048576",
         {.call = "pread", .nth = 1, .lie = PRETENDS}},
        {"rows", "reading 4 kB: Input/output error", {.call = "pread", .nth = 2, .number = EIO}},
    };
    (void)state;
    assert_says("read", VERDICT_BAD, "large");
    assert_says("rows", VERDICT_BAD, "large");
    assert_int_equal(run("write").verdict, VERDICT_GOOD);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        wrong = cases[i].wrong;
        assert_says(cases[i].probe, VERDICT_BAD, cases[i].text);
    }
    assert_int_equal(run("read").verdict, VERDICT_GOOD);
}

static void test_a_slow_disk(void **state)
{
    (void)state;
    step_ns = 30 * 1000000; /* of a call, 30 ms */
    assert_says("fsync", VERDICT_SLOW, "4 kB: median 30.00 ms, slowest 30.00 of 3. Each draw");
    assert_says("checkpoint", VERDICT_GOOD, "renamed: median 30.00 ms, slowest 30.00 of 3");
    assert_says("write", VERDICT_GOOD, "70 MB/s, 2 MB and an fsync");
    assert_says("rows", VERDICT_SLOW, "33 reads of 4 kB a second");
    step_ns *= 5;
    assert_says("checkpoint", VERDICT_SLOW, "median 150.00 ms");
    step_ns = 1000000;
    assert_says("rows", VERDICT_GOOD, "1000 reads of 4 kB a second");
}

static void test_clocks_that_differ(void **state)
{
    (void)state;
    wall_skew_s = 100;
    assert_says("clock", VERDICT_SLOW, "files are stamped 100 s behind this machine's clock");
    wall_skew_s = -50;
    assert_says("clock", VERDICT_SLOW, "files are stamped 50 s ahead of this machine's clock");
    wall_skew_s = 1;
    assert_says("clock", VERDICT_GOOD, "files have this machine's time and user");
}

static void test_what_the_mount_says(void **state)
{
    static const struct {
        const char *type, *options;
        enum verdict verdict;
        const char *text;
    } mounts[] = {
        {"ext4", "rw,nolock", VERDICT_GOOD, "nothing in its options is in the way"},
        {"tmpfs", "rw", VERDICT_SLOW, "memory"},
        {"ramfs", "rw", VERDICT_SLOW, "memory"},
        {"overlay", "rw", VERDICT_SLOW, "Is the volume mounted?"},
        {"nfs4", "rw,vers=4.2,hard", VERDICT_GOOD, "nothing"},
        {"nfs4", "rw,vers=4.2,soft,nolock", VERDICT_SLOW, "Mount hard"},
        {"nfs", "rw,vers=3,nolock", VERDICT_BAD, "locks hold on this machine alone"},
        {"nfs4", "rw,vers=4.2,local_lock=all", VERDICT_BAD, "locks hold on this machine alone"},
        {"nfs4", "rw,vers=4.2,local_lock=flock", VERDICT_BAD, "locks hold on this machine alone"},
        {"nfs4", "rw,vers=4.2,local_lock=posix", VERDICT_GOOD, "nothing"},
        {"nfs", "rw,vers=3,local_lock=none", VERDICT_SLOW, "Mount with vers=4.2"},
        {"nfs4", "rw,vers=4.2,noac", VERDICT_SLOW, "mount without it"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
        snprintf(probe.facts.type, sizeof(probe.facts.type), "%s", mounts[i].type);
        snprintf(probe.facts.options, sizeof(probe.facts.options), "%s", mounts[i].options);
        assert_says("mount", mounts[i].verdict, mounts[i].text);
    }
}

/* Of a mount that containers share, in each of which it is process 1. */
static void test_two_at_once_by_processes_of_one_number(void **state)
{
    struct folder_probe other;
    (void)state;
    assert_ok(folder_probe_begin(folder, &other));
    assert_says("create", VERDICT_GOOD, "");
    folder_probe_end(&other);
    assert_says("lock", VERDICT_GOOD, "");
}

/* A signal ends what takes long. */
static void test_a_signal(void **state)
{
    _Atomic bool stopped = true;
    (void)state;
    stop_follow(&stopped);
    assert_says("write", VERDICT_BAD, "writing a large file");
    stop_follow(NULL);
    assert_int_equal(run("write").verdict, VERDICT_GOOD);
    stop_follow(&stopped);
    assert_int_equal(run("read").verdict, VERDICT_GOOD); /* of what was read */
    stop_follow(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

static const struct CMUnitTest tests[] = {
    TEST(test_all_is_well),
    TEST(test_calls_that_fail_or_lie),
    TEST(test_reading_that_fails),
    TEST(test_a_slow_disk),
    TEST(test_clocks_that_differ),
    TEST(test_what_the_mount_says),
    TEST(test_two_at_once_by_processes_of_one_number),
    TEST(test_a_signal),
};

UNIT_MAIN(tests)
