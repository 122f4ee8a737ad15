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
#include "common/file.h"
#include "common/log.h"

#define NAME "/trainer.lock"

static enum error refuse_second(const char *folder, const char *path)
{
    struct buffer holder = BUFFER_INIT(256);
    const char *name = "";
    if (!file_read_whole(path, &holder) && holder.data) {
        holder.data[strcspn(holder.data, "\n")] = '\0';
        name = holder.data;
    }
    enum error error =
        error_set(ERROR_CONFLICT,
                  "%s is in use by another trainer (%s); wait for its end, stop it, or take "
                  "another --logdir",
                  folder, name);
    buffer_release(&holder);
    return error;
}

/* It only helps a message: a full disk must not keep training from starting here. */
static void write_holder(int descriptor, const char *path)
{
    char host[256] = "", text[320];
    gethostname(host, sizeof(host) - 1);
    int length = snprintf(text, sizeof(text), "process %d on %s\n", (int)getpid(), host);
    if (ftruncate(descriptor, 0) || pwrite(descriptor, text, (size_t)length, 0) != length)
        log_warning("cannot write to %s", path);
}

static enum error lock(const char *folder, const char *path, int *ret_descriptor)
{
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return error_set_errno(ERROR_IO, errno, "cannot open %s", path);
    enum error error;
    if (flock(descriptor, LOCK_EX | LOCK_NB)) {
        error = errno == EWOULDBLOCK ? refuse_second(folder, path)
                                     : error_set_errno(ERROR_IO, errno, "cannot lock %s", path);
        close(descriptor);
        return error;
    }
    write_holder(descriptor, path);
    *ret_descriptor = descriptor;
    return OK;
}

enum error logdir_lock_take(const char *folder, int *ret_descriptor)
{
    char *path = array_new(strlen(folder) + sizeof(NAME), 1, "a path");
    enum error error = ERROR_MEMORY;
    if (path) {
        memcpy(path, folder, strlen(folder));
        memcpy(path + strlen(folder), NAME, sizeof(NAME));
        error = lock(folder, path, ret_descriptor);
    }
    free(path);
    return error;
}
