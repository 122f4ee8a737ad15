/*
 * The folder of `--state DIR`: where a stream stands, in a file that survives kill -9 and power
 * loss at any instant.
 *
 * DIR/position holds two slots of 4 KiB that are written alternately; each carries a sequence
 * number and a checksum. A write that was cut short damages one slot only, and the other one is the
 * state before it. DIR/lock is locked as long as the state is open, so that two servers never share
 * a folder. SERVING.md has the layout byte by byte.
 *
 * Not for several threads at once: the stream (sampler/stream.h) orders the calls.
 */
#ifndef SAMPLER_STATE_H
#define SAMPLER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame.h"

#define STATE_SLOT_BYTES 4096
#define STATE_DESIGN_BYTES 32

/* What the position belongs to. A position means something only in this one order. */
struct state_binding {
    struct frame_digest digest;
    int64_t units;                   /* N, for messages */
    int64_t epoch_positions;         /* M */
    char design[STATE_DESIGN_BYTES]; /* NUL-terminated */
    bool replacement;
    uint64_t seed;
};

struct state_record {
    struct state_binding binding;
    int64_t position; /* the next position to be drawn */
    int64_t batches;  /* drawn so far */
};

struct state;

/* Makes the folder if it is missing, locks it, and reads what is kept. ERROR_CONFLICT when another
 * server has it; ERROR_INPUT when both slots are damaged or are of another format. */
enum error state_open(const char *folder, struct state **ret_state) MUST_CHECK;
/* Closes and unlocks; writes nothing. NULL is legal. */
void state_close(struct state *state);

/* What the folder held when it was opened, or NULL when it was new. Borrowed until state_close().
 */
const struct state_record *state_kept(const struct state *state);

/* Before the first write: checks what is kept against `binding` (ERROR_CONFLICT names each
 * difference), or creates DIR/position, both slots at position 0, fsynced. */
enum error state_bind(struct state *state, const struct state_binding *binding) MUST_CHECK;

/* Writes the next slot; with `sync` it is on the disk when this returns. Blocks. After a failure
 * (ERROR_NO_SPACE, ERROR_IO) the other slot still holds the last good record, and the next write
 * takes the failed slot again. */
enum error state_write(struct state *state, int64_t position, int64_t batches,
                       bool sync) MUST_CHECK;

/* One slot as bytes and back; state_slot_decode() is false for anything damaged. */
void state_slot_encode(const struct state_record *record, uint64_t sequence,
                       uint8_t out[STATE_SLOT_BYTES]);
bool state_slot_decode(const uint8_t bytes[STATE_SLOT_BYTES], struct state_record *ret_record,
                       uint64_t *ret_sequence);

#endif
