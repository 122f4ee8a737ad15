/* SPDX-License-Identifier: MIT */
/*
 * The names of a model's features, as stored in its checkpoint. If a store has names, too, its
 * columns are matched by name, in any order and among any others.
 *
 * If names are only positions (a file without a header, one BLOB per row, "p0", "p1", ...), only
 * that fact is stored, and features are matched by position. Else it stores a digest of the list,
 * one of the set, and as many of the first names as fit FEATURE_NAMES_BYTES: a million features
 * cost no more than a thousand, but are matched by position; the digests detect a change of their
 * order.
 */
#ifndef TRAINER_MODEL_FEATURE_NAMES_H
#define TRAINER_MODEL_FEATURE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "loader/store/store.h"

#define FEATURE_NAMES_BYTES 8192

struct feature_names {
    size_t count; /* F; 0: not known, as in an older checkpoint */
    bool by_position;
    uint64_t list, set; /* digests: in this order, in any order */
    char **first;       /* [first_count], owned */
    size_t first_count;
};

/* A store's names. The caller calls feature_names_release() in any case. */
enum error feature_names_init(struct feature_names *names,
                              const struct store_info *info) MUST_CHECK;
enum error feature_names_copy(struct feature_names *names,
                              const struct feature_names *from) MUST_CHECK;
void feature_names_release(struct feature_names *names);

/* Appends them as a JSON object; the second parses it. `what` names the text in messages. */
enum error feature_names_print(const struct feature_names *names, struct buffer *out) MUST_CHECK;
enum error feature_names_parse(const char *text, const char *what,
                               struct feature_names *ret_names) MUST_CHECK;

/* Maps the features of `called` (such as a checkpoint's path) to columns of a store: *ret_columns
 * [count], free() it; NULL: matched by position, which `warns` if the names differ (the caller
 * compares the counts). ERROR_CONFLICT naming the missing column while others changed places, or if
 * too many names to store come in another order. */
enum error feature_names_match(const struct feature_names *names, const char *called,
                               const struct store_info *info, bool warns,
                               int32_t **ret_columns) MUST_CHECK;

#endif
