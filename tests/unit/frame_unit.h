/* SPDX-License-Identifier: MIT */
/* Frames for tests: a list of (id, label text) as a CSV file, and what a frame must say of it. */
#ifndef TESTS_UNIT_FRAME_UNIT_H
#define TESTS_UNIT_FRAME_UNIT_H

#include "tests/unit/unit.h"

#include <inttypes.h>

#include "sampler/frame/frame.h"

struct listed_unit {
    int64_t id;
    const char *label;
};

/* Writes FOLDER/NAME with a header id,label and gives its store URI. */
static inline void write_list(const char *folder, const char *name, const struct listed_unit *units,
                              size_t count, char ret_uri[512])
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(ret_uri, 512, "csv:%s?id=id&label=label", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("id,label\n", file);
    for (size_t i = 0; i < count; i++)
        fprintf(file, "%" PRId64 ",%s\n", units[i].id, units[i].label);
    assert_int_equal(fclose(file), 0);
}

/* The frame holds exactly this list, and all its questions agree with it. */
static inline void check_list(const struct frame *frame, const struct listed_unit *units,
                              size_t count)
{
    int64_t *in_label = calloc(frame_labels(frame), sizeof(*in_label));
    assert_non_null(in_label);
    assert_int_equal(frame_units(frame), count);
    for (size_t i = 0; i < count; i++) {
        int64_t row = (int64_t)i;
        uint32_t label = frame_label(frame, row);
        assert_true(frame_id(frame, row) == units[i].id);
        assert_true(frame_find(frame, units[i].id) == row);
        assert_string_equal(frame_label_text(frame, label), units[i].label);
        assert_int_equal(frame_find_label(frame, units[i].label), label);
        assert_true(frame_stratum_rank(frame, row) == in_label[label]);
        assert_true(frame_stratum_row(frame, label, in_label[label]) == row);
        in_label[label]++;
    }
    for (uint32_t label = 0; label < frame_labels(frame); label++)
        assert_true(frame_label_units(frame, label) == in_label[label]);
    free(in_label);
}

/* Two frames that must be the same in everything but how they keep it. */
static inline void check_equal_frames(const struct frame *a, const struct frame *b)
{
    assert_memory_equal(frame_digest(a), frame_digest(b), sizeof(struct frame_digest));
    assert_true(frame_units(a) == frame_units(b));
    assert_int_equal(frame_labels(a), frame_labels(b));
    assert_int_equal(frame_has_labels(a), frame_has_labels(b));
    assert_int_equal(frame_labels_are_integers(a), frame_labels_are_integers(b));
    for (uint32_t label = 0; label < frame_labels(a); label++) {
        assert_string_equal(frame_label_text(a, label), frame_label_text(b, label));
        assert_true(frame_label_units(a, label) == frame_label_units(b, label));
    }
    for (int64_t row = 0; row < frame_units(a); row++) {
        uint32_t label = frame_label(a, row);
        assert_true(frame_id(a, row) == frame_id(b, row));
        assert_int_equal(label, frame_label(b, row));
        assert_true(frame_stratum_rank(a, row) == frame_stratum_rank(b, row));
        assert_true(frame_find(b, frame_id(a, row)) == row);
        assert_true(frame_stratum_row(b, label, frame_stratum_rank(a, row)) == row);
    }
}

#endif
