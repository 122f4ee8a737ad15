/* SPDX-License-Identifier: MIT */
#include "trainer/events/record.h"

#include <string.h>

#include "common/crc32c.h"

/* A CRC of bytes that contain CRCs is weak: the format rotates them and adds a constant. */
static uint32_t masked(const void *bytes, size_t length)
{
    uint32_t crc = crc32c_add(0, bytes, length);
    return ((crc >> 15) | (crc << 17)) + UINT32_C(0xa282ead8);
}

#define HEAD_BYTES 12 /* length and its CRC */
#define TAIL_BYTES 4  /* CRC of the bytes */

uint8_t *record_begin(struct buffer *out, size_t length)
{
    if (buffer_reserve(out, HEAD_BYTES + length + TAIL_BYTES))
        return NULL;
    return (uint8_t *)out->data + out->length + HEAD_BYTES;
}

void record_end(struct buffer *out, size_t length)
{
    char *head = out->data + out->length;
    uint64_t size = length;
    uint32_t size_crc = masked(&size, sizeof(size));
    uint32_t crc = masked(head + HEAD_BYTES, length);
    memcpy(head, &size, sizeof(size));
    memcpy(head + sizeof(size), &size_crc, sizeof(size_crc));
    memcpy(head + HEAD_BYTES + length, &crc, sizeof(crc));
    out->length += HEAD_BYTES + length + TAIL_BYTES;
    out->data[out->length] = '\0';
}
