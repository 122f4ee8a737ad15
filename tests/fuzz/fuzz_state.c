/* A slot of DIR/position. The first byte chooses whether its checksum is made to fit. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "sampler/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    uint8_t slot[STATE_SLOT_BYTES] = {0};
    uint8_t again[STATE_SLOT_BYTES];
    struct state_record record;
    struct state_record second;
    uint64_t sequence;
    if (length == 0)
        return 0;
    length = length - 1 < sizeof(slot) ? length - 1 : sizeof(slot);
    memcpy(slot, data + 1, length);
    if (data[0] % 2 == 0) {
        uint64_t sum = XXH3_64bits(slot, sizeof(slot) - sizeof(sum));
        memcpy(slot + sizeof(slot) - sizeof(sum), &sum, sizeof(sum));
    }
    if (!state_slot_decode(slot, &record, &sequence))
        return 0;
    check(record.position >= 0 && record.batches >= 0 && record.binding.units >= 1);
    check(strlen(record.binding.design) < sizeof(record.binding.design));
    state_slot_encode(&record, sequence, again);
    check(state_slot_decode(again, &second, &sequence));
    check(memcmp(&record.binding.digest, &second.binding.digest, 16) == 0);
    check(record.position == second.position && record.batches == second.batches);
    check(record.binding.seed == second.binding.seed);
    return 0;
}
