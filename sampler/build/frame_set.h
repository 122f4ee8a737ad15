/* SPDX-License-Identifier: MIT */
/*
 * The frames of one server, by name: `--store URI`, `--frame FILE`, each also as NAME=URI or
 * NAME=FILE and several times. One without a name is `default`.
 *
 * One thread fills it at the start; afterwards it is immutable, for any thread.
 */
#ifndef SAMPLER_BUILD_FRAME_SET_H
#define SAMPLER_BUILD_FRAME_SET_H

#include <stddef.h>

#include "common/error.h"
#include "sampler/frame/frame.h"
#include "sampler/frame/label_texts.h"

#define FRAME_NAME_BYTES 65 /* 1 to 64 of [A-Za-z0-9._-], NUL */
#define FRAME_NAME_DEFAULT "default"

struct frame_set;

/* Borrowed from the set; stays valid until frame_set_free(). */
struct named_frame {
    char name[FRAME_NAME_BYTES];
    struct frame *frame;
    struct label_texts label_texts;
    char digest[FRAME_DIGEST_TEXT_BYTES];
    char *source; /* the store's URI; NULL for a frame file */
};

enum error frame_set_new(struct frame_set **ret_set) MUST_CHECK;
void frame_set_free(struct frame_set *set);

/* Splits NAME=REST. The part before the first '=' is a name if it is 1 to 64 of [A-Za-z0-9._-];
 * else all of `text` is the rest, and the name is `default`: csv:/data/a=b.csv, ./a=b.csv,
 * /data/a=b.frame and train.csv?label=0 have no name; a bare file a=b.csv is written ./a=b.csv.
 * *ret_rest points into `text`. ERROR_USAGE: nothing follows the '='. `option` is for the message.
 *  */
enum error frame_set_parse(const char *option, const char *text, char ret_name[FRAME_NAME_BYTES],
                           const char **ret_rest) MUST_CHECK;

/* Builds a frame from `store_uri` or maps `frame_path`, the other being NULL; may take long.
 * ERROR_USAGE: the name is invalid or already in use. Messages about a frame other than `default`
 * begin with its name. */
enum error frame_set_add(struct frame_set *set, const char *name, const char *store_uri,
                         const char *frame_path) MUST_CHECK;

/* Notes that frame `name` cannot be served, with this thread's message, which frame_set_get() gives
 * from then on. ERROR_MEMORY. */
enum error frame_set_miss(struct frame_set *set, const char *name) MUST_CHECK;
/* ERROR_INPUT: all frames that were given are missing; the message has the reason of the first. */
enum error frame_set_require(const struct frame_set *set) MUST_CHECK;

/* NULL: there is none (no message). */
const struct named_frame *frame_set_find(const struct frame_set *set, const char *name);
/* As frame_set_find(), or ERROR_NOT_FOUND naming the existing ones; ERROR_UNAVAILABLE:
 * frame_set_miss(). */
enum error frame_set_get(const struct frame_set *set, const char *name,
                         const struct named_frame **ret_frame) MUST_CHECK;

/* In order of addition. */
size_t frame_set_count(const struct frame_set *set);
const struct named_frame *frame_set_at(const struct frame_set *set, size_t i);

#endif
