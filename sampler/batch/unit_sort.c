/* SPDX-License-Identifier: MIT */
#include "sampler/batch/unit_sort.h"

#include <string.h>

#define INSERTION_LIMIT 48

static void insertion_sort(int64_t *ids, uint32_t *labels, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int64_t id = ids[i];
        uint32_t label = labels[i];
        size_t at = i;
        for (; at > 0 && ids[at - 1] > id; at--) {
            ids[at] = ids[at - 1];
            labels[at] = labels[at - 1];
        }
        ids[at] = id;
        labels[at] = label;
    }
}

/* One stable pass by the byte at `shift`. */
static void pass(const int64_t *ids, const uint32_t *labels, size_t count, int shift,
                 int64_t *to_ids, uint32_t *to_labels)
{
    size_t starts[256] = {0};
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        starts[(uint64_t)ids[i] >> shift & 255]++;
    for (size_t byte = 0; byte < 256; byte++) {
        size_t here = starts[byte];
        starts[byte] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++) {
        size_t to = starts[(uint64_t)ids[i] >> shift & 255]++;
        to_ids[to] = ids[i];
        to_labels[to] = labels[i];
    }
}

void unit_sort(int64_t *ids, uint32_t *labels, size_t count, int64_t *scratch_ids,
               uint32_t *scratch_labels)
{
    if (count <= INSERTION_LIMIT) {
        insertion_sort(ids, labels, count);
        return;
    }
    int64_t *from_ids = ids;
    uint32_t *from_labels = labels;
    uint64_t differ = 0; /* bits in which any id differs from the first */
    for (size_t i = 1; i < count; i++)
        differ |= (uint64_t)(ids[i] ^ ids[0]);
    for (int shift = 0; shift < 64; shift += 8) {
        if ((differ >> shift & 255) == 0)
            continue;
        pass(from_ids, from_labels, count, shift, scratch_ids, scratch_labels);
        int64_t *swap_ids = from_ids;
        uint32_t *swap_labels = from_labels;
        from_ids = scratch_ids;
        from_labels = scratch_labels;
        scratch_ids = swap_ids;
        scratch_labels = swap_labels;
    }
    if (from_ids != ids) {
        memcpy(ids, from_ids, count * sizeof(*ids));
        memcpy(labels, from_labels, count * sizeof(*labels));
    }
}
