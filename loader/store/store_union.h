/* SPDX-License-Identifier: MIT */
/*
 * Several stores concatenated: `csv:part-*.csv`, a folder of files, or several URIs, one per line.
 * Scans read them in order; a fetch asks the one that has the id. Without an id column, row numbers
 * continue from store to store. It returns what one store with all the rows would return: features
 * are 32-bit floats if they are in one of them (32-bit integers are such in all of them or in
 * none), labels are texts if one of them has texts.
 *
 * With an id column it keeps an index of all ids (id_index.h), in addition to its parts'.
 */
#ifndef LOADER_STORE_STORE_UNION_H
#define LOADER_STORE_STORE_UNION_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "loader/store/store.h"

/* Takes the open stores over, also on failure; the list itself stays the caller's. All must have
 * been opened with the same keys_only. ERROR_INPUT names two of them with different columns, or
 * with the same id. Blocks: reads the ids. */
enum error store_union_new(struct store *const parts[], size_t count, bool keys_only,
                           struct store **ret_store) MUST_CHECK;

#endif
