/* What was handed out in an epoch, out of a stream's book. */
#include "common/array.h"
#include "sampler/stream/stream_private.h"

/* Positions [begin, end) of an epoch, and which of them are told already. */
struct telling {
    struct stream_drawn *drawn;
    int64_t at, end;
};

/* The epoch that the stream is in, up to its place: never an empty one but at position 0. */
static struct telling begin(const struct stream *stream, struct stream_drawn *ret_drawn)
{
    const struct batching *batching = &stream->plan->batching;
    int64_t position = stream->ledger.position;
    int64_t end = batching_end(batching);
    if (position > end)
        position = end;
    ret_drawn->epoch = position / batching->epoch_positions;
    if (batching->epochs > 0 && position == end)
        ret_drawn->epoch--;
    return (struct telling){
        .drawn = ret_drawn, .at = ret_drawn->epoch * batching->epoch_positions, .end = position};
}

static size_t count_within(const struct intervals *intervals, const struct telling *telling)
{
    size_t count = 0;
    for (size_t i = intervals_find(intervals, telling->at);
         i < intervals->count && intervals_at(intervals, i)->begin < telling->end; i++)
        count++;
    return count;
}

/* Drawn up to `begin`, not drawn from there to `end`. */
static void leave_out(struct telling *telling, int64_t begin, int64_t end)
{
    if (begin > telling->end)
        begin = telling->end;
    if (begin > telling->at)
        telling->drawn->spans[telling->drawn->count++] = (struct interval){telling->at, begin};
    if (end > telling->at)
        telling->at = end;
}

/* Gaps and what was passed over are apart from each other, and both ascend. */
static void tell(const struct ledger *ledger, struct telling *telling)
{
    const struct intervals *sets[] = {&ledger->gaps, &ledger->skipped};
    size_t next[] = {intervals_find(sets[0], telling->at), intervals_find(sets[1], telling->at)};
    for (;;) {
        const struct interval *lower = NULL;
        size_t from = 0;
        for (size_t i = 0; i < 2; i++) {
            const struct interval *first =
                next[i] < sets[i]->count ? intervals_at(sets[i], next[i]) : NULL;
            if (first && (!lower || first->begin < lower->begin)) {
                lower = first;
                from = i;
            }
        }
        if (!lower || lower->begin >= telling->end)
            break;
        leave_out(telling, lower->begin, lower->end);
        next[from]++;
    }
    leave_out(telling, telling->end, telling->end);
}

enum error stream_drawn(struct stream *stream, struct stream_drawn *ret_drawn)
{
    struct stream_drawn drawn = {0};
    const struct ledger *ledger = &stream->ledger;
    pthread_mutex_lock(&stream->streams->mutex);
    struct telling telling = begin(stream, &drawn);
    size_t room =
        count_within(&ledger->gaps, &telling) + count_within(&ledger->skipped, &telling) + 1;
    drawn.spans = array_new(room, sizeof(*drawn.spans), "what was drawn of an epoch");
    if (drawn.spans)
        tell(ledger, &telling);
    pthread_mutex_unlock(&stream->streams->mutex);
    if (!drawn.spans)
        return ERROR_MEMORY;
    *ret_drawn = drawn;
    return OK;
}
