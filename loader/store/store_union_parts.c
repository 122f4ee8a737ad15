/* SPDX-License-Identifier: MIT */
#include "loader/store/store_union_parts.h"

#include <string.h>

#include "common/text.h"

size_t union_part_of(const struct union_store *store, int64_t row)
{
    size_t low = 0, high = store->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (store->parts[middle].first_row <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double union_label(const struct union_store *store, const struct union_part *part, double label)
{
    double number;
    char text[TEXT_INTEGER_BYTES];
    if (part->labels)
        return part->labels[(size_t)label];
    if (store->labels.kind != LABEL_TEXT)
        return label;
    size_t length = (size_t)(text_write_integer(text, (int64_t)label) - text);
    return label_value(&store->labels, text, length, &number) ? number : 0;
}

bool union_widens(const struct union_store *store, const struct union_part *part)
{
    return store->store.info.element == ELEMENT_F32 && part->store->info.element == ELEMENT_U8;
}

void union_widen(const uint8_t *from, size_t count, void *to)
{
    for (size_t i = 0; i < count; i++) {
        float value = from[i];
        memcpy((uint8_t *)to + i * sizeof(value), &value, sizeof(value));
    }
}
