/* SPDX-License-Identifier: MIT */
#include "loader/tool/folder_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/stop.h"

#define PAGE 4096
#define TRIES_LIMIT 2000
#define FREED_MS 5000 /* until the lock of a dead process must be free */
#define SKEW_S 2.0
#define FREE_BYTES ((uint64_t)1 << 30)
#define SLOW_SYNC_MS 20.0
#define SLOW_PUBLISH_MS 100.0
#define SLOW_ROWS 500.0

/* ---- results ------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static void say(struct probe_result *result,
                                                      enum verdict verdict, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(result->says, sizeof(result->says), format, args);
    va_end(args);
    result->verdict = verdict;
}

/* Reports the errno of a call that should not have failed. */
static void say_failed(struct probe_result *result, const char *call, const char *advice)
{
    say(result, VERDICT_BAD, "%s: %s%s", call, strerror(errno), advice);
}

static void say_error(struct probe_result *result)
{
    say(result, VERDICT_BAD, "%s", error_message());
}

static const char *path_of(const struct folder_probe *probe, const char *name, char out[1200])
{
    snprintf(out, 1200, "%s/%s", probe->folder, name);
    return out;
}

/* ---- files -------------------------------------------------------------- */

static void fill(char *bytes, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (char)((i * 2654435761u + seed) >> 7);
}

/* Does the file of this name hold the pattern of `seed`? */
static bool holds(const char *path, unsigned seed)
{
    char expected[PAGE];
    struct buffer read = BUFFER_INIT(2 * PAGE);
    fill(expected, PAGE, seed);
    bool is_same = !file_read_whole(path, &read) && read.length == PAGE &&
                   memcmp(read.data, expected, PAGE) == 0;
    buffer_release(&read);
    return is_same;
}

static enum error publish(const char *path, unsigned seed)
{
    char bytes[PAGE];
    fill(bytes, PAGE, seed);
    return file_write_whole(path, bytes, PAGE);
}

static void probe_publish(const struct folder_probe *probe, struct probe_result *result)
{
    char path[1200], old[PAGE], expected[PAGE];
    path_of(probe, "published", path);
    int reader = -1;
    enum error error = publish(path, 1);
    if (!error)
        error = file_open_read(path, &reader);
    if (!error)
        error = publish(path, 2);
    if (!error)
        error = file_read_at(reader, path, old, PAGE, 0);
    fill(expected, PAGE, 1);
    if (error)
        say_error(result);
    else if (memcmp(old, expected, PAGE) != 0)
        say(result, VERDICT_BAD,
            "who had the old file open reads something else of it: stores that are imported anew "
            "would be read half old, half new");
    else if (!holds(path, 2))
        say(result, VERDICT_BAD, "a file that was written, synced and renamed reads otherwise");
    else
        say(result, VERDICT_GOOD, "a file is replaced whole, and who reads the old one goes on");
    if (reader >= 0)
        close(reader);
}

static void probe_exclusive(const struct folder_probe *probe, struct probe_result *result)
{
    char path[1200];
    path_of(probe, "once", path);
    int first = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (first < 0) {
        say_failed(result, "making a file", "");
        return;
    }
    int second = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (second < 0 && errno == EEXIST)
        say(result, VERDICT_GOOD, "a file is made by one only");
    else if (second < 0)
        say_failed(result, "making a file once more", "");
    else
        say(result, VERDICT_BAD, "two made the same file, each as the only one");
    close(first);
    if (second >= 0)
        close(second);
}

static void probe_append(const struct folder_probe *probe, struct probe_result *result)
{
    char path[1200], bytes[PAGE];
    struct stat now = {.st_size = 0};
    path_of(probe, "journal", path);
    fill(bytes, PAGE, 3);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool done = file >= 0 && pwrite(file, bytes, PAGE, 0) == PAGE &&
                pwrite(file, bytes, 100, PAGE) == 100 && ftruncate(file, PAGE) == 0 &&
                fdatasync(file) == 0 && fstat(file, &now) == 0;
    if (!done)
        say_failed(result, "appending, and cutting what is torn off", "");
    else if (now.st_size != PAGE || !holds(path, 3))
        say(result, VERDICT_BAD, "a file that was cut to %d bytes has others", PAGE);
    else
        say(result, VERDICT_GOOD, "a journal grows, and is cut");
    if (file >= 0)
        close(file);
}

static void probe_map(const struct folder_probe *probe, struct probe_result *result)
{
    char path[1200], expected[PAGE];
    path_of(probe, "mapped", path);
    fill(expected, PAGE, 4);
    int file = -1;
    enum error error = publish(path, 4);
    if (!error)
        error = file_open_read(path, &file);
    if (error) {
        say_error(result);
        return;
    }
    void *map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        say_failed(result, "mapping a file", "; a frame that `build` made cannot be served");
    else if (memcmp(map, expected, PAGE) != 0)
        say(result, VERDICT_BAD, "a file that is mapped reads otherwise than it was written");
    else
        say(result, VERDICT_GOOD, "a file is mapped");
    if (map != MAP_FAILED)
        munmap(map, PAGE);
    close(file);
}

static void probe_link(const struct folder_probe *probe, struct probe_result *result)
{
    char path[1200], other[1200];
    path_of(probe, "named", path);
    path_of(probe, "named-too", other);
    if (publish(path, 5))
        say_error(result);
    else if (link(path, other) != 0)
        say(result, VERDICT_SLOW,
            "no second name for a file (%s): a damaged journal of --state could not be set aside",
            strerror(errno));
    else
        say(result, VERDICT_GOOD, "a file has a second name");
}

/* ---- locks between processes -------------------------------------------- */

enum { CHILD_REFUSED, CHILD_GOT_IT, CHILD_FAILED };

/* In a child: tries the lock, and keeps it until killed if `keeps`. */
static pid_t try_in_child(const char *path, bool keeps, int ready)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    int file = open(path, O_RDWR | O_CLOEXEC);
    int status = CHILD_FAILED;
    if (file >= 0)
        status = flock(file, LOCK_EX | LOCK_NB) == 0 ? CHILD_GOT_IT
                 : errno == EWOULDBLOCK              ? CHILD_REFUSED
                                                     : CHILD_FAILED;
    if (keeps && status == CHILD_GOT_IT) {
        (void)!write(ready, "", 1);
        for (;;)
            pause();
    }
    _exit(status);
}

static int status_of(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : CHILD_FAILED;
}

static bool is_freed_by_a_kill(const char *path, int file)
{
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC) != 0)
        return false;
    pid_t child = try_in_child(path, true, ready[1]);
    close(ready[1]);
    bool taken = child > 0 && read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        (void)status_of(child);
    }
    int64_t until_ns = clock_deadline_ns(FREED_MS);
    while (taken && flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (clock_left_ms(until_ns) == 0)
            return false;
        clock_sleep_ms(20);
    }
    return taken;
}

static void probe_locks(const struct folder_probe *probe, struct probe_result *result)
{
    char path[1200];
    path_of(probe, "lock", path);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || flock(file, LOCK_EX | LOCK_NB) != 0) {
        say_failed(result, "locking a file",
                   "; two samplers could take one --state folder, two trainings one logdir");
        if (file >= 0)
            close(file);
        return;
    }
    pid_t child = try_in_child(path, false, -1);
    int status = child > 0 ? status_of(child) : CHILD_FAILED;
    flock(file, LOCK_UN);
    if (status == CHILD_GOT_IT)
        say(result, VERDICT_BAD, "two processes hold one lock: mount without nolock or local_lock");
    else if (status != CHILD_REFUSED)
        say(result, VERDICT_BAD, "another process cannot even ask for the lock");
    else if (!is_freed_by_a_kill(path, file))
        say(result, VERDICT_BAD, "the lock of a process that was killed is not free after %d s",
            FREED_MS / 1000);
    else
        say(result, VERDICT_GOOD, "one process at a time, and a kill frees it");
    close(file);
}

/* ---- the mount ---------------------------------------------------------- */

static void probe_mount(const struct folder_probe *probe, struct probe_result *result)
{
    const struct mount_facts *facts = &probe->facts;
    char locks[16], version[16];
    mount_facts_value(facts, "local_lock", locks, sizeof(locks));
    mount_facts_value(facts, "vers", version, sizeof(version));
    bool is_nfs = mount_facts_is_nfs(facts);
    if (strcmp(facts->type, "tmpfs") == 0 || strcmp(facts->type, "ramfs") == 0)
        say(result, VERDICT_SLOW, "memory: what lies here is gone with the machine");
    else if (strcmp(facts->type, "overlay") == 0)
        say(result, VERDICT_SLOW,
            "a container's own layer: what lies here is gone with the container. Is the volume "
            "mounted?");
    else if (is_nfs && mount_facts_has(facts, "soft"))
        say(result, VERDICT_SLOW,
            "soft: a server that is away for a while is an I/O error to whoever writes. Mount "
            "hard");
    else if (is_nfs && (mount_facts_has(facts, "nolock") || strcmp(locks, "all") == 0 ||
                        strcmp(locks, "flock") == 0))
        say(result, VERDICT_BAD,
            "locks hold on this machine alone (nolock, local_lock): samplers of two machines could "
            "take one --state folder, trainings of two machines one logdir. Mount without it");
    else if (is_nfs && version[0] == '3')
        say(result, VERDICT_SLOW,
            "NFS 3 loses its locks when a server restarts without statd. Mount with vers=4.2");
    else if (is_nfs && mount_facts_has(facts, "noac"))
        say(result, VERDICT_SLOW,
            "noac: each look at a file asks the server. Nothing here needs it: mount without it");
    else
        say(result, VERDICT_GOOD, "nothing in its options is in the way");
}

static void probe_space(const struct folder_probe *probe, struct probe_result *result)
{
    struct statvfs space;
    if (statvfs(probe->folder, &space) != 0) {
        say_failed(result, "asking for the space that is left", "");
        return;
    }
    uint64_t left = (uint64_t)space.f_bavail * space.f_frsize;
    result->value = (double)left / 1e9;
    bool is_short_of_files = space.f_files > 0 && space.f_favail < 1000;
    say(result, left < FREE_BYTES || is_short_of_files ? VERDICT_SLOW : VERDICT_GOOD,
        "%.1f GB are left%s", result->value,
        is_short_of_files ? ", and less than 1,000 files" : "");
}

static void probe_clock(const struct folder_probe *probe, struct probe_result *result)
{
    char path[1200];
    struct stat now;
    path_of(probe, "clock", path);
    double before_s = clock_wall_seconds();
    if (publish(path, 6)) {
        say_error(result);
        return;
    }
    if (stat(path, &now) != 0) {
        say_failed(result, "looking at a file that was written", "");
        return;
    }
    double stamp_s = (double)now.st_mtim.tv_sec + (double)now.st_mtim.tv_nsec / 1e9;
    double after_s = clock_wall_seconds();
    double skew_s = stamp_s < before_s - SKEW_S  ? stamp_s - before_s
                    : stamp_s > after_s + SKEW_S ? stamp_s - after_s
                                                 : 0;
    result->value = skew_s;
    if (skew_s != 0)
        say(result, VERDICT_SLOW,
            "files are stamped %.0f s %s this machine's clock: times in logs will not agree "
            "(chrony or ntpd on both)",
            skew_s < 0 ? -skew_s : skew_s, skew_s < 0 ? "behind" : "ahead of");
    else if (now.st_uid != geteuid())
        say(result, VERDICT_SLOW,
            "files belong to user %u, not to %u (root_squash?): other machines must map users "
            "alike",
            (unsigned)now.st_uid, (unsigned)geteuid());
    else
        say(result, VERDICT_GOOD, "files have this machine's time and user");
}

/* ---- speed -------------------------------------------------------------- */

static int compare_times(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Calls `step` until time is over; its times in ms, sorted; 0: it failed, see the result. */
static size_t measure(const struct folder_probe *probe, double times_ms[TRIES_LIMIT],
                      bool (*step)(void *context, size_t number), void *context)
{
    size_t count = 0;
    int64_t until_ns = clock_deadline_ns(probe->time_ms);
    while (count < TRIES_LIMIT && (count < 3 || clock_left_ms(until_ns) > 0) && !stop_requested()) {
        int64_t started_ns = clock_now_ns();
        if (!step(context, count))
            return 0;
        times_ms[count++] = (double)(clock_now_ns() - started_ns) / 1e6;
    }
    if (count > 0)
        qsort(times_ms, count, sizeof(times_ms[0]), compare_times);
    return count;
}

static bool append_and_sync(void *context, size_t number)
{
    static const char bytes[PAGE];
    int file = *(int *)context;
    return pwrite(file, bytes, PAGE, (off_t)number * PAGE) == PAGE && fdatasync(file) == 0;
}

static void probe_sync(const struct folder_probe *probe, struct probe_result *result)
{
    char path[1200];
    double times_ms[TRIES_LIMIT];
    path_of(probe, "synced", path);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    size_t count = file < 0 ? 0 : measure(probe, times_ms, append_and_sync, &file);
    if (count == 0) {
        say_failed(result, "appending 4 kB and fdatasync", "; no answer of --state would be safe");
    } else {
        result->value = times_ms[count / 2];
        bool is_slow = result->value > SLOW_SYNC_MS;
        say(result, is_slow ? VERDICT_SLOW : VERDICT_GOOD,
            "4 kB: median %.2f ms, slowest %.2f of %zu%s", times_ms[count / 2], times_ms[count - 1],
            count,
            is_slow ? ". Each draw with --state waits for one, which those of a moment share; "
                      "--durability process does not wait"
                    : "");
    }
    if (file >= 0)
        close(file);
}

static bool publish_once(void *context, size_t number)
{
    return !publish(context, (unsigned)number);
}

static void probe_checkpoint(const struct folder_probe *probe, struct probe_result *result)
{
    char path[1200];
    double times_ms[TRIES_LIMIT];
    path_of(probe, "pointer", path);
    size_t count = measure(probe, times_ms, publish_once, path);
    if (count == 0) {
        say_error(result);
        return;
    }
    result->value = times_ms[count / 2];
    say(result, result->value > SLOW_PUBLISH_MS ? VERDICT_SLOW : VERDICT_GOOD,
        "a small file written, synced and renamed: median %.2f ms, slowest %.2f of %zu",
        times_ms[count / 2], times_ms[count - 1], count);
}

static char *block_of(size_t bytes, struct probe_result *result)
{
    char *block = malloc(bytes);
    if (block)
        fill(block, bytes, 7);
    else
        say(result, VERDICT_BAD, "out of memory");
    return block;
}

static void probe_write(const struct folder_probe *probe, struct probe_result *result)
{
    enum { BLOCK = 1 << 20 };
    char path[1200];
    size_t done = 0;
    path_of(probe, "large", path);
    char *block = block_of(BLOCK, result);
    if (!block)
        return;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int64_t started_ns = clock_now_ns();
    while (file >= 0 && done < probe->bytes && !stop_requested()) {
        ssize_t wrote = write(file, block, BLOCK);
        if (wrote <= 0)
            break;
        done += (size_t)wrote;
    }
    if (file < 0 || done < probe->bytes || fsync(file) != 0) {
        say_failed(result, "writing a large file", "");
    } else {
        result->value = (double)done * 1e3 / (double)(clock_now_ns() - started_ns);
        say(result, VERDICT_GOOD, "%.0f MB/s, %zu MB and an fsync", result->value, done >> 20);
    }
    if (file >= 0)
        close(file);
    free(block);
}

/* The file that probe_write() made; -1: see the result. */
static int open_large(const struct folder_probe *probe, struct probe_result *result)
{
    char path[1200];
    struct stat now;
    int file = -1;
    if (file_open_read(path_of(probe, "large", path), &file)) {
        say_error(result);
        return -1;
    }
    if (fstat(file, &now) != 0 || (uint64_t)now.st_size >= probe->bytes)
        return file;
    say(result, VERDICT_BAD, "not tried: the file to read could not be written");
    close(file);
    return -1;
}

static void probe_read(const struct folder_probe *probe, struct probe_result *result)
{
    enum { BLOCK = 1 << 20 };
    uint64_t done = 0;
    int file = open_large(probe, result);
    char *block = file < 0 ? NULL : block_of(BLOCK, result);
    if (!block) {
        if (file >= 0)
            close(file);
        return;
    }
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    int64_t started_ns = clock_now_ns();
    ssize_t got;
    while ((got = pread(file, block, BLOCK, (off_t)done)) > 0 && !stop_requested())
        done += (uint64_t)got;
    result->value = (double)done * 1e3 / (double)(clock_now_ns() - started_ns);
    if (got < 0)
        say_failed(result, "reading a large file", "");
    else if (done < probe->bytes && !stop_requested())
        say(result, VERDICT_BAD, "a file of %zu bytes ends at byte %" PRIu64, probe->bytes, done);
    else
        say(result, VERDICT_GOOD, "%.0f MB/s from end to end", result->value);
    close(file);
    free(block);
}

struct places {
    int file;
    size_t pages;
    uint64_t random;
};

static bool read_a_page(void *context, size_t number)
{
    struct places *places = context;
    char bytes[PAGE];
    (void)number;
    places->random = places->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return pread(places->file, bytes, PAGE,
                 (off_t)((places->random >> 33) % places->pages) * PAGE) == PAGE;
}

static void probe_rows(const struct folder_probe *probe, struct probe_result *result)
{
    double times_ms[TRIES_LIMIT], sum_ms = 0;
    struct places places = {
        .file = open_large(probe, result), .pages = probe->bytes / PAGE, .random = 1};
    if (places.file < 0)
        return;
    (void)posix_fadvise(places.file, 0, 0, POSIX_FADV_DONTNEED);
    (void)posix_fadvise(places.file, 0, 0, POSIX_FADV_RANDOM);
    size_t count = measure(probe, times_ms, read_a_page, &places);
    for (size_t i = 0; i < count; i++)
        sum_ms += times_ms[i];
    if (count == 0) {
        say_failed(result, "reading 4 kB", "");
    } else {
        result->value = (double)count / (sum_ms / 1e3 + 1e-9);
        bool is_slow = result->value < SLOW_ROWS;
        say(result, is_slow ? VERDICT_SLOW : VERDICT_GOOD,
            "%.0f reads of 4 kB a second, one at a time, anywhere: median %.2f ms%s", result->value,
            times_ms[count / 2],
            is_slow ? ". Rows of a store here want a cache (--cache-bytes) or --fetchers" : "");
    }
    close(places.file);
}

/* ---- all ---------------------------------------------------------------- */

const struct probe folder_probes[] = {
    {"mount", NULL, probe_mount},
    {"space", "free_gb", probe_space},
    {"rename", NULL, probe_publish},
    {"create", NULL, probe_exclusive},
    {"journal", NULL, probe_append},
    {"map", NULL, probe_map},
    {"link", NULL, probe_link},
    {"lock", NULL, probe_locks},
    {"clock", "skew_s", probe_clock},
    {"fsync", "fsync_ms", probe_sync},
    {"checkpoint", "checkpoint_ms", probe_checkpoint},
    {"write", "write_mb_per_s", probe_write},
    {"read", "read_mb_per_s", probe_read},
    {"rows", "reads_per_s", probe_rows},
};
const size_t folder_probe_count = sizeof(folder_probes) / sizeof(folder_probes[0]);

enum error folder_probe_begin(const char *folder, struct folder_probe *ret_probe)
{
    struct folder_probe *probe = ret_probe;
    size_t length = strlen(folder);
    if (length >= sizeof(probe->parent))
        return error_set(ERROR_USAGE, "the folder's name has %zu bytes; %zu at most are possible",
                         length, sizeof(probe->parent) - 1);
    memcpy(probe->parent, folder, length + 1);
    enum error error = mount_facts_find(folder, &probe->facts);
    if (error)
        return error;
    snprintf(probe->folder, sizeof(probe->folder), "%s/.tombola-check-XXXXXX", folder);
    if (!mkdtemp(probe->folder))
        return error_set_errno(
            ERROR_IO, errno,
            "cannot write in %s, which stores can be read from, but no logdir, no --state and no "
            "import",
            folder);
    return OK;
}

void folder_probe_end(const struct folder_probe *probe)
{
    static const char *const names[] = {"published", "once",      "journal", "mapped",
                                        "named",     "named-too", "lock",    "clock",
                                        "synced",    "pointer",   "large"};
    char path[1200];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(path_of(probe, names[i], path));
    rmdir(probe->folder);
}
