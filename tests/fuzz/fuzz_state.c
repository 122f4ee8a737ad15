/* SPDX-License-Identifier: MIT */
/* A feed's state, as text that a program kept: an error with a message, or a state whose own text
 * says the same. The first byte chooses rank and world. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "loader/feed/rank_state.h"

#define TEXT_LIMIT (64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(const struct rank_state *state, const struct sampler_stream *stream)
{
    struct rank_state again = {
        .rank = state->rank, .world = state->world, .batch_rows = state->batch_rows};
    struct sampler_stream same;
    struct buffer text = BUFFER_INIT(TEXT_LIMIT);
    assert(state->first >= 0);
    struct sampler_stream printed = *stream;
    printed.epochs = 0; /* they do not count */
    if (!rank_state_print(state, &printed, &text)) {
        assert(!rank_state_parse(&again, text.data, &same));
        assert(again.first >= state->first); /* what lies beyond may close the gap */
        assert(strcmp(same.digest, stream->digest) == 0 && same.seed == stream->seed);
        rank_state_release(&again);
    }
    buffer_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length == 0)
        return 0;
    int64_t world = 1 + data[0] % 4;
    struct rank_state state = {.rank = data[0] / 4 % world, .world = world, .batch_rows = 100};
    struct sampler_stream stream;
    char *text = malloc(length); /* the sanitizer sees its end */
    if (!text)
        return 0;
    memcpy(text, data + 1, length - 1);
    text[length - 1] = '\0';
    if (!rank_state_parse(&state, text, &stream))
        check(&state, &stream);
    else
        assert(strlen(error_message()) > 10);
    rank_state_release(&state);
    free(text);
    return 0;
}
