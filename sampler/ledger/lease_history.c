/* SPDX-License-Identifier: MIT */
#include "sampler/ledger/lease_history.h"

#include <stdlib.h>

#include "common/array.h"

void lease_history_release(struct lease_history *history)
{
    free(history->items);
    *history = (struct lease_history){0};
}

void lease_history_clear(struct lease_history *history)
{
    history->cleared = history->count;
}

enum error lease_history_reserve(struct lease_history *history, size_t more)
{
    uint64_t wanted = history->count + more;
    if (wanted > LEASE_HISTORY_LIMIT)
        wanted = LEASE_HISTORY_LIMIT;
    void *items = history->items;
    enum error error = array_grow(&items, &history->capacity, (size_t)wanted,
                                  sizeof(*history->items), "the batches that are done");
    history->items = items;
    return error;
}

void lease_history_add(struct lease_history *history, const struct lease_done *done)
{
    history->items[history->count++ % LEASE_HISTORY_LIMIT] = *done;
}

size_t lease_history_kept(const struct lease_history *history)
{
    uint64_t known = history->count - history->cleared;
    return known < LEASE_HISTORY_LIMIT ? (size_t)known : LEASE_HISTORY_LIMIT;
}

const struct lease_done *lease_history_at(const struct lease_history *history, size_t i)
{
    uint64_t oldest = history->count - lease_history_kept(history);
    return &history->items[(oldest + i) % LEASE_HISTORY_LIMIT];
}

uint64_t lease_history_before(const struct lease_history *history, const struct lease_done *done)
{
    uint64_t oldest = history->count - lease_history_kept(history);
    uint64_t at = (uint64_t)(done - history->items);
    return oldest + (at - oldest % LEASE_HISTORY_LIMIT + LEASE_HISTORY_LIMIT) % LEASE_HISTORY_LIMIT;
}

const struct lease_done *lease_history_find(const struct lease_history *history, int64_t position,
                                            size_t most, uint64_t *number)
{
    uint64_t oldest = history->count - lease_history_kept(history);
    uint64_t at = *number < history->count ? *number : history->count;
    for (; at > oldest && most > 0; most--) {
        const struct lease_done *done = &history->items[--at % LEASE_HISTORY_LIMIT];
        if (position >= done->first && position - done->first < done->positions) {
            *number = at;
            return done;
        }
    }
    *number = at > oldest ? at : 0;
    return NULL;
}
