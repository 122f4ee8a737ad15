/* SPDX-License-Identifier: MIT */
#include "sampler/frame/frame.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/frame/frame_private.h"

void frame_free(struct frame *frame)
{
    if (!frame)
        return;
    id_column_release(&frame->ids);
    partition_release(&frame->labels);
    partition_release(&frame->groups);
    if (!frame->file.bytes && (!frame->whole || frame->chosen))
        free(frame->weights);
    mapped_file_close(&frame->file);
    rank_bitmap_free(frame->chosen);
    frame_free(frame->rows);
    free(frame);
}

enum error frame_of_range(int64_t units, uint32_t labels, struct frame **ret_frame)
{
    struct frame *frame = array_new(1, sizeof(*frame), "a frame");
    if (!frame)
        return ERROR_MEMORY;
    frame->units = units;
    frame->has_labels = labels > 0;
    frame->ids = (struct id_column){
        .count = units, .last = units - 1, .is_consecutive = true, .is_ascending = true};
    enum error error = frame->has_labels ? partition_of_range(&frame->labels, units, labels)
                                         : partition_of_nothing(&frame->labels, units);
    if (!error)
        error = frame_digest_compute(frame);
    if (error) {
        frame_free(frame);
        return error;
    }
    *ret_frame = frame;
    return OK;
}

/* ---- questions ---------------------------------------------------------- */

int64_t frame_units(const struct frame *frame)
{
    return frame->units;
}

uint32_t frame_labels(const struct frame *frame)
{
    return frame->labels.count;
}

const struct frame_digest *frame_digest(const struct frame *frame)
{
    return &frame->digest;
}

void frame_digest_text(const struct frame_digest *digest, char out[FRAME_DIGEST_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof(digest->bytes); i++) {
        out[2 * i] = digits[digest->bytes[i] >> 4];
        out[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    out[FRAME_DIGEST_TEXT_BYTES - 1] = '\0';
}

bool frame_labels_are_integers(const struct frame *frame)
{
    return frame->labels.dictionary.are_integers;
}

bool frame_has_labels(const struct frame *frame)
{
    return frame->has_labels;
}

const char *frame_label_text(const struct frame *frame, uint32_t label)
{
    return dictionary_text(&frame->labels.dictionary, label);
}

int64_t frame_label_units(const struct frame *frame, uint32_t label)
{
    return partition_units(&frame->labels, label);
}

int64_t frame_id(const struct frame *frame, int64_t row)
{
    return id_column_get(&frame->ids, row);
}

uint32_t frame_label(const struct frame *frame, int64_t row)
{
    return partition_category(&frame->labels, row);
}

void frame_gather_ids(const struct frame *frame, const int64_t *rows, size_t count,
                      int64_t *ret_ids)
{
    id_column_gather(&frame->ids, rows, count, ret_ids);
}

void frame_gather_labels(const struct frame *frame, const int64_t *rows, size_t count,
                         uint32_t *ret_labels)
{
    partition_gather_categories(&frame->labels, rows, count, ret_labels);
}

int64_t frame_stratum_row(const struct frame *frame, uint32_t label, int64_t j)
{
    return partition_row(&frame->labels, label, j);
}

int64_t frame_stratum_rank(const struct frame *frame, int64_t row)
{
    return partition_rank(&frame->labels, row);
}

int64_t frame_find(const struct frame *frame, int64_t id)
{
    return id_column_find(&frame->ids, id);
}

int64_t frame_find_label(const struct frame *frame, const char *text)
{
    return dictionary_find(&frame->labels.dictionary, text, strlen(text));
}

const struct id_column *frame_id_column(const struct frame *frame)
{
    return &frame->ids;
}

const struct partition *frame_strata(const struct frame *frame)
{
    return &frame->labels;
}

const double *frame_weights(const struct frame *frame)
{
    return frame->weights;
}

const struct partition *frame_groups(const struct frame *frame)
{
    return frame->has_groups ? &frame->groups : NULL;
}
