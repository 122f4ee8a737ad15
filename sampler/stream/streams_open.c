/* SPDX-License-Identifier: MIT */
/* Start and end: reads the journal, compares `default` with the options, and reopens every other
 * stream's plan. */
#include <string.h>

#include "common/array.h"
#include "common/file.h"
#include "common/log.h"
#include "sampler/journal/committer.h"
#include "sampler/journal/state_folder.h"
#include "sampler/stream/streams_private.h"

#define DIFFERENCES_BYTES_LIMIT ((size_t)1 << 20)

/* ---- `default` ---------------------------------------------------------- */

static enum error refuse_state(const struct streams *streams, struct buffer *differences)
{
    enum error error = error_set(
        ERROR_CONFLICT,
        "state folder %s belongs to another order: %s. Give it a folder of its own, or start with "
        "what is kept there",
        state_folder(streams->options.state), differences->data + 2);
    return error;
}

static enum error compare_default(const struct streams *streams,
                                  const struct stream_definition *there,
                                  const struct stream_binding *there_binding,
                                  const struct stream_definition *here,
                                  const struct stream_binding *here_binding)
{
    struct buffer differences = BUFFER_INIT(DIFFERENCES_BYTES_LIMIT);
    enum error error =
        stream_definition_compare(there, there_binding, here, here_binding, &differences);
    if (!error && differences.length > 0)
        error = refuse_state(streams, &differences);
    buffer_release(&differences);
    return error;
}

/* Tail, epochs, lease, and the spelling of rows, may change from start to start. */
static enum error redefine(struct streams *streams, struct stream *stream,
                           const struct stream_definition *first)
{
    struct stream_definition copy;
    struct buffer text;
    enum error error = stream_definition_copy(first, &copy);
    if (error)
        return error;
    stream_definition_release(&stream->definition);
    stream->definition = copy;
    stream->ledger.lease_ms = copy.lease_ms;
    error = streams_write_definition(stream, &text);
    if (!error) {
        struct entry entry = {.type = ENTRY_DEFINE,
                              .stream = stream->number,
                              .worker = -1,
                              .text = text.data,
                              .text_bytes = text.length};
        error = streams_append(streams, &entry);
    }
    buffer_release(&text);
    return error == ERROR_NO_SPACE ? OK : error; /* a change without a draw can wait */
}

static bool is_same(const struct stream_definition *a, const struct stream_definition *b)
{
    return a->tail == b->tail && a->epochs == b->epochs && a->lease_ms == b->lease_ms &&
           a->rows_begin == b->rows_begin && a->rows_end == b->rows_end && a->split == b->split &&
           strcmp(a->frame, b->frame) == 0;
}

static enum error take_default(struct streams *streams, struct stream *stream,
                               const struct stream_definition *first, struct sampling_plan *plan)
{
    enum error error =
        compare_default(streams, &stream->definition, &stream->binding, first, &plan->binding);
    if (error)
        return error;
    sampling_plan_take(plan);
    stream->plan = plan;
    return OK;
}

static enum error make_default(struct streams *streams, const struct stream_definition *first,
                               struct sampling_plan *plan)
{
    struct stream_definition copy;
    struct stream *stream;
    enum error error = stream_definition_copy(first, &copy);
    if (error)
        return error;
    sampling_plan_take(plan);
    error = stream_new(streams, &copy, &plan->binding, plan, 0, 1, &stream);
    if (error)
        return error;
    error = streams_insert(streams, stream);
    if (error)
        stream_put(stream);
    return error;
}

/* ---- the others --------------------------------------------------------- */

static void set_aside(const struct frame_set *frames, const struct stream *stream)
{
    const struct named_frame *named;
    if (frame_set_get(frames, stream->definition.frame, &named))
        log_error("%s; stream %s is not served, but stays as it is in the state", error_message(),
                  stream->definition.name);
}

static enum error reopen(struct streams *streams, const struct frame_set *frames,
                         const struct split_shares *shares, struct stream *stream)
{
    struct buffer differences = BUFFER_INIT(DIFFERENCES_BYTES_LIMIT);
    struct sampling_plan *plan;
    if (!frame_set_find(frames, stream->definition.frame)) {
        set_aside(frames, stream);
        return OK;
    }
    enum error error = sampling_plan_open(frames, shares, &stream->definition, &plan);
    if (error)
        return error_prefix(
            error == ERROR_CANCELLED || error == ERROR_MEMORY ? error : ERROR_CONFLICT,
            "stream \"%s\" of state folder %s, on frame \"%s\": ", stream->definition.name,
            state_folder(streams->options.state), stream->definition.frame);
    stream->plan = plan;
    error = stream_definition_compare(&stream->definition, &stream->binding, &stream->definition,
                                      &plan->binding, &differences);
    if (!error && differences.length > 0)
        error = error_set(ERROR_CONFLICT,
                          "stream \"%s\" of state folder %s, on frame \"%s\", belongs to another "
                          "order: %s. Start with the frame of before, or without this frame: then "
                          "the stream waits for it, and can be deleted",
                          stream->definition.name, state_folder(streams->options.state),
                          stream->definition.frame, differences.data + 2);
    buffer_release(&differences);
    return error;
}

/* ---- start and end ------------------------------------------------------ */

static enum error open_journal(struct streams *streams)
{
    const struct journal_owner owner = {
        .mutex = &streams->mutex,
        .ledgers = streams,
        .replay = streams_replay,
        .write = streams_write,
        .ledgers_new = streams_ledgers_new,
        .ledgers_free = streams_ledgers_free,
        .undo = streams_undo,
        .take_back = streams_take_back,
    };
    return journal_open(streams->options.state, streams->options.durability,
                        streams->options.accept_loss, &owner, &streams->journal);
}

/* From here on the state is ours: the journal is on the disk before the first draw, and so is the
 * folder's own name, even if its creator was killed. */
static enum error settle(struct streams *streams, const struct stream_definition *first)
{
    struct journal *journal = streams->journal;
    struct stream *stream = streams_find(streams, STREAM_DEFAULT);
    enum error error = journal ? journal_begin(journal) : OK;
    if (!error && !is_same(&stream->definition, first))
        error = redefine(streams, stream, first);
    if (error)
        return error;
    if (journal)
        file_sync_above(state_folder(streams->options.state));
    for (size_t i = 0; i < streams->count; i++) /* leases begin last: all before may take long */
        ledger_start(&streams->items[i]->ledger, stream_clock_ms());
    return journal ? committer_new(journal, &streams->committer) : OK;
}

enum error streams_open(const struct streams_options *options, struct streams **ret_streams)
{
    enum error error = OK;
    struct streams *streams = array_new(1, sizeof(*streams), "the streams");
    if (!streams)
        return ERROR_MEMORY;
    streams->options = *options;
    pthread_mutex_init(&streams->mutex, NULL);
    if (options->state)
        error = open_journal(streams);
    if (error) {
        (void)streams_free(streams);
        return error;
    }
    *ret_streams = streams;
    return OK;
}

bool streams_kept_seed(const struct streams *streams, uint64_t *ret_seed)
{
    const struct stream *stream = streams_find(streams, STREAM_DEFAULT);
    if (stream)
        *ret_seed = stream->definition.seed;
    return stream != NULL;
}

bool streams_can_wait_for(const struct streams *streams, const char *frame)
{
    const struct stream *first = streams_find(streams, STREAM_DEFAULT);
    bool found = false;
    if (!first || strcmp(first->definition.frame, frame) == 0)
        return false;
    for (size_t i = 0; i < streams->count && !found; i++)
        found = strcmp(streams->items[i]->definition.frame, frame) == 0;
    return found;
}

enum error streams_start(struct streams *streams, const struct frame_set *frames,
                         const struct split_shares *shares, const struct stream_definition *first,
                         struct sampling_plan *plan)
{
    struct stream *stream = streams_find(streams, STREAM_DEFAULT);
    enum error error =
        stream ? take_default(streams, stream, first, plan) : make_default(streams, first, plan);
    sampling_plan_put(plan);
    for (size_t i = 0; i < streams->count && !error; i++) {
        if (!streams->items[i]->plan)
            error = reopen(streams, frames, shares, streams->items[i]);
    }
    return error ? error : settle(streams, first);
}

enum error streams_finish(struct streams *streams)
{
    return streams->committer ? committer_finish(streams->committer) : OK;
}
