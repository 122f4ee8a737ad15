/* SPDX-License-Identifier: MIT */
/* frame_open(): a frame over a mapped file. Only checked parts of the file are trusted. */
#include <string.h>

#include "common/array.h"
#include "sampler/frame/frame_private.h"

static enum error damaged(const struct mapped_file *file, const char *what)
{
    return error_set(ERROR_INPUT, "%s is damaged: %s; build it again",
                     file->path ? file->path : "a frame in memory", what);
}

/* A section as an array of `count` elements; damaged if absent or of another count. */
static enum error view(const struct mapped_file *file, uint32_t kind, uint64_t count,
                       const char *what, struct packed *ret_view)
{
    const struct frame_section *section = mapped_file_section(file, kind);
    if (!section || section->count != count)
        return damaged(file, what);
    *ret_view = (struct packed){
        .data = (void *)(file->bytes + section->offset),
        .count = section->count,
        .width = section->width,
    };
    return OK;
}

static bool are_ids(const struct packed *values)
{
    for (size_t row = 0; values->width == sizeof(int64_t) && row < values->count; row++) {
        if (packed_get(values, row) > INT64_MAX)
            return false;
    }
    return true;
}

/* Files that were not read completely may have a bit set where ids have their sign: id_column_get()
 * masks it. */
static enum error open_ids(struct frame *frame)
{
    const struct mapped_file *file = &frame->file;
    const struct frame_section *section = mapped_file_section(file, FRAME_IDS);
    struct id_column *ids = &frame->ids;
    enum error error = OK;
    ids->count = frame->units;
    ids->is_consecutive = section && section->count == 0;
    ids->is_ascending = !mapped_file_section(file, FRAME_IDS_BY_ID);
    if (ids->is_consecutive) {
        if (section->first > (uint64_t)(INT64_MAX - (frame->units - 1)))
            return damaged(file, "its ids are out of range");
        ids->first = (int64_t)section->first;
        ids->last = ids->first + (frame->units - 1);
        return OK;
    }
    error =
        view(file, FRAME_IDS, (uint64_t)frame->units, "its ids are not one a unit", &ids->values);
    if (!error && !ids->is_ascending)
        error = view(file, FRAME_IDS_BY_ID, (uint64_t)frame->units,
                     "its rows by id are not one a unit", &ids->by_id);
    if (!error && file->size <= FRAME_FILE_CHECKED_BYTES && !are_ids(&ids->values))
        error = damaged(file, "its ids are out of range");
    if (error)
        return error;
    ids->first = id_column_get(ids, 0);
    ids->last = id_column_get(ids, frame->units - 1);
    return OK;
}

static enum error open_dictionary(const struct mapped_file *file, uint32_t to_kind,
                                  struct dictionary *dictionary)
{
    const struct frame_section *texts = mapped_file_section(file, FRAME_LABEL_NAMES + to_kind);
    const struct frame_section *offsets = mapped_file_section(file, FRAME_LABEL_OFFSETS + to_kind);
    if (!texts || !offsets || texts->width != 1 || offsets->count < 2 ||
        offsets->count - 1 > DICTIONARY_LIMIT)
        return damaged(file, "its labels have no names");
    enum error error = mapped_file_check(file, texts);
    if (!error)
        error = mapped_file_check(file, offsets);
    if (!error)
        error = view(file, FRAME_LABEL_OFFSETS + to_kind, offsets->count,
                     "its labels have no names", &dictionary->offsets);
    if (error)
        return error;
    dictionary->is_borrowed = true;
    dictionary->texts = (char *)file->bytes + texts->offset;
    dictionary->text_bytes = texts->count;
    dictionary->are_integers = texts->first == 1;
    dictionary->count = (uint32_t)offsets->count - 1;
    return dictionary_is_sound(dictionary) ? OK : damaged(file, "its labels' names are not valid");
}

/* Starts from 0 to N, no category empty. */
static bool are_starts_sound(const struct partition *partition)
{
    const struct packed *starts = &partition->starts;
    if (packed_get(starts, 0) != 0 ||
        packed_get(starts, partition->count) != (uint64_t)partition->units)
        return false;
    for (size_t category = 0; category < partition->count; category++) {
        if (packed_get(starts, category) >= packed_get(starts, category + 1))
            return false;
    }
    return true;
}

static enum error open_stored(const struct mapped_file *file, uint32_t to_kind,
                              struct partition *partition)
{
    uint64_t units = (uint64_t)partition->units;
    enum error error = view(file, FRAME_LABEL_CODES + to_kind, units,
                            "its labels are not one a unit", &partition->codes);
    if (!error)
        error = view(file, FRAME_LABEL_ROWS + to_kind, units,
                     "its rows by label are not one a unit", &partition->rows);
    if (!error)
        error = view(file, FRAME_LABEL_STARTS + to_kind, (uint64_t)partition->count + 1,
                     "its strata have no starts", &partition->starts);
    if (!error)
        error = mapped_file_check(file, mapped_file_section(file, FRAME_LABEL_STARTS + to_kind));
    if (!error && !are_starts_sound(partition))
        error = damaged(file, "the starts of its strata do not ascend");
    return error;
}

static enum error open_partition(const struct mapped_file *file, uint32_t to_kind, int64_t units,
                                 struct partition *partition)
{
    *partition = (struct partition){.ops = &partition_stored, .units = units};
    enum error error = open_dictionary(file, to_kind, &partition->dictionary);
    if (error)
        return error;
    partition->count = partition->dictionary.count;
    const struct frame_section *codes = mapped_file_section(file, FRAME_LABEL_CODES + to_kind);
    if (!codes || codes->count > 0)
        return open_stored(file, to_kind, partition);
    if (codes->first >= partition->count || partition->count > (uint64_t)units)
        return damaged(file, "its labels do not repeat as they say");
    partition->ops = &partition_cyclic;
    partition->shift = (uint32_t)codes->first;
    return OK;
}

static enum error open_weights(struct frame *frame)
{
    const struct frame_section *section = mapped_file_section(&frame->file, FRAME_WEIGHTS);
    if (!section)
        return OK;
    if (section->count != (uint64_t)frame->units || section->width != sizeof(double))
        return damaged(&frame->file, "its weights are not one a unit");
    frame->weights = (double *)(void *)(frame->file.bytes + section->offset);
    return OK;
}

static enum error open_parts(struct frame *frame)
{
    const struct frame_header *header = mapped_file_header(&frame->file);
    if (header->units < 1 || header->units > FRAME_UNITS_LIMIT)
        return damaged(&frame->file, "it has no units");
    frame->units = (int64_t)header->units;
    memcpy(frame->digest.bytes, header->digest, sizeof(frame->digest.bytes));
    frame->has_labels = mapped_file_section(&frame->file, FRAME_LABEL_NAMES) != NULL;
    frame->has_groups =
        mapped_file_section(&frame->file, FRAME_LABEL_NAMES + FRAME_KINDS_OF_GROUPS) != NULL;
    enum error error = open_ids(frame);
    if (!error)
        error = frame->has_labels ? open_partition(&frame->file, 0, frame->units, &frame->labels)
                                  : partition_of_nothing(&frame->labels, frame->units);
    if (!error && frame->has_groups)
        error = open_partition(&frame->file, FRAME_KINDS_OF_GROUPS, frame->units, &frame->groups);
    return error ? error : open_weights(frame);
}

enum error frame_of_file(struct mapped_file *file, struct frame **ret_frame)
{
    struct frame *frame = array_new(1, sizeof(*frame), "a frame");
    if (!frame) {
        mapped_file_close(file);
        return ERROR_MEMORY;
    }
    frame->file = *file;
    *file = (struct mapped_file){.path = NULL};
    enum error error = open_parts(frame);
    if (error) {
        frame_free(frame);
        return error;
    }
    *ret_frame = frame;
    return OK;
}

enum error frame_open(const char *path, struct frame **ret_frame)
{
    struct mapped_file file;
    enum error error = mapped_file_open(path, &file);
    return error ? error : frame_of_file(&file, ret_frame);
}

enum error frame_verify(const struct frame *frame)
{
    return frame->file.bytes ? mapped_file_check_all(&frame->file) : OK;
}

enum error frame_watch_file(struct frame *frame)
{
    return mapped_file_watch(&frame->file);
}

enum error frame_check_file(const struct frame *frame)
{
    return mapped_file_check_same(&frame->file);
}

uint64_t frame_file_bytes(const struct frame *frame)
{
    return frame->file.path ? frame->file.size : 0; /* one in memory has no path */
}
