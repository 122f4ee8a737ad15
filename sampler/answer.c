#include "sampler/answer.h"

#include <string.h>

#include "sampler/digits.h"

/* What copies of fixed width may touch behind the end. */
#define SLACK_BYTES 32
/* Everything in the JSON but the stream's name, the three numbers and the arrays. */
#define JSON_FRAME_BYTES 96

static const char *const names[ANSWER_FORMATS] = {"json", "csv", "binary"};
static const char *const content_types[ANSWER_FORMATS] = {
    "application/json", "text/csv; charset=utf-8", "application/octet-stream"};

const char *answer_format_name(enum answer_format format)
{
    return names[format];
}

const char *answer_content_type(enum answer_format format)
{
    return content_types[format];
}

size_t answer_bound_bytes(const struct label_texts *texts, const struct answer *answer,
                          enum answer_format format)
{
    size_t frame = JSON_FRAME_BYTES + strlen(answer->stream) + 3 * DIGITS_BYTES + SLACK_BYTES;
    switch (format) {
    case ANSWER_JSON:
        return frame + answer->size * (DIGITS_BYTES + 1 + texts->json_longest_bytes);
    case ANSWER_CSV:
        return frame + answer->size * (DIGITS_BYTES + 1 + texts->csv_longest_bytes);
    case ANSWER_BINARY:
        break;
    }
    return ANSWER_BINARY_HEADER_BYTES + answer->size * (sizeof(int64_t) + sizeof(uint32_t));
}

static char *write_text(char *out, const char *text)
{
    size_t length = strlen(text);
    memcpy(out, text, length);
    return out + length;
}

static size_t write_json(const struct label_texts *texts, const struct answer *answer, char *start)
{
    char *out = write_text(start, "{\"stream\":\"");
    out = write_text(out, answer->stream);
    out = write_text(out, "\",\"epoch\":");
    out = digits_write(out, answer->epoch);
    out = write_text(out, ",\"first\":");
    out = digits_write(out, answer->first);
    out = write_text(out, ",\"size\":");
    out = digits_write(out, (int64_t)answer->size);
    out = write_text(out, ",\"ids\":[");
    for (size_t i = 0; i < answer->size; i++) {
        out = digits_write(out, answer->ids[i]);
        *out++ = ',';
    }
    out -= answer->size > 0; /* the last separator */
    out = write_text(out, "],\"labels\":[");
    for (size_t i = 0; i < answer->size; i++)
        out = label_text_write(out, texts->json, texts->json_long, answer->labels[i]);
    out -= answer->size > 0;
    out = write_text(out, "]}\n");
    return (size_t)(out - start);
}

static size_t write_csv(const struct label_texts *texts, const struct answer *answer, char *start)
{
    char *out = write_text(start, "id,label\n");
    for (size_t i = 0; i < answer->size; i++) {
        out = digits_write(out, answer->ids[i]);
        *out++ = ',';
        out = label_text_write(out, texts->csv, texts->csv_long, answer->labels[i]);
    }
    return (size_t)(out - start);
}

static size_t write_binary(const struct answer *answer, char *start)
{
    uint32_t size = (uint32_t)answer->size;
    uint32_t flags = 0;
    memcpy(start, ANSWER_BINARY_MAGIC, 8);
    memcpy(start + 8, &answer->epoch, 8);
    memcpy(start + 16, &answer->first, 8);
    memcpy(start + 24, &size, 4);
    memcpy(start + 28, &flags, 4);
    char *out = start + ANSWER_BINARY_HEADER_BYTES;
    memcpy(out, answer->ids, answer->size * sizeof(int64_t));
    out += answer->size * sizeof(int64_t);
    memcpy(out, answer->labels, answer->size * sizeof(uint32_t));
    out += answer->size * sizeof(uint32_t);
    return (size_t)(out - start);
}

size_t answer_write(const struct label_texts *texts, const struct answer *answer,
                    enum answer_format format, char *out)
{
    switch (format) {
    case ANSWER_JSON:
        return write_json(texts, answer, out);
    case ANSWER_CSV:
        return write_csv(texts, answer, out);
    case ANSWER_BINARY:
        break;
    }
    return write_binary(answer, out);
}
