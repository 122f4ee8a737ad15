/* SPDX-License-Identifier: MIT */
#include "common/output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"
#include "common/log.h"
#include "common/stop.h"

#define BLOCK_BYTES ((size_t)256 << 10)
/* A pipe that poll() reports writable takes a page without blocking, so a signal is always
 * noticed. */
#define PIPE_BYTES 4096
#define POLL_LIMIT_MS 1000
#define STANDARD_NAME "standard output"

struct output {
    int descriptor;
    const char *name;
    bool owned;     /* the descriptor is closed here */
    bool regular;   /* a file: writing never waits for a reader */
    bool seekable;  /* and bytes may be replaced */
    uint64_t start; /* where in the file the output begins */
    uint64_t flushed;
    char *data; /* [capacity] */
    size_t length, capacity;
    bool reader_gone;
};

/* ---- opening ------------------------------------------------------------ */

static enum error output_new(int descriptor, const char *name, bool owned,
                             struct output **ret_output)
{
    struct stat status;
    if (fstat(descriptor, &status))
        return error_set_errno(ERROR_IO, errno, "cannot write to %s", name);
    struct output *output = array_new(1, sizeof(*output), "an output");
    if (!output)
        return ERROR_MEMORY;
    int flags = fcntl(descriptor, F_GETFL);
    off_t start = lseek(descriptor, 0, SEEK_CUR);
    output->descriptor = descriptor;
    output->name = name;
    output->owned = owned;
    output->regular = S_ISREG(status.st_mode);
    output->seekable = output->regular && start >= 0 && flags >= 0 && !(flags & O_APPEND);
    output->start = start > 0 ? (uint64_t)start : 0;
    *ret_output = output;
    return OK;
}

enum error output_open(int descriptor, const char *name, struct output **ret_output)
{
    return output_new(descriptor, name, false, ret_output);
}

/* program.c replaces a closed descriptor with /dev/null, opened for reading. */
enum error output_open_standard(struct output **ret_output)
{
    if ((fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY)
        return error_set_errno(ERROR_IO, EBADF, "cannot write to " STANDARD_NAME);
    return output_open(STDOUT_FILENO, STANDARD_NAME, ret_output);
}

enum error output_open_temporary(struct output **ret_output)
{
    const char *folder = getenv("TMPDIR");
    if (!folder || !folder[0])
        folder = "/tmp";
    int descriptor = file_open_unnamed(folder);
    if (descriptor < 0)
        return error_set_errno(ERROR_IO, errno,
                               "cannot make a temporary file in %s (TMPDIR names another folder)",
                               folder);
    enum error error =
        output_new(descriptor, "a temporary file (in TMPDIR, else /tmp)", true, ret_output);
    if (error)
        close(descriptor);
    return error;
}

void output_close(struct output *output)
{
    if (!output)
        return;
    if (output->owned)
        close(output->descriptor);
    free(output->data);
    free(output);
}

enum error output_end(struct output *output, enum error error)
{
    if (error && output->reader_gone) {
        log_debug("%s", error_message());
        error = OK;
    }
    output_close(output);
    return error;
}

/* ---- writing ------------------------------------------------------------ */

static enum error wait_for_reader(const struct output *output)
{
    do {
        struct pollfd events[2] = {{.fd = output->descriptor, .events = POLLOUT},
                                   {.fd = stop_descriptor(), .events = POLLIN}};
        int ready = poll(events, stop_descriptor() >= 0 ? 2 : 1, POLL_LIMIT_MS);
        if (ready < 0 && errno != EINTR)
            return error_set_errno(ERROR_IO, errno, "cannot wait for the reader of %s",
                                   output->name);
        if (ready > 0 && events[0].revents)
            return OK; /* an error shows in the write that follows */
    } while (!stop_requested());
    errno = ECANCELED;
    return error_set(ERROR_CANCELLED, "stopped by a signal while writing to %s", output->name);
}

static enum error write_all(struct output *output, const char *bytes, size_t length)
{
    size_t limit = output->regular ? length : PIPE_BYTES;
    while (length > 0) {
        enum error error = output->regular ? OK : wait_for_reader(output);
        if (error)
            return error;
        ssize_t written = write(output->descriptor, bytes, length < limit ? length : limit);
        if (written < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        output->reader_gone = written < 0 && errno == EPIPE;
        if (output->reader_gone)
            return error_set(ERROR_IO, "cannot write to %s: its reader is gone after %llu bytes",
                             output->name, (unsigned long long)output->flushed);
        if (written < 0)
            return error_set_errno(ERROR_IO, errno, "cannot write to %s after %llu bytes",
                                   output->name, (unsigned long long)output->flushed);
        bytes += written;
        length -= (size_t)written;
        output->flushed += (uint64_t)written;
    }
    return OK;
}

enum error output_flush(struct output *output)
{
    enum error error = write_all(output, output->data, output->length);
    output->length = 0;
    return error;
}

enum error output_reserve(struct output *output, size_t bytes, char **ret_room)
{
    if (output->length > 0 &&
        (output->length >= BLOCK_BYTES || bytes > output->capacity - output->length)) {
        enum error error = output_flush(output);
        if (error)
            return error;
    }
    if (bytes > output->capacity) {
        size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES * 2;
        char *data = realloc(output->data, capacity);
        if (!data)
            return error_set_memory(capacity, "an output buffer");
        output->data = data;
        output->capacity = capacity;
    }
    *ret_room = output->data + output->length;
    return OK;
}

void output_advance(struct output *output, size_t bytes)
{
    assert(bytes <= output->capacity - output->length);
    output->length += bytes;
}

enum error output_add(struct output *output, const void *bytes, size_t length)
{
    char *room = NULL;
    enum error error = output_reserve(output, length, &room);
    if (error)
        return error;
    if (length > 0)
        memcpy(room, bytes, length);
    output_advance(output, length);
    return OK;
}

/* ---- stdio -------------------------------------------------------------- */

/* What stdio writes to until the process ends: lets LeakSanitizer find it, which cannot in the
 * cookie. */
static struct output *volatile standard;

/* From any thread: the output itself is not changed. */
static ssize_t write_stdio(void *cookie, const char *bytes, size_t length)
{
    struct output of_this_call = *(const struct output *)cookie;
    return write_all(&of_this_call, bytes, length) ? 0 : (ssize_t)length;
}

static int close_stdio(void *cookie)
{
    output_close(cookie);
    return 0;
}

enum error output_take_stdio(void)
{
    struct output *output = NULL;
    if (standard) /* a test, which runs several programs */
        return OK;
    enum error error = output_open(STDOUT_FILENO, STANDARD_NAME, &output);
    if (error)
        return error;
    FILE *file = fopencookie(output, "w",
                             (cookie_io_functions_t){.write = write_stdio, .close = close_stdio});
    if (!file) {
        output_close(output);
        return error_set_memory(BUFSIZ, "standard output");
    }
    setvbuf(file, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = file;
    standard = output;
    return OK;
}

/* ---- going back --------------------------------------------------------- */

bool output_seekable(const struct output *output)
{
    return output->seekable;
}

enum error output_patch(struct output *output, const void *bytes, size_t length, uint64_t offset)
{
    assert(output->seekable);
    enum error error = output_flush(output);
    size_t done = 0;
    while (!error && done < length) {
        ssize_t written = pwrite(output->descriptor, (const char *)bytes + done, length - done,
                                 (off_t)(output->start + offset + done));
        if (written < 0 && errno != EINTR)
            error = error_set_errno(ERROR_IO, errno, "cannot write to %s", output->name);
        else if (written > 0)
            done += (size_t)written;
    }
    return error;
}

enum error output_copy(struct output *to, struct output *from)
{
    assert(from->seekable);
    enum error error = output_flush(from);
    for (uint64_t at = 0; !error && at < from->flushed;) {
        char *room = NULL;
        error = output_reserve(to, BLOCK_BYTES, &room);
        if (error)
            break;
        ssize_t got = pread(from->descriptor, room, BLOCK_BYTES, (off_t)(from->start + at));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_set_errno(ERROR_IO, got < 0 ? errno : EIO, "cannot read %s back",
                                   from->name);
        output_advance(to, (size_t)got);
        at += (uint64_t)got;
    }
    return error;
}
