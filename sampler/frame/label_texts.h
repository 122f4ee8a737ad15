/* SPDX-License-Identifier: MIT */
/*
 * Every label of a frame as it appears in a response, rendered once at the start: JSON (a number,
 * or an escaped string) and CSV (quoted if RFC 4180 requires it), each with its trailing separator,
 * so that formatting a batch only copies. Immutable; shared by all threads.
 *
 * Integers look the same in both, so CSV is stored for texts only: 16 bytes per label, or 32, plus
 * any text longer than LABEL_TEXT_SHORT.
 *
 * Dimensions: L labels.
 */
#ifndef SAMPLER_FRAME_LABEL_TEXTS_H
#define SAMPLER_FRAME_LABEL_TEXTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/buffer.h"
#include "common/error.h"
#include "sampler/frame/frame.h"

#define LABEL_TEXT_SHORT 12

/* 16 bytes, so that a short label is one load. */
struct label_text {
    char bytes[LABEL_TEXT_SHORT]; /* the text, if it is not longer than this */
    uint32_t length;
};

struct label_texts {
    uint32_t count;            /* L */
    struct label_text *json;   /* [L]: `7,` or `"cat",` */
    struct label_text *csv;    /* [L]: `cat\n`; NULL: integers, see label_texts_write_csv() */
    char **json_long;          /* [L]: NULL, or a text longer than LABEL_TEXT_SHORT */
    char **csv_long;           /* [L], or NULL like csv */
    size_t json_longest_bytes; /* of one label with its separator */
    size_t csv_longest_bytes;
};

/* O(L). The frame may be freed afterwards. */
enum error label_texts_init(struct label_texts *texts, const struct frame *frame) MUST_CHECK;
void label_texts_release(struct label_texts *texts);

/* Writes one label; may touch up to 16 bytes beyond the returned end. */
static inline char *label_text_write(char *out, const struct label_text *text, char *const *longs,
                                     uint32_t label)
{
    uint32_t length = text[label].length;
    if (__builtin_expect(length <= LABEL_TEXT_SHORT, 1))
        memcpy(out, text[label].bytes, LABEL_TEXT_SHORT);
    else
        memcpy(out, longs[label], length);
    return out + length;
}

/* Appends one label as JSON, with its ','. */
void label_texts_add_json(const struct label_texts *texts, uint32_t label, struct buffer *buffer);

/* Writes one label as CSV, with its line end. */
static inline char *label_texts_write_csv(const struct label_texts *texts, char *out,
                                          uint32_t label)
{
    if (texts->csv)
        return label_text_write(out, texts->csv, texts->csv_long, label);
    out = label_text_write(out, texts->json, texts->json_long, label);
    out[-1] = '\n';
    return out;
}

#endif
