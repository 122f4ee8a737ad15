#define XXH_STATIC_LINKING_ONLY /* the size of the state */
#include "sampler/frame_output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/file.h"
#include "common/stop.h"

#define TRIES 8
#define PENDING_BYTES ((size_t)1 << 20)
/* The disk is kept busy while we compute, and is never further behind than that: the fsync at the
 * end, which no signal interrupts, stays short. */
#define BEHIND_BYTES ((uint64_t)256 << 20)

struct frame_output {
    const char *path;           /* borrowed; NULL: in memory */
    struct file_writer *writer; /* owned; the name, and what becomes of it */
    int descriptor;             /* of its temporary file, or of memory */
    struct frame_section sections[FRAME_FILE_SECTIONS];
    uint32_t count;
    uint64_t file_bytes;
    _Atomic uint64_t written;
    atomic_bool cancelled;
};

/* Between its creation and its lock another build may take the file for one that was left behind
 * and remove it: then descriptor stays -1, and another one is tried unless it is the `last`. */
static enum error open_locked(struct frame_output *output, bool last)
{
    struct stat status;
    file_writer_close(output->writer);
    output->writer = NULL;
    enum error error = file_writer_open(output->path, &output->writer);
    if (error)
        return error;
    const char *temporary = file_writer_temporary_path(output->writer);
    int descriptor = open(temporary, O_RDWR | O_CLOEXEC);
    if (descriptor < 0 && (errno != ENOENT || last))
        return error_set_errno(ERROR_IO, errno, "cannot open %s", temporary);
    if (descriptor < 0)
        return OK;
    (void)flock(descriptor, LOCK_EX | LOCK_NB); /* no locks there: no clearing up either */
    if (fstat(descriptor, &status) == 0 && status.st_nlink == 0 && !last)
        close(descriptor);
    else
        output->descriptor = descriptor;
    return OK;
}

static enum error open_place(struct frame_output *output)
{
    if (!output->path) {
        output->descriptor = memfd_create("frame", MFD_CLOEXEC);
        return output->descriptor >= 0
                   ? OK
                   : error_set_errno(ERROR_MEMORY, errno, "cannot make a frame in memory");
    }
    enum error error = file_remove_leftovers(output->path);
    for (int tries = 0; !error && output->descriptor < 0; tries++)
        error = open_locked(output, tries == TRIES - 1);
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
    if (output->descriptor >= 0)
        close(output->descriptor);
    file_writer_close(output->writer);
    free(output);
}

static const char *shown_path(const struct frame_output *output)
{
    return output->path ? output->path : "a frame in memory";
}

/* ---- the plan ---------------------------------------------------------------------------------
 */
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

/* File systems that cannot reserve are filled as it goes. */
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

/* ---- sections ---------------------------------------------------------------------------------
 */
static struct frame_section *find_section(struct frame_output *output, uint32_t kind)
{
    for (uint32_t i = 0; i < output->count; i++) {
        if (output->sections[i].kind == kind)
            return &output->sections[i];
    }
    assert(!"a section that was planned");
    return NULL;
}

enum error section_open(struct section_writer *writer, struct frame_output *output, uint32_t kind)
{
    *writer = (struct section_writer){.output = output, .section = find_section(output, kind)};
    writer->pending = array_new(PENDING_BYTES, 1, "a section of a frame file");
    writer->sum = XXH3_createState();
    if (!writer->pending || !writer->sum) {
        section_close(writer);
        return error_set_memory(PENDING_BYTES, "a section of a frame file");
    }
    XXH3_64bits_reset(writer->sum);
    return OK;
}

void section_close(struct section_writer *writer)
{
    free(writer->pending);
    XXH3_freeState(writer->sum);
    *writer = (struct section_writer){.output = NULL};
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

/* A hint and a brake; what fails here fails at the fsync again. */
static void push_to_disk(const struct section_writer *writer, uint64_t begin, uint64_t bytes)
{
    int descriptor = writer->output->descriptor;
    if (!writer->output->path)
        return;
    (void)sync_file_range(descriptor, (off_t)begin, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
    if (writer->done > BEHIND_BYTES)
        (void)sync_file_range(descriptor, (off_t)(begin - BEHIND_BYTES), (off_t)bytes,
                              SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                  SYNC_FILE_RANGE_WAIT_AFTER);
}

static enum error flush(struct section_writer *writer)
{
    uint64_t begin = writer->section->offset + writer->done;
    size_t bytes = writer->pending_bytes;
    if (stop_requested() || atomic_load_explicit(&writer->output->cancelled, memory_order_relaxed))
        return error_set(ERROR_CANCELLED, "stopped while the frame was built");
    XXH3_64bits_update(writer->sum, writer->pending, bytes);
    enum error error = write_at(writer->output, writer->pending, bytes, begin);
    if (error)
        return error;
    writer->done += bytes;
    writer->pending_bytes = 0;
    atomic_fetch_add_explicit(&writer->output->written, bytes, memory_order_relaxed);
    push_to_disk(writer, begin, bytes);
    return OK;
}

enum error section_room(struct section_writer *writer, size_t length, void **ret_room)
{
    assert(length <= SECTION_ROOM_BYTES);
    enum error error = OK;
    if (PENDING_BYTES - writer->pending_bytes < length)
        error = flush(writer);
    if (error)
        return error;
    *ret_room = writer->pending + writer->pending_bytes;
    writer->pending_bytes += length;
    return OK;
}

enum error section_add(struct section_writer *writer, const void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        size_t step = length - done < SECTION_ROOM_BYTES ? length - done : SECTION_ROOM_BYTES;
        void *room;
        enum error error = section_room(writer, step, &room);
        if (error)
            return error;
        memcpy(room, (const uint8_t *)bytes + done, step);
        done += step;
    }
    return OK;
}

enum error section_finish(struct section_writer *writer)
{
    static const uint8_t zeros[FRAME_FILE_ALIGNMENT];
    uint64_t bytes = writer->section->count * writer->section->width;
    assert(writer->done + writer->pending_bytes == bytes);
    enum error error = section_add(writer, zeros, frame_file_round_up(bytes) - bytes);
    if (!error)
        error = flush(writer);
    if (!error)
        writer->section->checksum = XXH3_64bits_digest(writer->sum);
    return error;
}

enum error section_write(struct frame_output *output, uint32_t kind, const void *data)
{
    struct section_writer writer;
    enum error error = section_open(&writer, output, kind);
    if (error)
        return error;
    error = section_add(&writer, data, writer.section->count * writer.section->width);
    if (!error)
        error = section_finish(&writer);
    section_close(&writer);
    return error;
}

/* ---- the head ---------------------------------------------------------------------------------
 */
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
