/* SPDX-License-Identifier: MIT */
#include "trainer/run/best_checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"
#include "common/log.h"
#include "trainer/checkpoint/logdir.h"

#define BLOCK_BYTES ((size_t)1 << 20)
#define PATH_LIMIT_BYTES 8192

void best_checkpoint_init(struct best_checkpoint *best, const char *logdir, double loss,
                          int64_t step)
{
    *best = (struct best_checkpoint){.logdir = logdir, .loss = loss, .step = step};
}

static enum error copy_blocks(int source, const char *path, struct file_writer *writer)
{
    struct file_identity identity;
    char *block = array_new(BLOCK_BYTES, 1, "a copy of a checkpoint");
    enum error error = block ? file_identity_of(source, path, &identity) : ERROR_MEMORY;
    for (uint64_t at = 0; !error && at < identity.size_bytes; at += BLOCK_BYTES) {
        uint64_t left = identity.size_bytes - at;
        size_t bytes = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
        error = file_read_at(source, path, block, bytes, at);
        if (!error)
            error = file_writer_add(writer, block, bytes);
    }
    free(block);
    return error;
}

static enum error copy(const char *path, const char *target)
{
    struct file_writer *writer = NULL;
    int source = -1;
    enum error error = file_open_read(path, &source);
    if (!error)
        error = file_writer_open(target, &writer);
    if (!error)
        error = copy_blocks(source, path, writer);
    if (!error)
        error = file_writer_commit(writer);
    file_writer_close(writer);
    if (source >= 0)
        close(source);
    return error;
}

static enum error keep(const struct best_checkpoint *best, const char *path)
{
    struct buffer target = BUFFER_INIT(PATH_LIMIT_BYTES);
    enum error error = buffer_print(&target, "%s/" LOGDIR_BEST, best->logdir);
    if (!error)
        error = copy(path, target.data);
    buffer_release(&target);
    return error;
}

void best_checkpoint_consider(struct best_checkpoint *best, const char *path, int64_t step,
                              double loss)
{
    if (!(loss < best->loss)) {
        best->worse++;
        return;
    }
    best->worse = 0;
    if (keep(best, path)) {
        log_warning("step %" PRId64 " has the lowest loss so far and was not kept: %s", step,
                    error_message());
        return;
    }
    best->loss = loss;
    best->step = step;
}
