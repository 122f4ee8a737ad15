/* SPDX-License-Identifier: MIT */
#include "sampler/batch/batch_format.h"

#include <string.h>

#include "sampler/batch/digits.h"

/* Bytes after the end that fixed-width copies may touch. */
#define SLACK_BYTES 32
/* Everything in the JSON except names, numbers and arrays. */
#define JSON_FRAME_BYTES 256
#define JSON_NUMBERS 7

static const char *const names[BATCH_FORMATS] = {"json", "csv", "binary"};
static const char *const content_types[BATCH_FORMATS] = {
    "application/json", "text/csv; charset=utf-8", "application/octet-stream"};

const char *batch_format_name(enum batch_format format)
{
    return names[format];
}

const char *batch_format_content_type(enum batch_format format)
{
    return content_types[format];
}

size_t batch_format_bound_bytes(const struct label_texts *texts,
                                const struct batch_response *response, enum batch_format format)
{
    size_t frame = JSON_FRAME_BYTES + strlen(response->stream) + JSON_NUMBERS * DIGITS_BYTES +
                   (response->worker ? strlen(response->worker) : 0) + SLACK_BYTES;
    size_t weights = response->probabilities ? 2 * (size_t)TEXT_REAL_BYTES : 0;
    switch (format) {
    case BATCH_FORMAT_JSON:
        return frame + response->size * (DIGITS_BYTES + 1 + texts->json_longest_bytes + weights);
    case BATCH_FORMAT_CSV:
        return frame + response->size * (DIGITS_BYTES + 1 + texts->csv_longest_bytes + weights);
    case BATCH_FORMAT_BINARY:
        break;
    }
    return sampler_batch_bytes(response->size, response->listed);
}

static char *write_text(char *out, const char *text)
{
    size_t length = strlen(text);
    memcpy(out, text, length);
    return out + length;
}

static char *write_number(char *out, const char *before, int64_t value)
{
    return digits_write(write_text(out, before), value);
}

/* Fields that only some responses have. */
static char *write_extras(const struct batch_response *response, char *out)
{
    if (response->tells_span)
        out = write_number(out, ",\"span\":", response->positions);
    if (response->worker) {
        out = write_text(write_text(out, ",\"worker\":\""), response->worker);
        out = write_number(out, "\",\"seq\":", response->seq);
    }
    if (response->attempt > 0)
        out = write_number(out, ",\"attempt\":", response->attempt);
    if (response->worker)
        out = write_number(out, ",\"expires_ms\":", response->expires_ms);
    return response->redelivered ? write_text(out, ",\"redelivered\":true") : out;
}

static char *write_reals(const struct batch_response *response, char *out)
{
    struct real_cache texts = {0};
    out = write_text(out, ",\"probabilities\":[");
    for (size_t i = 0; i < response->size; i++) {
        out = real_cache_write(&texts, out, response->probabilities[i]);
        *out++ = ',';
    }
    out -= response->size > 0;
    out = write_text(out, "],\"weights\":[");
    for (size_t i = 0; i < response->size; i++) {
        out = real_cache_write(&texts, out, 1 / response->probabilities[i]);
        *out++ = ',';
    }
    out -= response->size > 0;
    return write_text(out, "]");
}

static size_t write_json(const struct label_texts *texts, const struct batch_response *response,
                         char *start)
{
    char *out = write_text(start, "{\"stream\":\"");
    out = write_text(out, response->stream);
    out = write_number(out, "\",\"epoch\":", response->epoch);
    out = write_number(out, ",\"first\":", response->first);
    out = write_number(out, ",\"size\":", (int64_t)response->size);
    if (response->tells_span || response->worker || response->redelivered || response->attempt > 0)
        out = write_extras(response, out);
    out = write_text(out, ",\"ids\":[");
    for (size_t i = 0; i < response->size; i++) {
        out = digits_write(out, response->ids[i]);
        *out++ = ',';
    }
    out -= response->size > 0; /* the last separator */
    out = write_text(out, "],\"labels\":[");
    for (size_t i = 0; i < response->size; i++)
        out = label_text_write(out, texts->json, texts->json_long, response->labels[i]);
    out -= response->size > 0;
    out = write_text(out, "]");
    if (response->probabilities)
        out = write_reals(response, out);
    out = write_text(out, response->listed ? "}" : "}\n");
    return (size_t)(out - start);
}

static size_t write_csv(const struct label_texts *texts, const struct batch_response *response,
                        char *start)
{
    struct real_cache reals = {0};
    char *out = write_text(start, response->probabilities ? "id,label,probabilities,weights\n"
                                                          : "id,label\n");
    for (size_t i = 0; i < response->size; i++) {
        out = digits_write(out, response->ids[i]);
        *out++ = ',';
        out = label_texts_write_csv(texts, out, response->labels[i]);
        if (!response->probabilities)
            continue;
        out[-1] = ','; /* a label's text ends with its newline */
        out = real_cache_write(&reals, out, response->probabilities[i]);
        *out++ = ',';
        out = real_cache_write(&reals, out, 1 / response->probabilities[i]);
        *out++ = '\n';
    }
    return (size_t)(out - start);
}

static size_t write_binary(const struct batch_response *response, char *start)
{
    struct sampler_batch_header header = {.epoch = response->epoch,
                                          .first = response->first,
                                          .rows = (uint32_t)response->size,
                                          .flags = response->listed ? SAMPLER_BATCH_LISTED : 0};
    struct sampler_lease lease = {
        .seq = response->seq, .attempt = response->attempt, .expires_ms = response->expires_ms};
    memcpy(header.magic, SAMPLER_BATCH_MAGIC, sizeof(header.magic));
    memcpy(start, &header, sizeof(header));
    if (response->listed)
        memcpy(start + sizeof(header), &lease, sizeof(lease));
    char *ids = start + sampler_batch_ids_at(response->listed);
    char *labels = ids + response->size * sizeof(int64_t);
    if ((const char *)response->ids != ids)
        memcpy(ids, response->ids, response->size * sizeof(int64_t));
    if ((const char *)response->labels != labels)
        memcpy(labels, response->labels, response->size * sizeof(uint32_t));
    size_t bytes = sampler_batch_bytes(response->size, response->listed);
    char *end = labels + response->size * sizeof(uint32_t);
    memset(end, 0, bytes - (size_t)(end - start));
    return bytes;
}

size_t batch_format_write(const struct label_texts *texts, const struct batch_response *response,
                          enum batch_format format, char *out)
{
    switch (format) {
    case BATCH_FORMAT_JSON:
        return write_json(texts, response, out);
    case BATCH_FORMAT_CSV:
        return write_csv(texts, response, out);
    case BATCH_FORMAT_BINARY:
        break;
    }
    return write_binary(response, out);
}

static size_t copy_text(const char *text, char *out)
{
    return (size_t)(write_text(out, text) - out);
}

size_t batch_list_begin(size_t number, enum batch_format format, char *out)
{
    if (format != BATCH_FORMAT_JSON)
        return 0;
    return copy_text(number == 0 ? "{\"batches\":[" : ",", out);
}

size_t batch_list_end(enum batch_format format, char *out)
{
    return format == BATCH_FORMAT_JSON ? copy_text("]}\n", out) : 0;
}
