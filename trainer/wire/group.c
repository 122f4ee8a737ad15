/* SPDX-License-Identifier: MIT */
#include "trainer/wire/group.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(sizeof(struct group_place) == 152, "as it is sent");

uint64_t group_frame_limit(size_t state_count)
{
    return sizeof(struct group_place) + INDEX_SET_LIMIT * sizeof(struct index_range) +
           state_count * sizeof(float);
}

static enum error check(const struct wire_header *header, const struct group_place *place)
{
    if (place->ranks < 1 || place->ranks > GROUP_RANKS_LIMIT || place->rank >= place->ranks ||
        place->source >= place->ranks)
        return error_set(ERROR_INPUT,
                         "GROUP with rank %" PRIu32 " of %" PRIu32 ", values from rank %" PRIu32,
                         place->rank, place->ranks, place->source);
    if (header->batch < 1 || header->step < 0 || place->last < header->step)
        return error_set(ERROR_INPUT, "GROUP %" PRId64 " from step %" PRId64 " to step %" PRId64,
                         header->batch, header->step, place->last);
    if (place->has_id == 0 && place->rank != 0)
        return error_set(ERROR_INPUT, "GROUP without an id for rank %" PRIu32, place->rank);
    return OK;
}

enum error group_frame_read(const struct wire_header *header, const void *payload,
                            size_t state_count, struct group_frame *ret_frame)
{
    uint64_t ranges = (uint64_t)header->stock * sizeof(struct index_range);
    uint64_t before = sizeof(struct group_place) + ranges;
    uint64_t floats = header->shared ? state_count * sizeof(float) : 0;
    *ret_frame = (struct group_frame){.state = NULL};
    if (header->bytes != before + floats)
        return error_set(ERROR_INPUT,
                         "GROUP with %" PRIu32 " ranges in %" PRIu64 " bytes, not %" PRIu64,
                         header->stock, header->bytes, before + floats);
    memcpy(&ret_frame->place, payload, sizeof(ret_frame->place));
    enum error error = check(header, &ret_frame->place);
    const char *rest = (const char *)payload + sizeof(struct group_place);
    if (!error)
        error = wire_ranges_read(rest, header->stock, &ret_frame->applied);
    if (!error && header->shared)
        ret_frame->state = (const float *)(const void *)(rest + ranges);
    return error;
}

void group_frame_release(struct group_frame *frame)
{
    index_set_release(&frame->applied);
}
