/* SPDX-License-Identifier: MIT */
/* `tombola-sampler info FILE`: a frame file's units and labels, as text or JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "common/buffer.h"
#include "common/command/options.h"
#include "common/json.h"
#include "common/text.h"
#include "sampler/commands.h"
#include "sampler/frame/frame.h"
#include "sampler/frame/frame_file.h"
#include "sampler/frame/frame_summary.h"

#define FLUSH_BYTES (1 << 20)
#define OUTPUT_LIMIT_BYTES (2 * FLUSH_BYTES)

struct info_options {
    const char *path;
    bool json;
    bool verify;
};

static enum error parse(struct info_options *info, const struct program *program, int argc,
                        char **argv)
{
    char **words;
    const struct option options[] = {
        {.name = "json",
         .type = OPTION_FLAG,
         .target = &info->json,
         .help = "one JSON object instead of a table"},
        {.name = "verify",
         .type = OPTION_FLAG,
         .target = &info->verify,
         .help = "read the whole file and check every checksum (files up to 64 MiB always are)"},
    };
    enum error error = options_parse(program, &command_info, options,
                                     sizeof(options) / sizeof(options[0]), argc, argv, &words);
    if (!error)
        info->path = words[0];
    return error;
}

/* Writes the text so far, so that a million labels need no memory. */
static enum error flush(struct buffer *text)
{
    if (text->error)
        return text->error;
    if (fwrite(text->data, 1, text->length, stdout) != text->length || fflush(stdout) != 0)
        return error_set(ERROR_IO, "cannot write to standard output");
    buffer_clear(text);
    return OK;
}

static enum error flush_if_long(struct buffer *text)
{
    return text->error || text->length > FLUSH_BYTES ? flush(text) : OK;
}

/* ---- summaries ---------------------------------------------------------- */

struct weight_summary {
    double smallest, largest, sum;
    int64_t zeros;
};

static struct weight_summary sum_weights(const struct frame *frame)
{
    const double *weights = frame_weights(frame);
    struct weight_summary summary = {.smallest = weights[0], .largest = weights[0]};
    double lost = 0; /* Kahan summation: there may be 1e9 of them */
    for (int64_t row = 0; row < frame_units(frame); row++) {
        double weight = weights[row], next = weight - lost, sum = summary.sum + next;
        lost = sum - summary.sum - next;
        summary.sum = sum;
        summary.smallest = weight < summary.smallest ? weight : summary.smallest;
        summary.largest = weight > summary.largest ? weight : summary.largest;
        summary.zeros += weight == 0;
    }
    return summary;
}

/* Units of the smallest and the largest group. */
static void measure_groups(const struct partition *groups, int64_t *ret_smallest,
                           int64_t *ret_largest)
{
    int64_t smallest = INT64_MAX, largest = 0;
    for (uint32_t group = 0; group < groups->count; group++) {
        int64_t units = partition_units(groups, group);
        smallest = units < smallest ? units : smallest;
        largest = units > largest ? units : largest;
    }
    *ret_smallest = smallest;
    *ret_largest = largest;
}

/* ---- for people --------------------------------------------------------- */

static const char *kind_of_ids(const struct id_column *ids)
{
    if (ids->is_consecutive)
        return "consecutive";
    return ids->is_ascending ? "ascending" : "in no order";
}

static void print_weights(const struct frame *frame, struct buffer *text)
{
    char smallest[TEXT_REAL_BYTES], largest[TEXT_REAL_BYTES], sum[TEXT_REAL_BYTES];
    if (!frame_weights(frame)) {
        buffer_add_text(text, "weights  no\n");
        return;
    }
    struct weight_summary summary = sum_weights(frame);
    buffer_print(text, "weights  %s to %s, sum %s, %" PRId64 " of them 0\n",
                 text_of_real(summary.smallest, smallest), text_of_real(summary.largest, largest),
                 text_of_real(summary.sum, sum), summary.zeros);
}

static void print_groups(const struct frame *frame, struct buffer *text)
{
    int64_t smallest, largest;
    if (!frame_groups(frame))
        return;
    measure_groups(frame_groups(frame), &smallest, &largest);
    buffer_print(text, "groups   %" PRIu32 ", of %" PRId64 " to %" PRId64 " units\n",
                 frame_groups(frame)->count, smallest, largest);
}

static void print_head(const struct frame *frame, const struct info_options *options,
                       struct buffer *text)
{
    char digest[FRAME_DIGEST_TEXT_BYTES];
    const struct id_column *ids = frame_id_column(frame);
    frame_digest_text(frame_digest(frame), digest);
    buffer_print(text,
                 "file     %s\nversion  %d\nbytes    %" PRIu64 "\nunits    %" PRId64
                 "\nids      %" PRId64 " to %" PRId64 ", %s\ndigest   %s\n",
                 options->path, FRAME_FILE_VERSION, frame_file_bytes(frame), frame_units(frame),
                 id_column_smallest(ids), id_column_largest(ids), kind_of_ids(ids), digest);
    print_weights(frame, text);
    print_groups(frame, text);
    if (options->verify)
        buffer_add_text(text, "verified all checksums are right\n");
    if (!frame_has_labels(frame)) {
        buffer_add_text(text, "labels   none\n");
        return;
    }
    buffer_print(text, "labels   %" PRIu32 ", %s%s\n\n%12s  %-10s  label\n", frame_labels(frame),
                 frame_labels_are_integers(frame) ? "integers" : "texts",
                 frame_labels_are_hardly_classes(frame)
                     ? "; nearly every unit has one of its own: serve it with --design srs"
                     : "",
                 "units", "share");
}

static enum error print_labels(const struct frame *frame, struct buffer *text)
{
    enum error error = OK;
    double units = (double)frame_units(frame);
    for (uint32_t label = 0; !error && frame_has_labels(frame) && label < frame_labels(frame);
         label++) {
        int64_t own = frame_label_units(frame, label);
        buffer_print(text, "%12" PRId64 "  %-10.6f  ", own, (double)own / units);
        size_t begin = text->length;
        buffer_add_text(text, frame_label_text(frame, label));
        if (!text->error)
            text_mask_controls(text->data + begin);
        buffer_add_text(text, "\n");
        error = flush_if_long(text);
    }
    return error;
}

/* ---- for programs ------------------------------------------------------- */

static void json_weights(const struct frame *frame, struct buffer *text)
{
    char smallest[TEXT_REAL_BYTES], largest[TEXT_REAL_BYTES], sum[TEXT_REAL_BYTES];
    struct weight_summary summary = sum_weights(frame);
    buffer_print(text,
                 ",\"weight_summary\":{\"smallest\":%s,\"largest\":%s,"
                 "\"sum\":%s,\"zeros\":%" PRId64 "}",
                 text_of_real(summary.smallest, smallest), text_of_real(summary.largest, largest),
                 text_of_real(summary.sum, sum), summary.zeros);
}

static void json_groups(const struct frame *frame, struct buffer *text)
{
    int64_t smallest, largest;
    measure_groups(frame_groups(frame), &smallest, &largest);
    buffer_print(text,
                 ",\"group_summary\":{\"groups\":%" PRIu32 ",\"smallest\":%" PRId64
                 ",\"largest\":%" PRId64 "}",
                 frame_groups(frame)->count, smallest, largest);
}

static void json_head(const struct frame *frame, const struct info_options *options,
                      struct buffer *text)
{
    char digest[FRAME_DIGEST_TEXT_BYTES];
    const struct id_column *ids = frame_id_column(frame);
    frame_digest_text(frame_digest(frame), digest);
    buffer_add_text(text, "{\"file\":");
    json_add_string(text, options->path);
    buffer_print(text,
                 ",\"version\":%d,\"bytes\":%" PRIu64 ",\"units\":%" PRId64 ",\"digest\":\"%s\","
                 "\"ids\":{\"smallest\":%" PRId64 ",\"largest\":%" PRId64 ",\"consecutive\":%s},"
                 "\"weights\":%s,\"groups\":%" PRIu32 ",\"verified\":%s",
                 FRAME_FILE_VERSION, frame_file_bytes(frame), frame_units(frame), digest,
                 id_column_smallest(ids), id_column_largest(ids), json_truth(ids->is_consecutive),
                 json_truth(frame_weights(frame)),
                 frame_groups(frame) ? frame_groups(frame)->count : 0, json_truth(options->verify));
    if (frame_weights(frame))
        json_weights(frame, text);
    if (frame_groups(frame))
        json_groups(frame, text);
    buffer_add_text(text, ",\"labels\":[");
}

static enum error json_label(const struct frame *frame, uint32_t label, struct buffer *text)
{
    buffer_add_text(text, label > 0 ? ",{\"label\":" : "{\"label\":");
    if (frame_labels_are_integers(frame))
        buffer_add_text(text, frame_label_text(frame, label));
    else
        json_add_string(text, frame_label_text(frame, label));
    buffer_print(text, ",\"units\":%" PRId64 "}", frame_label_units(frame, label));
    return flush_if_long(text);
}

static enum error json_labels(const struct frame *frame, struct buffer *text)
{
    enum error error = OK;
    for (uint32_t label = 0; !error && frame_has_labels(frame) && label < frame_labels(frame);
         label++)
        error = json_label(frame, label, text);
    return error ? error : buffer_add_text(text, "]}\n");
}

/* ---- the command -------------------------------------------------------- */

static enum error print(const struct frame *frame, const struct info_options *options)
{
    struct buffer text = BUFFER_INIT(OUTPUT_LIMIT_BYTES);
    if (options->json)
        json_head(frame, options, &text);
    else
        print_head(frame, options, &text);
    enum error error = options->json ? json_labels(frame, &text) : print_labels(frame, &text);
    if (!error)
        error = flush(&text);
    buffer_release(&text);
    return error;
}

static enum error run(const struct program *program, int argc, char **argv)
{
    struct info_options options = {.path = NULL};
    struct frame *frame = NULL;
    enum error error = parse(&options, program, argc, argv);
    if (!error)
        error = frame_open(options.path, &frame);
    if (!error && options.verify)
        error = frame_verify(frame);
    if (!error)
        error = print(frame, &options);
    frame_free(frame);
    return error;
}

const struct command command_info = {
    .name = "info",
    .positional = "FILE",
    .summary = "show a frame file's units, labels and digest",
    .details = "Units, ids, digest, and each label with its units.\n"
               "\n"
               "  tombola-sampler info train.frame\n"
               "  tombola-sampler info --verify --json train.frame\n",
    .run = run,
    .ends_anywhere = true,
};
