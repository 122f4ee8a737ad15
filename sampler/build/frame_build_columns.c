/* SPDX-License-Identifier: MIT */
/* frame_build_columns(): one pass over each column, for its section and the digest at once. */
#include "sampler/build/frame_build_private.h"
#include "sampler/build/spool_cursor.h"
#include "sampler/frame/frame_digester.h"
#include "sampler/frame/section_writer.h"

/* The cursor's next ids; *ret_count 0 at the end. Those after the rule are new to the digest. */
static enum error write_some_ids(struct spool_cursor *cursor, struct section_writer *writer,
                                 struct frame_digester *digester, size_t *ret_count)
{
    const uint64_t *wide = NULL;
    const uint32_t *narrow = NULL;
    unsigned width = writer->section->width;
    bool is_new = cursor->row >= cursor->spool->rule_rows;
    enum error error = width == 4 ? spool_cursor_next32(cursor, &narrow, ret_count)
                                  : spool_cursor_next(cursor, &wide, ret_count);
    if (error)
        return error;
    if (is_new && width == 4)
        frame_digester_ids32(digester, narrow, *ret_count);
    else if (is_new)
        frame_digester_ids(digester, wide, *ret_count);
    return section_add(writer, width == 4 ? (const void *)narrow : wide, *ret_count * width);
}

static enum error write_ids(const struct spool *ids, struct section_writer *writer,
                            struct frame_digester *digester)
{
    struct spool_cursor cursor;
    size_t count = 1;
    enum error error = spool_cursor_open(&cursor, ids);
    if (ids->rule_rows > 0)
        frame_digester_id_run(digester, ids->rule_first, ids->rule_rows);
    while (!error && count > 0 && !spool_is_ruled(ids))
        error = write_some_ids(&cursor, writer, digester, &count);
    frame_digester_end_ids(digester);
    spool_cursor_close(&cursor);
    return error;
}

/* Writes final codes straight into the section's buffer. */
static void renumber(void *space, unsigned width, const uint32_t *codes, size_t count,
                     const uint32_t *ranks)
{
    for (size_t i = 0; i < count && width == 1; i++)
        ((uint8_t *)space)[i] = (uint8_t)ranks[codes[i]];
    for (size_t i = 0; i < count && width == 2; i++)
        ((uint16_t *)space)[i] = (uint16_t)ranks[codes[i]];
    for (size_t i = 0; i < count && width == 4; i++)
        ((uint32_t *)space)[i] = ranks[codes[i]];
}

static enum error write_codes(const struct class_column *column, struct section_writer *writer,
                              struct frame_digester *digester)
{
    struct spool_cursor cursor;
    unsigned width = writer->section->width;
    const uint32_t *codes;
    size_t count = 0;
    enum error error = spool_cursor_open(&cursor, &column->codes);
    while (!error) {
        void *space;
        error = spool_cursor_next32(&cursor, &codes, &count);
        if (error || count == 0)
            break;
        error = section_room(writer, count * width, &space);
        if (error)
            break;
        renumber(space, width, codes, count, column->ranks);
        frame_digester_bytes(digester, space, count * width);
    }
    spool_cursor_close(&cursor);
    return error;
}

static enum error write_weights(const struct spool *weights, struct section_writer *writer,
                                struct frame_digester *digester)
{
    struct spool_cursor cursor;
    const uint64_t *values;
    size_t count = 0;
    enum error error = spool_cursor_open(&cursor, weights);
    while (!error) {
        error = spool_cursor_next(&cursor, &values, &count);
        if (error || count == 0)
            break;
        error = section_add(writer, values, count * sizeof(*values));
        frame_digester_bytes(digester, values, count * sizeof(*values));
    }
    spool_cursor_close(&cursor);
    return error;
}

static enum error write_id_section(struct frame_build *build, struct frame_digester *digester)
{
    struct section_writer writer;
    enum error error = section_open(&writer, build->output, FRAME_IDS);
    if (!error)
        error = write_ids(&build->ingest.ids, &writer, digester);
    if (!error)
        error = section_finish(&writer);
    section_close(&writer);
    return error;
}

static enum error write_class_sections(struct frame_build *build, uint32_t to_kind,
                                       const struct class_column *column,
                                       struct frame_digester *digester)
{
    struct frame_output *output = build->output;
    const struct dictionary *dictionary = &column->dictionary;
    struct section_writer writer;
    frame_digester_categories(digester, dictionary, column->is_cyclic, column->shift);
    enum error error = section_write(output, FRAME_LABEL_NAMES + to_kind, dictionary->texts);
    if (!error)
        error = section_write(output, FRAME_LABEL_OFFSETS + to_kind, dictionary->offsets.data);
    if (error)
        return error;
    error = section_open(&writer, output, FRAME_LABEL_CODES + to_kind);
    if (!error && !column->is_cyclic)
        error = write_codes(column, &writer, digester);
    if (!error)
        error = section_finish(&writer);
    section_close(&writer);
    return error;
}

static enum error write_weight_section(struct frame_build *build, struct frame_digester *digester)
{
    struct section_writer writer;
    enum error error = section_open(&writer, build->output, FRAME_WEIGHTS);
    if (!error)
        error = write_weights(&build->ingest.weights, &writer, digester);
    if (!error)
        error = section_finish(&writer);
    section_close(&writer);
    return error;
}

enum error frame_build_columns(struct frame_build *build)
{
    const struct frame_ingest *ingest = &build->ingest;
    struct frame_digester digester;
    enum error error = frame_digester_init(&digester, (int64_t)ingest->ids.rows);
    if (error)
        return error;
    error = write_id_section(build, &digester);
    if (!ingest->has_labels)
        frame_digester_no_categories(&digester);
    else if (!error)
        error = write_class_sections(build, 0, &ingest->labels, &digester);
    frame_digester_weights(&digester, ingest->has_weights);
    if (!error && ingest->has_weights)
        error = write_weight_section(build, &digester);
    if (!ingest->has_groups)
        frame_digester_no_categories(&digester);
    else if (!error)
        error = write_class_sections(build, FRAME_KINDS_OF_GROUPS, &ingest->groups, &digester);
    if (!error)
        frame_digester_finish(&digester, &build->digest);
    frame_digester_release(&digester);
    return error;
}
