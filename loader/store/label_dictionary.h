/* SPDX-License-Identifier: MIT */
/*
 * What labels are, found from their texts, so that every store sees the same labels alike:
 *
 *   LABEL_INTEGER  every text is an integer as one writes it (-?[1-9][0-9]*|0), at most 2^53
 *   LABEL_REAL     not that, but every text is a number
 *   LABEL_TEXT     all else, also integers over 2^53, which a double would not keep apart, and such
 *                  with zeros in front (007), which it would not keep
 *
 * Two steps: label_kind_add() over all labels finds the kind; for LABEL_TEXT,
 * text_set_add() over all labels into `found` collects the texts. Adding is for one thread; a
 * finished dictionary for any.
 */
#ifndef LOADER_STORE_LABEL_DICTIONARY_H
#define LOADER_STORE_LABEL_DICTIONARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text_set.h"
#include "loader/store/store.h"

/* Zeroed: no label was seen yet. */
struct label_kinds {
    bool integers, reals, texts; /* such labels were seen */
};

/* Are all of them integers as one writes them, within 64 bits? The sampler decides it so, and so
 * they are shown; as LABEL_INTEGER they must be exact in a double besides. */
bool labels_are_integers(const char *const texts[], size_t count);

void label_kind_add(struct label_kinds *kinds, const char *text, size_t length);
void label_kind_merge(struct label_kinds *kinds, const struct label_kinds *others);
/* LABEL_INTEGER when none was seen. */
enum label_kind label_kind_of(const struct label_kinds *kinds);

/* Zeroed: empty, LABEL_NONE. */
struct label_dictionary {
    enum label_kind kind;  /* set by the owner; texts are kept for LABEL_TEXT only */
    struct text_set found; /* while they are added; then only their bytes */
    const char **texts;    /* owned list; [count]; finished: NUL-terminated, sorted by bytes */
    size_t count;
};

/* Sorts the labels found; none may be added after it. */
void label_dictionary_finish(struct label_dictionary *dictionary);
void label_dictionary_release(struct label_dictionary *dictionary);

/* The value that fetch() gives a label: false when it is not what the dictionary's kind says. */
bool label_value(const struct label_dictionary *dictionary, const char *text, size_t length,
                 double *ret_value);

#endif
