/* The digest of a frame that is in memory or mapped (frame_digester.h says of what). */
#include "sampler/frame_digester.h"
#include "sampler/frame_private.h"

#define STEP 4096

static void add_ids(struct frame_digester *digester, const struct id_column *ids)
{
    int64_t step[STEP];
    if (ids->is_consecutive)
        frame_digester_id_run(digester, (uint64_t)ids->first, (uint64_t)ids->count);
    for (int64_t row = 0; row < ids->count && !ids->is_consecutive;) {
        size_t count = ids->count - row < STEP ? (size_t)(ids->count - row) : STEP;
        id_column_read(ids, row, count, step);
        frame_digester_ids(digester, (const uint64_t *)step, count);
        row += (int64_t)count;
    }
    frame_digester_end_ids(digester);
}

/* The codes in the width of the canonical form, which the frame may keep in a wider one. */
static enum error add_codes(struct frame_digester *digester, const struct partition *partition)
{
    size_t units = (size_t)partition->units;
    uint32_t classes[STEP];
    struct packed step = {.width = 1};
    enum error error = packed_init(&step, STEP, partition->count - 1, "a digest");
    if (error)
        return error;
    for (size_t row = 0; row < units;) {
        size_t count = units - row < STEP ? units - row : STEP;
        partition_read_classes(partition, (int64_t)row, count, classes);
        for (size_t i = 0; i < count; i++)
            packed_set(&step, i, classes[i]);
        frame_digester_bytes(digester, step.data, count * step.width);
        row += count;
    }
    packed_release(&step);
    return OK;
}

static enum error add_partition(struct frame_digester *digester, const struct partition *partition,
                                bool is_there)
{
    if (!is_there) {
        frame_digester_no_classes(digester);
        return OK;
    }
    frame_digester_classes(digester, &partition->names, partition->is_cyclic, partition->shift);
    return partition->is_cyclic ? OK : add_codes(digester, partition);
}

enum error frame_digest_compute(struct frame *frame)
{
    struct frame_digester digester;
    enum error error = frame_digester_init(&digester, frame->units);
    if (error)
        return error;
    add_ids(&digester, &frame->ids);
    error = add_partition(&digester, &frame->labels, frame->has_labels);
    frame_digester_weights(&digester, frame->weights != NULL);
    if (frame->weights)
        frame_digester_bytes(&digester, frame->weights, (size_t)frame->units * sizeof(double));
    if (!error)
        error = add_partition(&digester, &frame->groups, frame->has_groups);
    if (!error)
        frame_digester_finish(&digester, &frame->digest);
    frame_digester_release(&digester);
    return error;
}
