/* SPDX-License-Identifier: MIT */
/*
 * Is the store the one that the sampler's frame was made of? Ids alone do not show it: another
 * file may have the same. The sampler says each unit's label with its id, the store with its row;
 * this compares them. One comparison a row; the labels' texts are fetched once.
 *
 * Labels are the same when they are the same number (1, 1.0, 1e0), or else the same text. Nothing
 * is compared where the frame has no labels, or the store has none, or the sampler does not give
 * them (no right to read, more than fit the limit).
 *
 * Threads: label_check_fetch() from one, once; label_check_rows() from every fetcher, for batches
 * that were pulled after it.
 */
#ifndef LOADER_FEED_LABEL_CHECK_H
#define LOADER_FEED_LABEL_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/sampler_client.h"
#include "loader/store/store.h"

struct label_check;

/* `store` is borrowed until label_check_free(). */
enum error label_check_new(const struct store_info *store,
                           struct label_check **ret_check) MUST_CHECK;
void label_check_free(struct label_check *check);

/* Asks for the labels of the client's stream. Errors as of all requests. */
enum error label_check_fetch(struct label_check *check, struct sampler_client *client) MUST_CHECK;

/* `numbers[i]` is what the sampler says of the row `ids[i]`, `labels[i]` what the store does; rows
 * whose status is not ROW_OK are skipped. ERROR_INPUT naming id, both labels and the store. */
enum error label_check_rows(const struct label_check *check, const int64_t *ids,
                            const uint32_t *numbers, const double *labels,
                            const enum row_status *status, size_t rows) MUST_CHECK;

#endif
