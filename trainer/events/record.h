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

/* Room to write a record of `length` bytes after the content of `out`. NULL: no room, see
 * out->error. */
uint8_t *record_begin(struct buffer *out, size_t length);
/* Adds the record once its bytes are written. */
void record_end(struct buffer *out, size_t length);

#endif
