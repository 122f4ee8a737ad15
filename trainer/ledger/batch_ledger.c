/* SPDX-License-Identifier: MIT */
#include "trainer/ledger/batch_ledger.h"

/* Batches before the last done one that are not done themselves are granted first. */
enum error batch_ledger_init(struct batch_ledger *ledger, const struct index_set *done)
{
    *ledger = (struct batch_ledger){.next = index_set_end(done), .end = INT64_MAX};
    enum error error = index_set_copy(&ledger->done, done);
    struct index_range gap = index_set_gap(done, 0, ledger->next);
    for (; !error && gap.first < gap.end; gap = index_set_gap(done, gap.end, ledger->next))
        error = index_set_add(&ledger->returned, gap);
    return error;
}

void batch_ledger_release(struct batch_ledger *ledger)
{
    index_set_release(&ledger->done);
    index_set_release(&ledger->returned);
}

static struct index_range next_free(const struct batch_ledger *ledger)
{
    if (ledger->returned.count > 0)
        return ledger->returned.ranges[0];
    return (struct index_range){ledger->next, ledger->end};
}

static enum error grant(struct batch_ledger *ledger, struct batch_holder *holder,
                        struct index_range range)
{
    enum error error = index_set_add(&holder->held, range);
    return error ? error : index_set_remove(&ledger->returned, range);
}

enum error batch_ledger_grant_one(struct batch_ledger *ledger, struct batch_holder *holder,
                                  int64_t index)
{
    enum error error = OK;
    if (index >= ledger->next) {
        error = index_set_add(&ledger->returned, (struct index_range){ledger->next, index});
        ledger->next = error ? ledger->next : index + 1;
    }
    return error ? error : grant(ledger, holder, (struct index_range){index, index + 1});
}

enum error batch_ledger_grant(struct batch_ledger *ledger, struct batch_holder *holder,
                              int64_t most, struct index_range *ret_range)
{
    struct index_range range = next_free(ledger);
    if (range.end - range.first > most)
        range.end = range.first + most;
    enum error error = grant(ledger, holder, range);
    if (error)
        return error;
    if (range.end > ledger->next)
        ledger->next = range.end;
    *ret_range = range;
    return OK;
}

enum error batch_ledger_done(struct batch_ledger *ledger, struct batch_holder *holder,
                             int64_t index)
{
    struct index_range one = {index, index + 1};
    enum error error = index_set_add(&ledger->done, one);
    if (!error)
        error = index_set_remove(&ledger->returned, one);
    if (!error && holder)
        error = index_set_remove(&holder->held, one);
    return error;
}

enum error batch_ledger_end(struct batch_ledger *ledger, int64_t end)
{
    if (end >= ledger->end)
        return OK;
    enum error error = index_set_remove(&ledger->returned, (struct index_range){end, INT64_MAX});
    if (error)
        return error;
    ledger->end = end;
    if (ledger->next > end)
        ledger->next = end;
    return OK;
}

enum error batch_ledger_give_back(struct batch_ledger *ledger, struct batch_holder *holder)
{
    enum error error = OK;
    for (size_t i = 0; !error && i < holder->held.count; i++) {
        const struct index_range *held = &holder->held.ranges[i];
        int64_t end = held->end < ledger->end ? held->end : ledger->end;
        struct index_range gap = index_set_gap(&ledger->done, held->first, end);
        for (; !error && gap.first < gap.end; gap = index_set_gap(&ledger->done, gap.end, end))
            error = index_set_add(&ledger->returned, gap);
    }
    if (!error)
        index_set_clear(&holder->held);
    return error;
}

bool batch_ledger_is_finished(const struct batch_ledger *ledger)
{
    return index_set_gap(&ledger->done, 0, ledger->end).first >= ledger->end;
}
