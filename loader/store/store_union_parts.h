/* SPDX-License-Identifier: MIT */
/* Which part of a union holds a row, and converts a part's labels and features to the union's. */
#ifndef LOADER_STORE_STORE_UNION_PARTS_H
#define LOADER_STORE_STORE_UNION_PARTS_H

#include "loader/store/store_union_private.h"

/* The part that holds a row of the union. */
size_t union_part_of(const struct union_store *store, int64_t row);
/* Converts a part's label. */
double union_label(const struct union_store *store, const struct union_part *part, double label);
/* Must features of the part be converted to floats? */
bool union_widens(const struct union_store *store, const struct union_part *part);
void union_widen(const uint8_t *from, size_t count, void *to);

#endif
