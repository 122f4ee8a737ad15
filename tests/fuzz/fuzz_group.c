/* SPDX-License-Identifier: MIT */
/* What server 0, or who takes its place, answers a worker whose GPU exchanges gradients: whatever
 * comes, an error with a message, or a place whose ranges ascend and whose state is all there. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/wire/group.h"

#define FLOATS 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static volatile float sink; /* keeps the reads */

static void look(const struct wire_header *header, const struct group_frame *frame)
{
    const struct group_place *place = &frame->place;
    assert(place->rank < place->ranks && place->source < place->ranks);
    assert(place->ranks <= GROUP_RANKS_LIMIT && (place->has_id || place->rank == 0));
    assert(header->step >= 0 && place->last >= header->step);
    for (size_t i = 0; i < frame->applied.count; i++)
        assert(frame->applied.ranges[i].first >= 0 &&
               frame->applied.ranges[i].first < frame->applied.ranges[i].end);
    for (size_t i = 0; i < FLOATS && frame->state; i++)
        sink += frame->state[i];
}

/* Bytes of the header, then the payload, in memory that ends with it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct wire_header header;
    struct group_frame frame;
    if (length < sizeof(header) || length > 65536)
        return 0;
    memcpy(&header, data, sizeof(header));
    header.bytes = length - sizeof(header);
    if (header.bytes < sizeof(struct group_place) || header.bytes > group_frame_limit(FLOATS))
        return 0;
    void *payload = malloc(header.bytes);
    if (!payload)
        return 0;
    memcpy(payload, data + sizeof(header), header.bytes);
    if (group_frame_read(&header, payload, FLOATS, &frame))
        assert(strlen(error_message()) > 10);
    else
        look(&header, &frame);
    group_frame_release(&frame);
    free(payload);
    return 0;
}
