/* SPDX-License-Identifier: MIT */
/*
 * The names of a model's features, as its checkpoint remembers them: where a store has names too,
 * its columns are found by them, in whatever order they come and whatever others there are.
 *
 * Where names are nothing but positions (a file without a header, one BLOB a row, "p0", "p1", ...)
 * only that is remembered, and features are matched by position. Else a digest of the list, one of
 * the set, and the first names, as many as fit FEATURE_NAMES_BYTES: a million features cost no more
 * than a thousand, but are matched by position; the digests tell when their order changed.
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
    size_t count; /* F; 0: not known, as of a checkpoint that is older than they are */
    bool by_position;
    uint64_t list, set; /* digests: in this order, in any order */
    char **first;       /* [first_count], owned */
    size_t first_count;
};

/* Of a store. feature_names_release() in any case. */
enum error feature_names_init(struct feature_names *names,
                              const struct store_info *info) MUST_CHECK;
enum error feature_names_copy(struct feature_names *names,
                              const struct feature_names *from) MUST_CHECK;
void feature_names_release(struct feature_names *names);

/* Appends them as a JSON object; reads it back. `what` names the text in messages. */
enum error feature_names_print(const struct feature_names *names, struct buffer *out) MUST_CHECK;
enum error feature_names_parse(const char *text, const char *what,
                               struct feature_names *ret_names) MUST_CHECK;

/* Which columns of a store the features of `called` (such as a checkpoint's path) are: *ret_columns
 * [count], free() it; NULL: they are matched by position, with a warning when their names are
 * others (the caller compares how many there are). ERROR_CONFLICT naming the column that is
 * missing while others changed places, or when too many names to remember come in another order. */
enum error feature_names_match(const struct feature_names *names, const char *called,
                               const struct store_info *info, int32_t **ret_columns) MUST_CHECK;

#endif
