/* SPDX-License-Identifier: MIT */
/* frame_build_rows(): the sorted sections, one after another, each by a team. */
#include "sampler/build/class_rows.h"
#include "sampler/build/frame_build_private.h"

static enum error write_by_id(struct frame_build *build)
{
    struct frame_ingest *ingest = &build->ingest;
    struct section_writer writer;
    enum error error = section_open(&writer, build->output, FRAME_IDS_BY_ID);
    if (!error)
        error =
            id_rows_write(&ingest->ids, ingest->smallest_id, &build->arena, &writer, &build->twice);
    if (error == ERROR_CONFLICT)
        error = frame_ingest_refuse_twice(ingest, &build->twice);
    if (!error)
        error = section_finish(&writer);
    section_close(&writer);
    return error;
}

static enum error write_starts(struct frame_output *output, uint32_t to_kind,
                               const struct class_column *column)
{
    struct packed starts = {.width = 1};
    uint32_t count = column->dictionary.count;
    enum error error =
        packed_init(&starts, (size_t)count + 1, column->codes.rows, "the units' labels");
    if (error)
        return error;
    for (size_t category = 0; category <= count; category++)
        packed_set(&starts, category, column->starts[category]);
    error = section_write(output, FRAME_LABEL_STARTS + to_kind, starts.data);
    packed_release(&starts);
    return error;
}

static enum error write_by_class(struct frame_build *build, uint32_t to_kind,
                                 const struct class_column *column)
{
    struct section_writer writer;
    if (column->is_cyclic)
        return OK;
    enum error error = section_open(&writer, build->output, FRAME_LABEL_ROWS + to_kind);
    if (!error)
        error = class_rows_write(&column->codes, column->ranks, column->starts,
                                 column->dictionary.count, &build->arena, &writer);
    if (!error)
        error = section_finish(&writer);
    section_close(&writer);
    return error ? error : write_starts(build->output, to_kind, column);
}

enum error frame_build_rows(struct frame_build *build)
{
    const struct frame_ingest *ingest = &build->ingest;
    enum error error = ingest->is_ascending ? OK : write_by_id(build);
    if (!error && ingest->has_labels)
        error = write_by_class(build, 0, &ingest->labels);
    if (!error && ingest->has_groups)
        error = write_by_class(build, FRAME_KINDS_OF_GROUPS, &ingest->groups);
    return error;
}
