/* SPDX-License-Identifier: MIT */
#include "loader/unpack/packing.h"

#include <stdlib.h>
#include <string.h>

void unpack_point_release(struct unpack_point *point)
{
    free(point->window);
    *point = (struct unpack_point){.window = NULL};
}

/* A frame, or a skippable one (0x184D2A50 to 5F, little-endian), as pzstd writes first. */
static bool is_zstd(const uint8_t *head)
{
    return memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0 ||
           ((head[0] & 0xf0) == 0x50 && memcmp(head + 1, "\x2a\x4d\x18", 3) == 0);
}

const struct packing *packing_of(const uint8_t *head, size_t length)
{
    if (length >= 2 && head[0] == 0x1f && head[1] == 0x8b)
        return &gzip_packing;
    return length >= PACKING_HEAD_BYTES && is_zstd(head) ? &zstd_packing : NULL;
}
