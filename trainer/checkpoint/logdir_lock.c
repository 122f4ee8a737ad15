/* SPDX-License-Identifier: MIT */
#include "trainer/checkpoint/logdir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "common/stop.h"

#define NAME "/trainer.lock"
#define HOST_BYTES 256
#define HOLDER_BYTES 320
#define POLL_MS 200

/* The first line of the lock's file, "process 7 on host"; "" when it cannot be read. */
static void read_holder(const char *path, char ret_holder[HOLDER_BYTES])
{
    struct buffer text = BUFFER_INIT(HOLDER_BYTES - 1);
    ret_holder[0] = '\0';
    if (!file_read_whole(path, &text) && text.data)
        snprintf(ret_holder, HOLDER_BYTES, "%.*s", (int)strcspn(text.data, "\n"), text.data);
    buffer_release(&text);
}

static void own_host(char ret_host[HOST_BYTES])
{
    memset(ret_host, 0, HOST_BYTES);
    gethostname(ret_host, HOST_BYTES - 1);
}

/* A process of this machine has the lock for as long as it lives; what a dead node left on a
 * network file system ends with its lease. */
static bool may_be_dead(const char *holder)
{
    char host[HOST_BYTES];
    own_host(host);
    const char *on = strstr(holder, " on ");
    return !on || strcmp(on + 4, host) != 0;
}

static enum error refuse_second(const char *folder, const char *holder)
{
    return error_set(ERROR_CONFLICT,
                     "%s is in use by another trainer (%s); wait for its end, stop it, or take "
                     "another --logdir",
                     folder, holder);
}

/* It only helps a message: a full disk must not keep training from starting here. */
static void write_holder(int descriptor, const char *path)
{
    char host[HOST_BYTES], text[HOLDER_BYTES];
    own_host(host);
    int length = snprintf(text, sizeof(text), "process %d on %s\n", (int)getpid(), host);
    if (ftruncate(descriptor, 0) || pwrite(descriptor, text, (size_t)length, 0) != length)
        log_warning("cannot write to %s", path);
}

/* Tries until the lock is had, its holder is known to live, or `patience_ms` is over. */
static enum error wait_for_lock(int descriptor, const char *folder, const char *path,
                                int64_t patience_ms)
{
    char holder[HOLDER_BYTES];
    int64_t deadline_ns = clock_deadline_ns(patience_ms);
    bool told = false;
    while (flock(descriptor, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK)
            return error_set_errno(ERROR_IO, errno, "cannot lock %s", path);
        read_holder(path, holder);
        if (!may_be_dead(holder) || clock_now_ns() >= deadline_ns)
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

static enum error lock(const char *folder, const char *path, int64_t patience_ms,
                       int *ret_descriptor)
{
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return error_set_errno(ERROR_IO, errno, "cannot open %s", path);
    enum error error = wait_for_lock(descriptor, folder, path, patience_ms);
    if (error) {
        close(descriptor);
        return error;
    }
    write_holder(descriptor, path);
    *ret_descriptor = descriptor;
    return OK;
}

enum error logdir_lock_take(const char *folder, int64_t patience_ms, int *ret_descriptor)
{
    char *path = array_new(strlen(folder) + sizeof(NAME), 1, "a path");
    enum error error = ERROR_MEMORY;
    if (path) {
        memcpy(path, folder, strlen(folder));
        memcpy(path + strlen(folder), NAME, sizeof(NAME));
        error = lock(folder, path, patience_ms, ret_descriptor);
    }
    free(path);
    return error;
}
