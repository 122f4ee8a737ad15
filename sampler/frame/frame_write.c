/* SPDX-License-Identifier: MIT */
/* frame_write(): writes a frame, in memory or mapped, to a file. */
#include <assert.h>

#include "sampler/frame/frame_private.h"
#include "sampler/frame/section_writer.h"

/* A section and the location of its bytes. */
struct section_source {
    uint32_t kind;
    const void *data;
};

struct sources {
    struct frame_output *output; /* owned */
    struct section_source list[FRAME_FILE_SECTIONS];
    size_t count;
};

static void add(struct sources *sources, uint32_t kind, const void *data, uint64_t count,
                unsigned width, uint64_t first)
{
    frame_output_plan(sources->output, kind, count, width, first);
    sources->list[sources->count++] = (struct section_source){.kind = kind, .data = data};
}

static void add_packed(struct sources *sources, uint32_t kind, const struct packed *packed)
{
    add(sources, kind, packed->data, packed->count, packed->width, 0);
}

static void add_ids(struct sources *sources, const struct id_column *ids)
{
    if (ids->is_consecutive) {
        add(sources, FRAME_IDS, "", 0, 8, (uint64_t)ids->first);
        return;
    }
    add_packed(sources, FRAME_IDS, &ids->values);
    if (!ids->is_ascending)
        add_packed(sources, FRAME_IDS_BY_ID, &ids->by_id);
}

/* `to_kind` is 0 for labels, FRAME_KINDS_OF_GROUPS for groups. */
static void add_partition(struct sources *sources, uint32_t to_kind,
                          const struct partition *partition)
{
    const struct dictionary *dictionary = &partition->dictionary;
    add(sources, FRAME_LABEL_NAMES + to_kind, dictionary->texts, dictionary->text_bytes, 1,
        dictionary->are_integers);
    add_packed(sources, FRAME_LABEL_OFFSETS + to_kind, &dictionary->offsets);
    if (partition_is_cyclic(partition)) {
        add(sources, FRAME_LABEL_CODES + to_kind, "", 0, 1, partition->shift);
        return;
    }
    add_packed(sources, FRAME_LABEL_CODES + to_kind, &partition->codes);
    add_packed(sources, FRAME_LABEL_ROWS + to_kind, &partition->rows);
    add_packed(sources, FRAME_LABEL_STARTS + to_kind, &partition->starts);
}

static enum error write_all(struct sources *sources, const struct frame *frame)
{
    add_ids(sources, &frame->ids);
    if (frame->has_labels)
        add_partition(sources, 0, &frame->labels);
    if (frame->weights)
        add(sources, FRAME_WEIGHTS, frame->weights, (uint64_t)frame->units, sizeof(double), 0);
    if (frame->has_groups)
        add_partition(sources, FRAME_KINDS_OF_GROUPS, &frame->groups);
    enum error error = frame_output_reserve(sources->output);
    for (size_t i = 0; i < sources->count && !error; i++)
        error = section_write(sources->output, sources->list[i].kind, sources->list[i].data);
    return error ? error : frame_output_commit(sources->output, frame->units, &frame->digest);
}

enum error frame_write(const struct frame *frame, const char *path)
{
    struct sources sources = {.count = 0};
    assert(!frame->whole);
    enum error error = frame_output_new(path, &sources.output);
    if (!error)
        error = write_all(&sources, frame);
    frame_output_free(sources.output);
    return error;
}
