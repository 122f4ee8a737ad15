/* SPDX-License-Identifier: MIT */
/*
 * TFRecord, the framing of event files: u64 length, u32 masked CRC-32C of those 8 bytes, the bytes,
 * u32 masked CRC-32C of them; little-endian.
 */
#ifndef TRAINER_EVENTS_RECORD_H
#define TRAINER_EVENTS_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

/* Room for a record of `length` bytes behind what `out` holds: where they are to be written. NULL:
 * there is none, as out->error says. */
uint8_t *record_begin(struct buffer *out, size_t length);
/* They are written: adds the record. */
void record_end(struct buffer *out, size_t length);

#endif
