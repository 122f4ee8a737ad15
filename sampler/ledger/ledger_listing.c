/* SPDX-License-Identifier: MIT */
#include "sampler/ledger/ledger_listing.h"

#include "common/array.h"

#define SPANS_AT_ONCE 256

static void start(const struct ledger *ledger, struct ledger_listing *listing)
{
    listing->end = ledger->position;
    listing->jumps = ledger->jumps;
    listing->gaps_at = listing->leases_at = 0;
    listing->count = 0;
}

void ledger_listing_begin(struct ledger *ledger, struct ledger_listing *listing)
{
    *listing = (struct ledger_listing){.next = ledger->listings};
    start(ledger, listing);
    ledger->listings = listing;
}

void ledger_listing_end(struct ledger *ledger, struct ledger_listing *listing)
{
    struct ledger_listing **link = &ledger->listings;
    while (*link != listing)
        link = &(*link)->next;
    *link = listing->next;
}

static enum error reserve(struct ledger_listing *listing, size_t more)
{
    void *items = listing->items;
    enum error error = array_grow(&items, &listing->capacity, listing->count + more,
                                  sizeof(*listing->items), "a checkpoint token");
    listing->items = items;
    return error;
}

enum error ledger_listing_reserve(struct ledger *ledger, size_t more)
{
    enum error error = OK;
    for (struct ledger_listing *one = ledger->listings; one && !error; one = one->next)
        error = reserve(one, more);
    return error;
}

static void add(struct ledger_listing *listing, int64_t begin, int64_t end)
{
    if (begin < listing->end)
        listing->items[listing->count++] = (struct interval){begin, end};
}

void ledger_listing_add(struct ledger *ledger, int64_t first, int64_t positions)
{
    for (struct ledger_listing *one = ledger->listings; one; one = one->next)
        add(one, first, first + positions);
}

static void add_lease(void *context, const struct lease *lease)
{
    struct ledger_listing *listing = context;
    listing->leases_at = lease->first + 1;
    add(listing, lease->first, lease->first + lease->positions);
}

/* Lists at most `most`; returns their number. */
static size_t list_gaps(const struct intervals *gaps, struct ledger_listing *listing, size_t most)
{
    size_t listed = 0;
    for (size_t i = intervals_find(gaps, listing->gaps_at); i < gaps->count && listed < most; i++) {
        const struct interval *gap = intervals_at(gaps, i);
        add(listing, gap->begin, gap->end);
        listing->gaps_at = gap->end;
        listed++;
    }
    return listed;
}

enum error ledger_listing_some(struct ledger *ledger, struct ledger_listing *listing,
                               bool *ret_more)
{
    if (listing->jumps != ledger->jumps)
        start(ledger, listing);
    enum error error = reserve(listing, SPANS_AT_ONCE);
    if (error)
        return error;
    size_t left = SPANS_AT_ONCE - list_gaps(&ledger->gaps, listing, SPANS_AT_ONCE);
    left -= lease_set_some(&ledger->leases, listing->leases_at, left, add_lease, listing);
    *ret_more = left == 0 && listing->leases_at < listing->end;
    return OK;
}
