/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "common/array.h"
#include "sampler/frame/packed.h"

unsigned packed_width(uint64_t largest)
{
    if (largest <= UINT8_MAX)
        return 1;
    if (largest <= UINT16_MAX)
        return 2;
    return largest <= UINT32_MAX ? 4 : 8;
}

enum error packed_init(struct packed *packed, size_t count, uint64_t largest, const char *what)
{
    unsigned width = packed_width(largest);
    void *data = array_new(count, width, what);
    if (!data)
        return ERROR_MEMORY;
    *packed = (struct packed){.data = data, .count = count, .width = width, .is_owned = true};
    return OK;
}

void packed_release(struct packed *packed)
{
    if (packed->is_owned)
        free(packed->data);
    *packed = (struct packed){.width = packed->width};
}
