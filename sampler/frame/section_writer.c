/* SPDX-License-Identifier: MIT */
#define XXH_STATIC_LINKING_ONLY /* the state is aligned */
#include "sampler/frame/section_writer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"

static const char section_memory[] = "a section of a frame file";

enum error section_open(struct section_writer *writer, struct frame_output *output, uint32_t kind)
{
    *writer = (struct section_writer){.output = NULL};
    void *sum = XXH3_createState();
    if (!sum)
        return error_set_memory(sizeof(XXH3_state_t), section_memory);
    XXH3_64bits_reset(sum);
    *writer = (struct section_writer){.output = output,
                                      .section = frame_output_section(output, kind),
                                      .lock = PTHREAD_MUTEX_INITIALIZER,
                                      .turn = PTHREAD_COND_INITIALIZER,
                                      .sum = sum};
    return OK;
}

void section_close(struct section_writer *writer)
{
    if (!writer->output)
        return;
    free(writer->pending);
    XXH3_freeState(writer->sum);
    pthread_mutex_destroy(&writer->lock);
    pthread_cond_destroy(&writer->turn);
    *writer = (struct section_writer){.output = NULL};
}

/* ---- pieces ------------------------------------------------------------- */

enum error section_put(struct section_writer *writer, uint64_t piece, const void *bytes,
                       size_t length)
{
    pthread_mutex_lock(&writer->lock);
    while (writer->pieces < piece)
        pthread_cond_wait(&writer->turn, &writer->lock);
    uint64_t offset = writer->section->offset + writer->bytes;
    XXH3_64bits_update(writer->sum, bytes, length);
    writer->bytes += length;
    writer->pieces++;
    pthread_cond_broadcast(&writer->turn);
    pthread_mutex_unlock(&writer->lock);
    return frame_output_put(writer->output, bytes, length, offset);
}

/* ---- one thread --------------------------------------------------------- */

static enum error flush(struct section_writer *writer)
{
    size_t length = writer->pending_bytes;
    writer->pending_bytes = 0;
    return section_put(writer, writer->pieces, writer->pending, length);
}

enum error section_room(struct section_writer *writer, size_t length, void **ret_room)
{
    assert(length <= SECTION_ROOM_BYTES);
    enum error error = OK;
    if (!writer->pending)
        writer->pending = array_new(SECTION_PIECE_BYTES, 1, section_memory);
    if (!writer->pending)
        return ERROR_MEMORY;
    if (SECTION_PIECE_BYTES - writer->pending_bytes < length)
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
        void *space;
        enum error error = section_room(writer, step, &space);
        if (error)
            return error;
        memcpy(space, (const uint8_t *)bytes + done, step);
        done += step;
    }
    return OK;
}

enum error section_finish(struct section_writer *writer)
{
    static const uint8_t zeros[FRAME_FILE_ALIGNMENT];
    uint64_t bytes = writer->section->count * writer->section->width;
    assert(writer->bytes + writer->pending_bytes == bytes);
    enum error error = section_add(writer, zeros, frame_file_round_up(bytes) - bytes);
    if (!error && writer->pending_bytes > 0)
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
    uint64_t bytes = writer.section->count * writer.section->width;
    for (uint64_t done = 0; done < bytes && !error; done = writer.bytes) {
        uint64_t left = bytes - done;
        size_t step = left < SECTION_PIECE_BYTES ? (size_t)left : SECTION_PIECE_BYTES;
        error = section_put(&writer, writer.pieces, (const uint8_t *)data + done, step);
    }
    if (!error)
        error = section_finish(&writer);
    section_close(&writer);
    return error;
}
