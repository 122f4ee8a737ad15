/* SPDX-License-Identifier: MIT */
#include "trainer/events/event_encoding.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

#include "common/json.h"
#include "common/text.h"
#include "trainer/events/event.pb-c.h"
#include "trainer/events/record.h"

/* ---- records ------------------------------------------------------------ */

static void add_record(struct buffer *out, const Events__Event *event)
{
    size_t bytes = events__event__get_packed_size(event);
    uint8_t *place = record_begin(out, bytes);
    if (!place)
        return;
    events__event__pack(event, place);
    record_end(out, bytes);
}

static Events__Event event_at(struct event_time time)
{
    Events__Event event = EVENTS__EVENT__INIT;
    event.wall_time = time.wall_seconds;
    event.step = time.step;
    return event;
}

/* ---- lines -------------------------------------------------------------- */

static void add_real(struct buffer *out, double value)
{
    char text[TEXT_REAL_BYTES];
    buffer_add_text(out, isfinite(value) ? text_of_real(value, text) : "null");
}

static void begin_line(struct buffer *out, struct event_time time)
{
    buffer_print(out, "{\"wall_time\":%.6f,\"step\":%" PRId64, time.wall_seconds, time.step);
}

static void add_member(struct buffer *out, const char *key, double value)
{
    buffer_print(out, ",\"%s\":", key);
    add_real(out, value);
}

static void add_reals(struct buffer *out, const char *key, const double *values, size_t count)
{
    buffer_print(out, ",\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        buffer_add_text(out, i > 0 ? "," : "");
        add_real(out, values[i]);
    }
    buffer_add_text(out, "]");
}

/* ---- both, or neither --------------------------------------------------- */

static void cut(struct buffer *buffer, size_t length)
{
    buffer->length = length;
    buffer->error = OK;
    if (buffer->data)
        buffer->data[length] = '\0';
}

struct mark {
    size_t records, lines;
};

static struct mark begin(const struct event_buffers *out)
{
    return (struct mark){.records = out->records.length, .lines = out->lines.length};
}

static bool finish(struct event_buffers *out, struct mark mark)
{
    if (!out->records.error && !out->lines.error)
        return true;
    cut(&out->records, mark.records);
    cut(&out->lines, mark.lines);
    return false;
}

/* ---- events ------------------------------------------------------------- */

bool event_encode_version(struct event_buffers *out, struct event_time time)
{
    struct mark mark = begin(out);
    Events__Event event = event_at(time);
    event.what_case = EVENTS__EVENT__WHAT_FILE_VERSION;
    event.file_version = (char[]){"brain.Event:2"};
    add_record(&out->records, &event);
    return finish(out, mark);
}

static void add_summary(struct buffer *out, struct event_time time, Events__Value *values[],
                        size_t count)
{
    Events__Event event = event_at(time);
    Events__Summary summary = EVENTS__SUMMARY__INIT;
    summary.n_value = count;
    summary.value = values;
    event.what_case = EVENTS__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    add_record(out, &event);
}

static void add_scalar_member(struct buffer *out, const struct event_scalar *scalar)
{
    buffer_add_text(out, ",");
    json_add_string(out, scalar->tag);
    buffer_add_text(out, ":");
    add_real(out, scalar->value);
}

bool event_encode_scalars(struct event_buffers *out, struct event_time time,
                          const struct event_scalar scalars[], size_t count)
{
    struct mark mark = begin(out);
    Events__Value values[EVENT_SCALARS_LIMIT], *list[EVENT_SCALARS_LIMIT];
    assert(count <= EVENT_SCALARS_LIMIT);
    begin_line(&out->lines, time);
    for (size_t i = 0; i < count; i++) {
        events__value__init(&values[i]);
        values[i].tag = (char *)scalars[i].tag;
        values[i].value_case = EVENTS__VALUE__VALUE_SIMPLE_VALUE;
        values[i].simple_value = (float)scalars[i].value;
        list[i] = &values[i];
        add_scalar_member(&out->lines, &scalars[i]);
    }
    buffer_add_text(&out->lines, "}\n");
    add_summary(&out->records, time, list, count);
    return finish(out, mark);
}

static void add_histogram_line(struct buffer *out, struct event_time time, const char *tag,
                               const struct histogram *histogram)
{
    begin_line(out, time);
    buffer_add_text(out, ",\"histogram\":");
    json_add_string(out, tag);
    add_member(out, "min", histogram->minimum);
    add_member(out, "max", histogram->maximum);
    add_member(out, "num", histogram->count);
    add_member(out, "sum", histogram->sum);
    add_member(out, "sum_squares", histogram->sum_of_squares);
    add_reals(out, "bucket_limit", histogram->limit, histogram->buckets);
    add_reals(out, "bucket", histogram->bucket, histogram->buckets);
    buffer_add_text(out, "}\n");
}

bool event_encode_histogram(struct event_buffers *out, struct event_time time, const char *tag,
                            const struct histogram *histogram)
{
    struct mark mark = begin(out);
    Events__Histogram counted = EVENTS__HISTOGRAM__INIT;
    Events__Value value = EVENTS__VALUE__INIT, *list[] = {&value};
    counted.min = histogram->minimum;
    counted.max = histogram->maximum;
    counted.num = histogram->count;
    counted.sum = histogram->sum;
    counted.sum_squares = histogram->sum_of_squares;
    counted.n_bucket_limit = counted.n_bucket = histogram->buckets;
    counted.bucket_limit = (double *)histogram->limit;
    counted.bucket = (double *)histogram->bucket;
    value.tag = (char *)tag;
    value.value_case = EVENTS__VALUE__VALUE_HISTO;
    value.histo = &counted;
    add_summary(&out->records, time, list, 1);
    add_histogram_line(&out->lines, time, tag, histogram);
    return finish(out, mark);
}

bool event_encode_session(struct event_buffers *out, struct event_time time,
                          enum event_session session, const char *path)
{
    static const char *const names[] = {"start", "stop", "checkpoint"};
    static const Events__SessionLog__Status statuses[] = {EVENTS__SESSION_LOG__STATUS__START,
                                                          EVENTS__SESSION_LOG__STATUS__STOP,
                                                          EVENTS__SESSION_LOG__STATUS__CHECKPOINT};
    struct mark mark = begin(out);
    Events__Event event = event_at(time);
    Events__SessionLog log = EVENTS__SESSION_LOG__INIT;
    log.status = statuses[session];
    if (path)
        log.checkpoint_path = (char *)path;
    event.what_case = EVENTS__EVENT__WHAT_SESSION_LOG;
    event.session_log = &log;
    add_record(&out->records, &event);
    begin_line(&out->lines, time);
    buffer_print(&out->lines, ",\"session\":\"%s\"", names[session]);
    if (path) {
        buffer_add_text(&out->lines, ",\"path\":");
        json_add_string(&out->lines, path);
    }
    buffer_add_text(&out->lines, "}\n");
    return finish(out, mark);
}
