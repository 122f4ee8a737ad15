/* SPDX-License-Identifier: MIT */
/*
 * Was the sampler's frame made from this store? Ids alone do not show it: another file may have the
 * same. Compares the labels that the sampler sends with its ids to those of the store's rows. One
 * comparison per row; the labels' texts are fetched once.
 *
 * Labels are equal if they are the same number (1, 1.0, 1e0), or else the same text. Nothing is
 * compared if the frame or the store has no labels, or the sampler does not send them (no
 * permission, or too many).
 *
 * Threads: label_check_fetch() from one, once; label_check_rows() from any fetcher, for batches
 * pulled after it.
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

/* Fetches the labels of the client's stream. Errors as for all requests. */
enum error label_check_fetch(struct label_check *check, struct sampler_client *client) MUST_CHECK;

/* `numbers[i]` is the sampler's label of row `ids[i]`, `labels[i]` the store's; rows whose status
 * is not ROW_OK are skipped. ERROR_INPUT names id, both labels and the store. */
enum error label_check_rows(const struct label_check *check, const int64_t *ids,
                            const uint32_t *numbers, const double *labels,
                            const enum row_status *status, size_t rows) MUST_CHECK;

#endif
