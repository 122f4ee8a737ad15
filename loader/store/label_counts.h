/* SPDX-License-Identifier: MIT */
/* Counts rows per label: filled by a scan, then sorted. One thread. */
#ifndef LOADER_STORE_LABEL_COUNTS_H
#define LOADER_STORE_LABEL_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text_set.h"
#include "loader/store/store.h"

struct label_count {
    const char *text; /* borrowed from `texts` */
    int64_t rows;
};

struct label_counts {
    struct text_set texts;
    struct label_count *counts; /* owned; [texts.count] */
    size_t capacity;
};

/* Start with a zeroed struct. */
enum error label_counts_add(struct label_counts *counts,
                            const struct store_block *block) MUST_CHECK;
/* Sorts: integers by value, else by bytes. */
void label_counts_finish(struct label_counts *counts);
void label_counts_release(struct label_counts *counts);

#endif
