/* SPDX-License-Identifier: MIT */
#include "sampler/frame/label_texts.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/json.h"

#define TEXT_LIMIT_BYTES (64 << 20)

/* Moves the content of `buffer` to (text, *ret_long). */
static enum error keep(const struct buffer *buffer, struct label_text *text, char **ret_long,
                       size_t *longest_bytes)
{
    text->length = (uint32_t)buffer->length;
    if (buffer->length > *longest_bytes)
        *longest_bytes = buffer->length;
    if (buffer->length <= LABEL_TEXT_SHORT) {
        memcpy(text->bytes, buffer->data, buffer->length);
        return OK;
    }
    *ret_long = malloc(buffer->length);
    if (!*ret_long)
        return error_set_memory(buffer->length, "a label");
    memcpy(*ret_long, buffer->data, buffer->length);
    return OK;
}

static enum error render_json(struct label_texts *texts, const struct frame *frame, uint32_t label,
                              struct buffer *buffer)
{
    const char *text = frame_label_text(frame, label);
    buffer_clear(buffer);
    if (frame_labels_are_integers(frame))
        buffer_add_text(buffer, text);
    else
        json_add_string(buffer, text);
    enum error error = buffer_add_text(buffer, ",");
    return error ? error
                 : keep(buffer, &texts->json[label], &texts->json_long[label],
                        &texts->json_longest_bytes);
}

static enum error render_csv(struct label_texts *texts, const struct frame *frame, uint32_t label,
                             struct buffer *buffer)
{
    buffer_clear(buffer);
    buffer_add_csv(buffer, frame_label_text(frame, label));
    enum error error = buffer_add_text(buffer, "\n");
    return error ? error
                 : keep(buffer, &texts->csv[label], &texts->csv_long[label],
                        &texts->csv_longest_bytes);
}

static enum error new_texts(uint32_t count, struct label_text **ret_texts, char ***ret_longs)
{
    *ret_texts = array_new(count, sizeof(**ret_texts), "the labels");
    *ret_longs = array_new(count, sizeof(**ret_longs), "the labels");
    return *ret_texts && *ret_longs ? OK : ERROR_MEMORY;
}

enum error label_texts_init(struct label_texts *texts, const struct frame *frame)
{
    struct buffer buffer = BUFFER_INIT(TEXT_LIMIT_BYTES);
    uint32_t count = frame_labels(frame);
    bool has_csv = !frame_labels_are_integers(frame);
    memset(texts, 0, sizeof(*texts));
    texts->count = count;
    enum error error = new_texts(count, &texts->json, &texts->json_long);
    if (!error && has_csv)
        error = new_texts(count, &texts->csv, &texts->csv_long);
    for (uint32_t label = 0; !error && label < count; label++) {
        error = render_json(texts, frame, label, &buffer);
        if (!error && has_csv)
            error = render_csv(texts, frame, label, &buffer);
    }
    if (!has_csv)
        texts->csv_longest_bytes = texts->json_longest_bytes;
    buffer_release(&buffer);
    if (error)
        label_texts_release(texts);
    return error;
}

void label_texts_add_json(const struct label_texts *texts, uint32_t label, struct buffer *buffer)
{
    const struct label_text *text = &texts->json[label];
    buffer_add(buffer, texts->json_long[label] ? texts->json_long[label] : text->bytes,
               text->length);
}

static void free_all(char **longs, uint32_t count)
{
    for (uint32_t label = 0; longs && label < count; label++)
        free(longs[label]);
    free(longs);
}

void label_texts_release(struct label_texts *texts)
{
    free_all(texts->json_long, texts->count);
    free_all(texts->csv_long, texts->count);
    free(texts->json);
    free(texts->csv);
    memset(texts, 0, sizeof(*texts));
}
