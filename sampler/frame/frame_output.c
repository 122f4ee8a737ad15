/* SPDX-License-Identifier: MIT */
#include "sampler/frame/frame_output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/file.h"
#include "common/stop.h"

/* Write-back runs during the sort and lags by at most this much, so that the fsync at the end,
 * which no signal interrupts, stays short. */
#define BEHIND_BYTES ((uint64_t)256 << 20)

struct frame_output {
    const char *path;           /* borrowed; NULL: in memory */
    struct file_writer *writer; /* owned; the name, and commit or removal */
    int descriptor;             /* of memory, owned; or the writer's */
    struct frame_section sections[FRAME_FILE_SECTIONS];
    uint32_t count;
    uint64_t file_bytes;
    _Atomic uint64_t written;
    atomic_bool cancelled;
};

static enum error open_place(struct frame_output *output)
{
    if (!output->path) {
        output->descriptor = memfd_create("frame", MFD_CLOEXEC);
        return output->descriptor >= 0
                   ? OK
                   : error_set_errno(ERROR_MEMORY, errno, "cannot make a frame in memory");
    }
    enum error error = file_writer_open(output->path, &output->writer);
    if (!error)
        output->descriptor = file_writer_descriptor(output->writer);
    return error;
}

enum error frame_output_new(const char *path, struct frame_output **ret_output)
{
    struct frame_output *output = array_new(1, sizeof(*output), "a frame file");
    if (!output)
        return ERROR_MEMORY;
    output->path = path;
    output->descriptor = -1;
    output->file_bytes = FRAME_FILE_HEAD_BYTES;
    enum error error = open_place(output);
    if (error) {
        frame_output_free(output);
        return error;
    }
    *ret_output = output;
    return OK;
}

void frame_output_free(struct frame_output *output)
{
    if (!output)
        return;
    if (!output->writer && output->descriptor >= 0)
        close(output->descriptor);
    file_writer_close(output->writer);
    free(output);
}

static const char *shown_path(const struct frame_output *output)
{
    return output->path ? output->path : "a frame in memory";
}

/* ---- the plan ----------------------------------------------------------- */

void frame_output_plan(struct frame_output *output, uint32_t kind, uint64_t count, unsigned width,
                       uint64_t first)
{
    assert(output->count < FRAME_FILE_SECTIONS);
    output->sections[output->count++] = (struct frame_section){
        .kind = kind,
        .width = width,
        .offset = output->file_bytes,
        .count = count,
        .first = first,
    };
    output->file_bytes += frame_file_round_up(count * width);
}

/* If the file system cannot reserve space, the file grows while it is written. */
enum error frame_output_reserve(struct frame_output *output)
{
    int failed;
    do
        failed = fallocate(output->descriptor, 0, 0, (off_t)output->file_bytes) ? errno : 0;
    while (failed == EINTR && !stop_requested());
    if (failed == EOPNOTSUPP || failed == ENOSYS || failed == EINTR)
        failed = ftruncate(output->descriptor, (off_t)output->file_bytes) ? errno : 0;
    if (failed)
        return error_set_errno(output->path ? ERROR_IO : ERROR_MEMORY, failed,
                               "cannot get %llu bytes for %s",
                               (unsigned long long)output->file_bytes, shown_path(output));
    return OK;
}

uint64_t frame_output_bytes(const struct frame_output *output)
{
    return output->file_bytes;
}

uint64_t frame_output_written(const struct frame_output *output)
{
    return atomic_load_explicit(&output->written, memory_order_relaxed);
}

void frame_output_cancel(struct frame_output *output)
{
    atomic_store_explicit(&output->cancelled, true, memory_order_relaxed);
}

/* ---- sections ----------------------------------------------------------- */

struct frame_section *frame_output_section(struct frame_output *output, uint32_t kind)
{
    for (uint32_t i = 0; i < output->count; i++) {
        if (output->sections[i].kind == kind)
            return &output->sections[i];
    }
    assert(!"a section that was planned");
    return NULL;
}

static enum error write_at(const struct frame_output *output, const void *bytes, size_t length,
                           uint64_t offset)
{
    for (size_t done = 0; done < length;) {
        ssize_t put = pwrite(output->descriptor, (const uint8_t *)bytes + done, length - done,
                             (off_t)(offset + done));
        if (put < 0 && errno != EINTR)
            return error_set_errno(ERROR_IO, errno, "cannot write %zu bytes at byte %llu of %s",
                                   length, (unsigned long long)offset, shown_path(output));
        done += put > 0 ? (size_t)put : 0;
    }
    return OK;
}

/* A throttle. A failed write-back is reported once per descriptor, by whichever call waits for it
 * first: here, it does not recur at the fsync. */
static enum error push_to_disk(const struct frame_output *output, size_t length, uint64_t offset)
{
    if (!output->path || length == 0)
        return OK;
    (void)sync_file_range(output->descriptor, (off_t)offset, (off_t)length, SYNC_FILE_RANGE_WRITE);
    if (offset <= BEHIND_BYTES ||
        sync_file_range(output->descriptor, (off_t)(offset - BEHIND_BYTES), (off_t)length,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                            SYNC_FILE_RANGE_WAIT_AFTER) == 0 ||
        errno == ENOSYS || errno == EINVAL || errno == ESPIPE) /* it cannot */
        return OK;
    return error_set_errno(ERROR_IO, errno, "cannot write %s", output->path);
}

enum error frame_output_put(struct frame_output *output, const void *bytes, size_t length,
                            uint64_t offset)
{
    if (stop_requested() || atomic_load_explicit(&output->cancelled, memory_order_relaxed))
        return error_set(ERROR_CANCELLED, "stopped while the frame was built");
    enum error error = write_at(output, bytes, length, offset);
    if (error)
        return error;
    atomic_fetch_add_explicit(&output->written, length, memory_order_relaxed);
    return push_to_disk(output, length, offset);
}

/* ---- the head ----------------------------------------------------------- */

static enum error write_head(struct frame_output *output, int64_t units,
                             const struct frame_digest *digest)
{
    uint8_t head[FRAME_FILE_HEAD_BYTES] = {0};
    struct frame_header header = {
        .version = FRAME_FILE_VERSION,
        .sections = output->count,
        .file_bytes = output->file_bytes,
        .units = (uint64_t)units,
    };
    memcpy(header.magic, FRAME_FILE_MAGIC, sizeof(header.magic));
    memcpy(header.digest, digest->bytes, sizeof(header.digest));
    memcpy(head, &header, sizeof(header));
    memcpy(head + sizeof(header), output->sections, sizeof(output->sections));
    header.checksum = XXH3_64bits(head, sizeof(head));
    memcpy(head, &header, sizeof(header));
    return write_at(output, head, sizeof(head), 0);
}

enum error frame_output_commit(struct frame_output *output, int64_t units,
                               const struct frame_digest *digest)
{
    assert(output->path);
    enum error error = write_head(output, units, digest);
    return error ? error : file_writer_commit(output->writer);
}

enum error frame_output_map(struct frame_output *output, int64_t units,
                            const struct frame_digest *digest, struct mapped_file *ret_file)
{
    assert(!output->path);
    enum error error = write_head(output, units, digest);
    if (error)
        return error;
    void *bytes = mmap(NULL, output->file_bytes, PROT_READ, MAP_SHARED, output->descriptor, 0);
    if (bytes == MAP_FAILED)
        return error_set_errno(ERROR_MEMORY, errno, "cannot map %llu bytes of a frame",
                               (unsigned long long)output->file_bytes);
    *ret_file = (struct mapped_file){.bytes = bytes, .size = output->file_bytes};
    return OK;
}
