/* SPDX-License-Identifier: MIT */
/*
 * A frame file. The first byte chooses whether its checksums are made to fit, so that what is
 * behind them is met too. A frame that opens must answer every question within its bounds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xxhash.h>

#include "sampler/batch/batch_format.h"
#include "sampler/design/designs.h"
#include "sampler/frame/frame.h"
#include "sampler/frame/frame_file.h"
#include "sampler/frame/frame_view.h"
#include "tests/unit/order_unit.h"

#define QUESTIONS 64
#define FILE_LIMIT (1 << 20)
#define VIEW_UNITS_LIMIT 100000 /* a split costs memory and time a unit */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Checksums of all sections that lie in the file, then of the head; the size in the header. */
static void seal(uint8_t *bytes, size_t length)
{
    struct frame_header *header = (struct frame_header *)bytes;
    struct frame_section *sections = (struct frame_section *)(bytes + sizeof(*header));
    memcpy(header->magic, FRAME_FILE_MAGIC, sizeof(header->magic));
    header->version = FRAME_FILE_VERSION;
    header->file_bytes = length;
    for (uint32_t i = 0; i < header->sections && i < FRAME_FILE_SECTIONS; i++) {
        struct frame_section *section = &sections[i];
        uint64_t count;
        if (__builtin_mul_overflow(section->count, section->width, &count) || count > length)
            continue;
        count = frame_file_round_up(count);
        if (section->offset <= length && count <= length - section->offset)
            section->checksum = XXH3_64bits(bytes + section->offset, count);
    }
    header->checksum = 0;
    header->checksum = XXH3_64bits(bytes, FRAME_FILE_HEAD_BYTES);
}

static void ask_rows(const struct frame *frame)
{
    int64_t units = frame_units(frame);
    for (int64_t i = 0; i < QUESTIONS; i++) {
        int64_t row = i * 7919 % units;
        uint32_t label = frame_label(frame, row);
        check(label < frame_labels(frame));
        int64_t rank = frame_stratum_rank(frame, row);
        check(rank >= 0 && rank < frame_label_units(frame, label));
        int64_t again = frame_stratum_row(frame, label, rank);
        check(again >= 0 && again < units);
        int64_t found = frame_find(frame, frame_id(frame, row));
        check(found >= -1 && found < units);
    }
}

static void ask_labels(const struct frame *frame)
{
    for (uint32_t i = 0; i < QUESTIONS && i < frame_labels(frame); i++) {
        check(strlen(frame_label_text(frame, i)) <= FILE_LIMIT);
        check(frame_label_units(frame, i) >= 1);
        check(frame_find_label(frame, frame_label_text(frame, i)) < frame_labels(frame));
    }
}

static void ask_order(const struct frame *frame, const char *name)
{
    struct design design = {.name = name, .seed = 1};
    struct order *order;
    int64_t rows[QUESTIONS];
    if (order_new(frame, &design, &order))
        return;
    order_rows(order, order_epoch_positions(order) - 1, QUESTIONS, rows);
    for (size_t i = 0; i < QUESTIONS; i++)
        check(rows[i] >= 0 && rows[i] < frame_units(frame));
    order_free(order);
}

/* The response of a batch in memory of just its bound. */
static void write_response(const struct label_texts *texts, const struct batch_response *response,
                           enum batch_format format)
{
    size_t bound = batch_format_bound_bytes(texts, response, format);
    char *out = malloc(bound);
    check(out != NULL);
    check(batch_format_write(texts, response, format, out) <= bound);
    free(out);
}

static void ask_responses(const struct frame *frame, const char *name)
{
    struct design design = {.name = name, .seed = 1};
    struct label_texts texts;
    struct order *order;
    int64_t ids[QUESTIONS];
    int64_t rows[QUESTIONS];
    uint32_t labels[QUESTIONS];
    double probabilities[QUESTIONS];
    if (label_texts_init(&texts, frame))
        return;
    if (!order_new(frame, &design, &order)) {
        struct batch_response response = {
            .stream = "default", .ids = ids, .labels = labels, .probabilities = probabilities};
        response.size = order_units(order, 0, QUESTIONS, ids, labels, rows);
        order_probabilities(order, rows, response.size, probabilities);
        for (int format = 0; format < BATCH_FORMATS; format++) {
            response.probabilities = format == BATCH_FORMAT_BINARY ? NULL : probabilities;
            write_response(&texts, &response, (enum batch_format)format);
        }
        order_free(order);
    }
    label_texts_release(&texts);
}

static void ask_view(const struct frame *frame, int64_t begin, int64_t end, enum split split)
{
    static const struct split_shares shares = {0.6, 0.2, 0.2};
    struct frame *view;
    if (frame_view(frame, begin, end, &shares, split, &view))
        return;
    ask_rows(view);
    ask_labels(view);
    ask_order(view, "proportional");
    ask_order(view, "srs");
    frame_free(view);
}

static void ask_views(const struct frame *frame)
{
    int64_t units = frame_units(frame);
    int64_t middle = units / 2;
    ask_view(frame, middle, units - middle < 50 ? units : middle + 50, SPLIT_NONE);
    if (units > VIEW_UNITS_LIMIT)
        return;
    for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
        ask_view(frame, 0, units, split);
        ask_view(frame, middle, units, split);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct frame *frame;
    char path[64];
    if (length < 1 || length > FILE_LIMIT)
        return 0;
    size_t count = length - 1;
    int descriptor = memfd_create("frame", 0);
    uint8_t *bytes = malloc(count + 1);
    check(descriptor >= 0 && bytes);
    memcpy(bytes, data + 1, count);
    if (data[0] % 2 == 0 && count >= FRAME_FILE_HEAD_BYTES)
        seal(bytes, count);
    check(write(descriptor, bytes, count) == (ssize_t)count);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
    if (!frame_open(path, &frame)) {
        check(!frame_verify(frame));
        ask_rows(frame);
        ask_labels(frame);
        ask_order(frame, "proportional");
        ask_order(frame, "srs");
        ask_responses(frame, "srs");
        ask_responses(frame, "weighted");
        ask_responses(frame, "cluster");
        ask_views(frame);
        frame_free(frame);
    }
    free(bytes);
    close(descriptor);
    return 0;
}
