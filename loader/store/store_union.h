/* SPDX-License-Identifier: MIT */
/*
 * Several stores one after the other as one: `csv:part-*.csv`, a folder of files, or several URIs,
 * one a line. Scans read them in their order; fetch asks the one that has the id. Without
 * an id column, row numbers run on from store to store. It gives what one store with all
 * the rows would give: features are 32-bit floats if they are in one of them (integers of 32
 * bits are such in all of them or in none), labels texts if one of them has texts.
 *
 * Where there is an id column it keeps an index of all ids (id_index.h), besides those of its
 * parts.
 */
#ifndef LOADER_STORE_STORE_UNION_H
#define LOADER_STORE_STORE_UNION_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "loader/store/store.h"

/* Takes the open stores over, also when it fails; the list itself stays the caller's. All must have
 * been opened with the same keys_only. ERROR_INPUT names two of them whose columns differ, or that
 * have the same id. Blocks: the ids are read. */
enum error store_union_new(struct store *const parts[], size_t count, bool keys_only,
                           struct store **ret_store) MUST_CHECK;

#endif
