/* SPDX-License-Identifier: MIT */
#include "trainer/checkpoint/logdir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "common/remote_disk.h"
#include "common/stop.h"

#define NAME "/trainer.lock"
#define HOST_BYTES 256
#define BOOT_BYTES 64
#define MACHINE_BYTES (HOST_BYTES + BOOT_BYTES + 20)
#define HOLDER_BYTES (HOST_BYTES + MACHINE_BYTES + 80)
#define MARK_LINE "\nmark %016" PRIx64 "\n"
#define POLL_MS 200

/* The text of a file; "" when it cannot be read. */
static void read_text(const char *path, size_t bytes, char *ret_text)
{
    struct buffer text = BUFFER_INIT(bytes - 1);
    bool is_read = !file_read_whole(path, &text) && text.data;
    snprintf(ret_text, bytes, "%s", is_read ? text.data : "");
    buffer_release(&text);
}

static void own_host(char ret_host[HOST_BYTES])
{
    memset(ret_host, 0, HOST_BYTES);
    gethostname(ret_host, HOST_BYTES - 1);
}

/* The host's name alone is not enough: a container that is started again on another node keeps
 * it. */
static void own_machine(char ret_line[MACHINE_BYTES])
{
    char host[HOST_BYTES], boot[BOOT_BYTES];
    own_host(host);
    read_text("/proc/sys/kernel/random/boot_id", sizeof(boot), boot);
    snprintf(ret_line, MACHINE_BYTES, "machine %s %.*s\n", host, (int)strcspn(boot, "\n"), boot);
}

/* A process on this machine holds the lock only while it lives; a dead node's lock on a network
 * file system ends with its lease. */
static bool may_be_dead(const char *holder)
{
    char machine[MACHINE_BYTES];
    own_machine(machine);
    return !strstr(holder, machine);
}

static enum error refuse_second(const char *folder, const char *holder)
{
    return error_set(ERROR_CONFLICT,
                     "%s is in use by another trainer (%s); wait for its end, stop it, or take "
                     "another --logdir",
                     folder, holder);
}

/* A full disk must not keep training from starting: then the lock does not name its holder. Synced,
 * because a network file system would keep it on this machine until the file is closed. */
static bool write_holder(const struct logdir_lock *lock, const char *path)
{
    char host[HOST_BYTES], machine[MACHINE_BYTES], text[HOLDER_BYTES];
    own_host(host);
    own_machine(machine);
    int length = snprintf(text, sizeof(text), "process %d on %s" MARK_LINE "%s", (int)getpid(),
                          host, lock->mark, machine);
    bool written = ftruncate(lock->descriptor, 0) == 0 &&
                   pwrite(lock->descriptor, text, (size_t)length, 0) == length &&
                   fdatasync(lock->descriptor) == 0;
    if (!written)
        log_warning("cannot write to %s", path);
    return written;
}

/* Tries until it has the lock, its holder is known to live, or `patience_ms` is over. */
static enum error wait_for_lock(int descriptor, const char *folder, const char *path,
                                int64_t patience_ms)
{
    char holder[HOLDER_BYTES];
    int64_t deadline_ns = clock_deadline_ns(patience_ms);
    bool told = false;
    while (flock(descriptor, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK)
            return error_set_errno(ERROR_IO, errno, "cannot lock %s", path);
        read_text(path, sizeof(holder), holder);
        bool lives = !may_be_dead(holder);
        holder[strcspn(holder, "\n")] = '\0'; /* messages name the process */
        if (lives || clock_now_ns() >= deadline_ns)
            return refuse_second(folder, holder);
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped while %s was in use by another trainer (%s)",
                             folder, holder);
        if (!told)
            log_info("%s is in use by another trainer (%s); waiting up to %g s for its end or that "
                     "of its lease (--patience)",
                     folder, holder, (double)patience_ms / 1000);
        told = true;
        clock_sleep_ms(POLL_MS);
    }
    return OK;
}

static char *path_of(const char *folder)
{
    char *path = array_new(strlen(folder) + sizeof(NAME), 1, "a path");
    if (path) {
        memcpy(path, folder, strlen(folder));
        memcpy(path + strlen(folder), NAME, sizeof(NAME));
    }
    return path;
}

/* 0: it is not there. */
static uint64_t disk_of(const char *folder)
{
    struct stat status;
    return stat(folder, &status) == 0 ? (uint64_t)status.st_dev : 0;
}

static enum error take(const char *folder, const char *path, int64_t patience_ms,
                       struct logdir_lock *lock)
{
    if (getrandom(&lock->mark, sizeof(lock->mark), 0) != (ssize_t)sizeof(lock->mark))
        return error_set_errno(ERROR_IO, errno, "cannot draw a number");
    lock->disk = disk_of(folder);
    lock->descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock->descriptor < 0)
        return error_set_errno(ERROR_IO, errno, "cannot open %s", path);
    enum error error = wait_for_lock(lock->descriptor, folder, path, patience_ms);
    if (error)
        logdir_lock_release(lock);
    else
        lock->told = write_holder(lock, path);
    return error;
}

enum error logdir_lock_take(const char *folder, int64_t patience_ms, struct logdir_lock *lock)
{
    char *path = path_of(folder);
    enum error error = path ? take(folder, path, patience_ms, lock) : ERROR_MEMORY;
    free(path);
    return error;
}

/* Reads the lock's file from the file server; false: it cannot be read. */
static bool read_from_server(const char *path, char ret_text[HOLDER_BYTES])
{
    int descriptor = remote_disk_open(path, 0, remote_disk_holds(path));
    if (descriptor < 0)
        return false;
    ssize_t length = remote_disk_read(descriptor, ret_text, HOLDER_BYTES - 1);
    close(descriptor);
    if (length >= 0)
        ret_text[length] = '\0';
    return length >= 0;
}

/* The folder of before may be hidden by another, or no longer be mounted there. */
static bool is_elsewhere(const struct logdir_lock *lock, const char *folder)
{
    uint64_t disk = disk_of(folder);
    return disk != 0 && disk != lock->disk;
}

static enum error check(const struct logdir_lock *lock, const char *folder, const char *path)
{
    char text[HOLDER_BYTES], mark[sizeof(MARK_LINE) + 16];
    snprintf(mark, sizeof(mark), MARK_LINE, lock->mark);
    bool is_read = read_from_server(path, text);
    if (is_read && (*text == '\0' || strstr(text, mark)))
        return OK;
    if (is_elsewhere(lock, folder)) /* where one may have trained before, too */
        return error_set(ERROR_IO,
                         "%s is not there, or not this trainer's, and its folder is on another "
                         "disk than when training began: is its disk mounted?",
                         path);
    if (!is_read)
        return OK;
    return error_set(ERROR_CONFLICT,
                     "%s was taken over by another trainer (%.*s), since this one's lock was lost, "
                     "as on a network file system by a machine that was away; nothing is saved "
                     "there any more",
                     folder, (int)strcspn(text, "\n"), text);
}

enum error logdir_lock_check(const struct logdir_lock *lock, const char *folder)
{
    if (lock->descriptor < 0 || !lock->told)
        return OK;
    char *path = path_of(folder);
    enum error error = path ? check(lock, folder, path) : ERROR_MEMORY;
    free(path);
    return error;
}

void logdir_lock_release(struct logdir_lock *lock)
{
    if (lock->descriptor >= 0)
        close(lock->descriptor);
    lock->descriptor = -1;
}
