/* SPDX-License-Identifier: MIT */
/*
 * The kind of labels, determined from their texts, so that all stores treat the same labels alike:
 *
 *   LABEL_INTEGER  every text is a canonical integer (-?[1-9][0-9]*|0), at most 2^53
 *   LABEL_REAL     not that, but every text is a number
 *   LABEL_TEXT     all else, also integers over 2^53, which a double would not keep apart, and such
 *                  with zeros in front (007), which it would not keep
 *
 * Two steps: label_kind_add() over all labels determines the kind; for LABEL_TEXT, text_set_add()
 * over all labels into `found` collects the texts. Adding is for one thread; a finished dictionary
 * for any.
 */
#ifndef LOADER_COLUMN_LABEL_DICTIONARY_H
#define LOADER_COLUMN_LABEL_DICTIONARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text_set.h"

enum label_kind {
    LABEL_NONE,    /* no label column: labels read as 0 */
    LABEL_INTEGER, /* integers, exact up to 2^53 */
    LABEL_REAL,    /* numbers that are not all integers */
    LABEL_TEXT     /* index into label_texts */
};

extern const char *const label_kind_names[4]; /* "none", "integer", "real", "text" */

/* Zeroed: no label seen yet. */
struct label_kinds {
    bool integers, reals, texts; /* such labels were seen */
};

/* Are all of them canonical 64-bit integers? The sampler decides likewise, and they are shown as
 * such; LABEL_INTEGER also requires that a double holds them exactly. */
bool labels_are_integers(const char *const texts[], size_t count);

void label_kind_add(struct label_kinds *kinds, const char *text, size_t length);
void label_kind_merge(struct label_kinds *kinds, const struct label_kinds *others);
/* LABEL_INTEGER if none was seen. */
enum label_kind label_kind_of(const struct label_kinds *kinds);

/* Zeroed: empty, LABEL_NONE. */
struct label_dictionary {
    enum label_kind kind;  /* set by the owner; only LABEL_TEXT keeps texts */
    struct text_set found; /* while texts are added; then only their bytes */
    const char **texts;    /* owned list; [count]; finished: NUL-terminated, sorted by bytes */
    size_t count;
};

/* Sorts the labels found; no more may be added. */
void label_dictionary_finish(struct label_dictionary *dictionary);
void label_dictionary_release(struct label_dictionary *dictionary);

/* The value that fetch() returns for a label; false: it is not of the dictionary's kind. */
bool label_value(const struct label_dictionary *dictionary, const char *text, size_t length,
                 double *ret_value);

#endif
