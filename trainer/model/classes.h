/* SPDX-License-Identifier: MIT */
/*
 * The classes of a classifier. Class i is the i-th label in ascending order: integers by value if
 * every label is one, else texts by bytes, as the sampler numbers them. Every checkpoint contains
 * the list. Immutable; L is at least 1.
 */
#ifndef TRAINER_MODEL_CLASSES_H
#define TRAINER_MODEL_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/json.h"

#define CLASSES_LIMIT 1048576

struct classes {
    size_t count;  /* L */
    bool integers; /* every label is a canonical integer */
    char **texts;  /* [L], owned */
};

/* From a JSON list of integers or texts, in any order; `what` names it in messages. ERROR_INPUT if
 * a label is duplicated or of another kind. */
enum error classes_new(const cJSON *labels, const char *what,
                       struct classes **ret_classes) MUST_CHECK;
/* Gets the labels of the frame of `stream` from the sampler at `url`, retrying for up to
 * `patience_ms`. ERROR_NETWORK or ERROR_TIMEOUT if it does not answer, ERROR_INPUT if its labels
 * cannot be classes. */
enum error classes_fetch(const char *url, const char *stream, int64_t patience_ms,
                         struct classes **ret_classes) MUST_CHECK;
void classes_free(struct classes *classes);

/* Appends the list as JSON, in the form that classes_new() reads. */
enum error classes_print(const struct classes *classes, struct buffer *out) MUST_CHECK;

/* The class of a label's text; -1: none. O(log L). */
int32_t classes_find(const struct classes *classes, const char *text);
/* The class with the largest of scores[count], the first of equals. */
size_t classes_choose(const float *scores, size_t count);

/* "0, 1, 2, ... 9" for messages, truncated to `bytes`; returns `out`. */
const char *classes_describe(const struct classes *classes, char *out, size_t bytes);

/* OK if both are the same list, else ERROR_CONFLICT naming the first difference. `theirs` and
 * `ours` name them in messages ("the checkpoint", "the sampler"). */
enum error classes_compare(const struct classes *a, const char *theirs, const struct classes *b,
                           const char *ours) MUST_CHECK;

#endif
