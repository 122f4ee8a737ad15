/*
 * The digest: XXH3-128 over one canonical form of the list in frame order, whatever store it came
 * from and however the frame keeps it. All integers little-endian, 64 bits unless said otherwise:
 *
 *   "tombola frame 1\n", N
 *   ids       (first, count) of each longest run of consecutive ascending ids; (0, 0) ends them
 *   labels    0 when there is no such column; else 1 + are_integers, L, the names with their NULs
 *             in order, then 1 and the label of row 0 when label(row) = (row + that) mod L
 *             throughout, else 0 and N codes of 8 bits (L <= 2^8), 16 (L <= 2^16) or 32
 *   weights   0, or 1 and N doubles
 *   groups    as labels
 */
#define XXH_STATIC_LINKING_ONLY /* the state may live on the stack */
#include <xxhash.h>

#include "common/array.h"
#include "sampler/frame_private.h"

#define CODES_STEP 8192

static void add_number(XXH3_state_t *state, uint64_t number)
{
    XXH3_128bits_update(state, &number, sizeof(number));
}

/* Numbers that come singly and in millions: gathered, then hashed together. */
struct gathered {
    XXH3_state_t *state;
    uint64_t numbers[512];
    size_t count; /* even */
};

static void flush(struct gathered *gathered)
{
    XXH3_128bits_update(gathered->state, gathered->numbers,
                        gathered->count * sizeof(*gathered->numbers));
    gathered->count = 0;
}

static void add_pair(struct gathered *gathered, uint64_t first, uint64_t second)
{
    if (gathered->count == sizeof(gathered->numbers) / sizeof(*gathered->numbers))
        flush(gathered);
    gathered->numbers[gathered->count++] = first;
    gathered->numbers[gathered->count++] = second;
}

static void add_ids(XXH3_state_t *state, const struct id_column *ids)
{
    struct gathered gathered = {.state = state};
    uint64_t first = (uint64_t)ids->first;
    uint64_t count = 1;
    for (int64_t row = 1; row < ids->count && !ids->is_consecutive; row++) {
        uint64_t id = (uint64_t)id_column_get(ids, row);
        if (id == first + count) {
            count++;
            continue;
        }
        add_pair(&gathered, first, count);
        first = id;
        count = 1;
    }
    add_pair(&gathered, first, ids->is_consecutive ? (uint64_t)ids->count : count);
    add_pair(&gathered, 0, 0);
    flush(&gathered);
}

/* The codes in the width of the canonical form, which the frame may keep in a wider one. */
static enum error add_codes(XXH3_state_t *state, const struct partition *partition)
{
    size_t units = (size_t)partition->units;
    struct packed step = {.width = 1};
    enum error error = packed_init(&step, CODES_STEP, partition->count - 1, "a digest");
    if (error)
        return error;
    for (size_t row = 0; row < units;) {
        size_t count = units - row < CODES_STEP ? units - row : CODES_STEP;
        for (size_t i = 0; i < count; i++)
            packed_set(&step, i, packed_get(&partition->codes, row + i));
        XXH3_128bits_update(state, step.data, count * step.width);
        row += count;
    }
    packed_release(&step);
    return OK;
}

static enum error add_partition(XXH3_state_t *state, const struct partition *partition,
                                bool is_there)
{
    add_number(state, is_there ? 1 + (uint64_t)partition->names.are_integers : 0);
    if (!is_there)
        return OK;
    add_number(state, partition->count);
    XXH3_128bits_update(state, partition->names.texts, partition->names.text_bytes);
    add_number(state, partition->is_cyclic);
    if (!partition->is_cyclic)
        return add_codes(state, partition);
    add_number(state, partition->shift);
    return OK;
}

enum error frame_digest_compute(struct frame *frame)
{
    static const char magic[] = "tombola frame 1\n";
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, magic, sizeof(magic) - 1);
    add_number(&state, (uint64_t)frame->units);
    add_ids(&state, &frame->ids);
    enum error error = add_partition(&state, &frame->labels, frame->has_labels);
    if (error)
        return error;
    add_number(&state, frame->weights != NULL);
    if (frame->weights)
        XXH3_128bits_update(&state, frame->weights, (size_t)frame->units * sizeof(double));
    error = add_partition(&state, &frame->groups, frame->has_groups);
    if (error)
        return error;
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    for (size_t i = 0; i < sizeof(frame->digest.bytes); i++)
        frame->digest.bytes[i] = canonical.digest[i];
    return OK;
}
