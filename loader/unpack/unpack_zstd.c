/* SPDX-License-Identifier: MIT */
/* zstd by libzstd, which itself skips skippable frames, such as a seek table's. */
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/array.h"
#include "loader/unpack/packing.h"

struct zstd_state {
    ZSTD_DCtx *context;
    bool frame_ended; /* a frame was unpacked to its end */
};

static enum error open_state(void **ret_state)
{
    ZSTD_DCtx *context = ZSTD_createDCtx();
    struct zstd_state *state = array_new(1, sizeof(*state), "unpacking zstd");
    if (!state || !context) {
        ZSTD_freeDCtx(context);
        free(state);
        return error_set_memory(sizeof(*state), "unpacking zstd");
    }
    ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, UNPACK_WINDOW_LOG_LIMIT);
    state->context = context;
    *ret_state = state;
    return OK;
}

static void close_state(void *opaque)
{
    struct zstd_state *state = opaque;
    ZSTD_freeDCtx(state->context);
    free(state);
}

static enum error begin(void *opaque, const struct unpack_point *point)
{
    struct zstd_state *state = opaque;
    (void)point;
    state->frame_ended = false;
    ZSTD_DCtx_reset(state->context, ZSTD_reset_session_only);
    return OK;
}

static enum error refuse(const struct zstd_state *state, size_t result)
{
    switch (ZSTD_getErrorCode(result)) {
    case ZSTD_error_memory_allocation:
        return error_set_memory((size_t)1 << UNPACK_WINDOW_LOG_LIMIT, "unpacking zstd");
    case ZSTD_error_frameParameter_windowTooLarge:
        return error_set(ERROR_INPUT,
                         "the zstd frame needs a window of more than %d MiB; pack it without "
                         "--long, or with --long=%d at most",
                         1 << (UNPACK_WINDOW_LOG_LIMIT - 20), UNPACK_WINDOW_LOG_LIMIT);
    case ZSTD_error_prefix_unknown:
        if (state->frame_ended)
            return error_set(ERROR_INPUT,
                             "a zstd frame ends here, and what follows is not another one");
        break;
    default:
        break;
    }
    return error_set(ERROR_INPUT, "the zstd data is damaged (%s)", ZSTD_getErrorName(result));
}

static enum error step_state(void *opaque, struct unpack_step *step, enum unpack_place *ret_place)
{
    struct zstd_state *state = opaque;
    ZSTD_inBuffer in = {.src = step->in, .size = step->in_bytes};
    ZSTD_outBuffer out = {.dst = step->out, .size = step->out_bytes};
    size_t result = ZSTD_decompressStream(state->context, &out, &in);
    step->in_bytes -= in.pos;
    step->out_bytes -= out.pos;
    if (ZSTD_isError(result))
        return refuse(state, result);
    state->frame_ended |= result == 0;
    *ret_place = result == 0 ? UNPACK_BETWEEN : UNPACK_WITHIN;
    return OK;
}

static enum error mark(void *state, struct unpack_point *ret_point)
{
    (void)state;
    *ret_point = (struct unpack_point){.window = NULL};
    return OK;
}

static size_t memory_bytes(const void *state)
{
    return ZSTD_sizeof_DCtx(((const struct zstd_state *)state)->context);
}

const struct packing zstd_packing = {
    .name = "zstd",
    .open = open_state,
    .close = close_state,
    .begin = begin,
    .step = step_state,
    .mark = mark,
    .memory_bytes = memory_bytes,
};
