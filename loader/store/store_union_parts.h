/* SPDX-License-Identifier: MIT */
/* Which part of a union holds a row, and what its labels and features are in the whole. */
#ifndef LOADER_STORE_STORE_UNION_PARTS_H
#define LOADER_STORE_STORE_UNION_PARTS_H

#include "loader/store/store_union_private.h"

/* The part that holds a row of the whole. */
size_t union_part_of(const struct union_store *store, int64_t row);
/* What a label of a part is here. */
double union_label(const struct union_store *store, const struct union_part *part, double label);
/* Must features of the part be made floats? */
bool union_widens(const struct union_store *store, const struct union_part *part);
void union_widen(const uint8_t *from, size_t count, void *to);

#endif
