/* frame_write(): sections one behind the other, then the head over the room kept for it. */
#define XXH_STATIC_LINKING_ONLY /* the state may live on the stack */
#include <string.h>
#include <xxhash.h>

#include "common/file.h"
#include "common/stop.h"
#include "sampler/frame_private.h"

#define STEP_BYTES (4 << 20)

struct frame_output {
    struct file_writer *writer; /* owned */
    struct frame_section sections[FRAME_FILE_SECTIONS];
    uint32_t count;
};

static enum error add_bytes(struct frame_output *output, const void *data, size_t bytes)
{
    enum error error = OK;
    for (size_t done = 0; done < bytes && error == OK; done += STEP_BYTES) {
        size_t step = bytes - done < STEP_BYTES ? bytes - done : STEP_BYTES;
        error = stop_requested()
                    ? error_set(ERROR_CANCELLED, "stopped while the frame file was written")
                    : file_writer_add(output->writer, (const uint8_t *)data + done, step);
    }
    return error;
}

static uint64_t checksum_of(const void *data, size_t bytes, const uint8_t *zeros, size_t zero_bytes)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, data, bytes);
    XXH3_64bits_update(&state, zeros, zero_bytes);
    return XXH3_64bits_digest(&state);
}

static enum error add_section(struct frame_output *output, uint32_t kind, const void *data,
                              uint64_t count, unsigned width, uint64_t first)
{
    static const uint8_t zeros[FRAME_FILE_ALIGNMENT];
    size_t bytes = count * width;
    size_t zero_bytes = frame_file_round_up(bytes) - bytes;
    output->sections[output->count++] = (struct frame_section){
        .kind = kind,
        .width = width,
        .offset = file_writer_length(output->writer),
        .count = count,
        .first = first,
        .checksum = checksum_of(data, bytes, zeros, zero_bytes),
    };
    enum error error = add_bytes(output, data, bytes);
    return error ? error : file_writer_add(output->writer, zeros, zero_bytes);
}

static enum error add_packed(struct frame_output *output, uint32_t kind,
                             const struct packed *packed, uint64_t first)
{
    return add_section(output, kind, packed->data, packed->count, packed->width, first);
}

static enum error add_ids(struct frame_output *output, const struct id_column *ids)
{
    enum error error;
    if (ids->is_consecutive)
        return add_section(output, FRAME_IDS, "", 0, 8, (uint64_t)ids->first);
    error = add_packed(output, FRAME_IDS, &ids->values, 0);
    if (!error && !ids->is_ascending)
        error = add_packed(output, FRAME_IDS_BY_ID, &ids->by_id, 0);
    return error;
}

/* `to_kind` is 0 for labels, FRAME_KINDS_OF_GROUPS for groups. */
static enum error add_partition(struct frame_output *output, uint32_t to_kind,
                                const struct partition *partition)
{
    const struct names *names = &partition->names;
    enum error error = add_section(output, FRAME_LABEL_NAMES + to_kind, names->texts,
                                   names->text_bytes, 1, names->are_integers);
    if (!error)
        error = add_packed(output, FRAME_LABEL_OFFSETS + to_kind, &names->offsets, 0);
    if (!error && partition->is_cyclic)
        return add_section(output, FRAME_LABEL_CODES + to_kind, "", 0, 1, partition->shift);
    if (!error)
        error = add_packed(output, FRAME_LABEL_CODES + to_kind, &partition->codes, 0);
    if (!error)
        error = add_packed(output, FRAME_LABEL_ROWS + to_kind, &partition->rows, 0);
    if (!error)
        error = add_packed(output, FRAME_LABEL_STARTS + to_kind, &partition->starts, 0);
    return error;
}

static enum error add_all(struct frame_output *output, const struct frame *frame)
{
    enum error error = add_ids(output, &frame->ids);
    if (!error && frame->has_labels)
        error = add_partition(output, 0, &frame->labels);
    if (!error && frame->weights)
        error = add_section(output, FRAME_WEIGHTS, frame->weights, (uint64_t)frame->units,
                            sizeof(double), 0);
    if (!error && frame->has_groups)
        error = add_partition(output, FRAME_KINDS_OF_GROUPS, &frame->groups);
    return error;
}

static enum error put_head(struct frame_output *output, const struct frame *frame)
{
    uint8_t head[FRAME_FILE_HEAD_BYTES] = {0};
    struct frame_header header = {
        .version = FRAME_FILE_VERSION,
        .sections = output->count,
        .file_bytes = file_writer_length(output->writer),
        .units = (uint64_t)frame->units,
    };
    memcpy(header.magic, FRAME_FILE_MAGIC, sizeof(header.magic));
    memcpy(header.digest, frame->digest.bytes, sizeof(header.digest));
    memcpy(head, &header, sizeof(header));
    memcpy(head + sizeof(header), output->sections, sizeof(output->sections));
    header.checksum = XXH3_64bits(head, sizeof(head));
    memcpy(head, &header, sizeof(header));
    return file_writer_patch(output->writer, head, sizeof(head), 0);
}

enum error frame_write(const struct frame *frame, const char *path)
{
    struct frame_output output = {.count = 0};
    enum error error = file_writer_open(path, &output.writer);
    if (error)
        return error;
    static const uint8_t room[FRAME_FILE_HEAD_BYTES];
    error = file_writer_add(output.writer, room, sizeof(room));
    if (!error)
        error = add_all(&output, frame);
    if (!error)
        error = put_head(&output, frame);
    if (!error)
        error = file_writer_commit(output.writer);
    file_writer_close(output.writer);
    return error;
}
