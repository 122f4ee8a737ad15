/* SPDX-License-Identifier: MIT */
#define XXH_STATIC_LINKING_ONLY
#include "sampler/frame/frame_digester.h"

#include <stdlib.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/team.h"
#include "sampler/frame/frame_private.h"

#define DIGESTING "the frame's digest was computed"
#define STEP 4096
#define BLOCK 262144 /* rows that one thread reads at a time; hashed in order */

void frame_digester_bytes(struct frame_digester *digester, const void *bytes, size_t length)
{
    XXH3_128bits_update(digester->state, bytes, length);
}

static void add_number(struct frame_digester *digester, uint64_t number)
{
    frame_digester_bytes(digester, &number, sizeof(number));
}

enum error frame_digester_init(struct frame_digester *digester, int64_t units)
{
    static const char magic[] = "tombola frame 1\n";
    digester->run_first = digester->run_count = 0;
    digester->number_count = 0;
    digester->state = XXH3_createState();
    if (!digester->state)
        return error_set_memory(sizeof(XXH3_state_t), "a digest");
    XXH3_128bits_reset(digester->state);
    frame_digester_bytes(digester, magic, sizeof(magic) - 1);
    add_number(digester, (uint64_t)units);
    return OK;
}

void frame_digester_release(struct frame_digester *digester)
{
    XXH3_freeState(digester->state);
    digester->state = NULL;
}

/* ---- ids ---------------------------------------------------------------- */

static void flush(struct frame_digester *digester)
{
    frame_digester_bytes(digester, digester->numbers,
                         digester->number_count * sizeof(*digester->numbers));
    digester->number_count = 0;
}

static void add_pair(struct frame_digester *digester, uint64_t first, uint64_t second)
{
    if (digester->number_count == FRAME_DIGESTER_NUMBERS)
        flush(digester);
    digester->numbers[digester->number_count++] = first;
    digester->numbers[digester->number_count++] = second;
}

void frame_digester_id_run(struct frame_digester *digester, uint64_t first, uint64_t count)
{
    if (digester->run_count > 0 && first == digester->run_first + digester->run_count) {
        digester->run_count += count;
        return;
    }
    if (digester->run_count > 0)
        add_pair(digester, digester->run_first, digester->run_count);
    digester->run_first = first;
    digester->run_count = count;
}

#define DEFINE_IDS(name, type)                                                \
    void name(struct frame_digester *digester, const type *ids, size_t count) \
    {                                                                         \
        for (size_t begin = 0, i = 1; begin < count; begin = i++) {           \
            while (i < count && ids[i] == (uint64_t)ids[i - 1] + 1)           \
                i++;                                                          \
            frame_digester_id_run(digester, ids[begin], i - begin);           \
        }                                                                     \
    }

DEFINE_IDS(frame_digester_ids, uint64_t)
DEFINE_IDS(frame_digester_ids32, uint32_t)

void frame_digester_end_ids(struct frame_digester *digester)
{
    if (digester->run_count > 0)
        add_pair(digester, digester->run_first, digester->run_count);
    add_pair(digester, 0, 0);
    flush(digester);
}

/* ---- columns ------------------------------------------------------------ */

void frame_digester_no_categories(struct frame_digester *digester)
{
    add_number(digester, 0);
}

void frame_digester_categories(struct frame_digester *digester, const struct dictionary *dictionary,
                               bool is_cyclic, uint32_t shift)
{
    add_number(digester, 1 + (uint64_t)dictionary->are_integers);
    add_number(digester, dictionary->count);
    frame_digester_bytes(digester, dictionary->texts, dictionary->text_bytes);
    add_number(digester, is_cyclic);
    if (is_cyclic)
        add_number(digester, shift);
}

void frame_digester_weights(struct frame_digester *digester, bool there)
{
    add_number(digester, there);
}

void frame_digester_finish(struct frame_digester *digester, struct frame_digest *ret_digest)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(digester->state));
    for (size_t i = 0; i < sizeof(ret_digest->bytes); i++)
        ret_digest->bytes[i] = canonical.digest[i];
}

/* ---- a frame that is there ---------------------------------------------- */

/* Rows that all threads read together, then one hashes. */
static size_t round_rows(int64_t rows)
{
    int64_t most = (int64_t)BLOCK * team_hands();
    return (size_t)(rows < most ? rows : most);
}

struct id_round {
    const struct id_column *ids;
    int64_t first;
    int64_t *values; /* [round_rows()] */
};

static enum error read_ids(void *context, int64_t begin, int64_t end)
{
    const struct id_round *round = context;
    id_column_read(round->ids, round->first + begin, (size_t)(end - begin), round->values + begin);
    return OK;
}

static enum error add_stored_ids(struct frame_digester *digester, const struct id_column *ids)
{
    size_t rows = round_rows(ids->count);
    struct id_round round = {.ids = ids, .values = array_new(rows, sizeof(int64_t), "a digest")};
    enum error error = round.values ? OK : ERROR_MEMORY;
    while (round.first < ids->count && !error) {
        int64_t left = ids->count - round.first;
        size_t count = left < (int64_t)rows ? (size_t)left : rows;
        error = team_run_blocks(DIGESTING, (int64_t)count, BLOCK, read_ids, &round);
        if (!error)
            frame_digester_ids(digester, (const uint64_t *)round.values, count);
        round.first += (int64_t)count;
    }
    free(round.values);
    return error;
}

static enum error add_id_column(struct frame_digester *digester, const struct id_column *ids)
{
    enum error error = OK;
    if (ids->is_consecutive)
        frame_digester_id_run(digester, (uint64_t)ids->first, (uint64_t)ids->count);
    else
        error = add_stored_ids(digester, ids);
    frame_digester_end_ids(digester);
    return error;
}

struct code_round {
    const struct partition *partition;
    int64_t first;
    struct packed codes; /* [round_rows()], of the width of the canonical form */
};

static enum error read_codes(void *context, int64_t begin, int64_t end)
{
    struct code_round *round = context;
    uint32_t categories[STEP];
    for (int64_t at = begin; at < end;) {
        size_t count = end - at < STEP ? (size_t)(end - at) : STEP;
        partition_read_categories(round->partition, round->first + at, count, categories);
        for (size_t i = 0; i < count; i++)
            packed_set(&round->codes, (size_t)at + i, categories[i]);
        at += (int64_t)count;
    }
    return OK;
}

/* Adds the codes in the width of the canonical form; the frame may store them wider. */
static enum error add_codes(struct frame_digester *digester, const struct partition *partition)
{
    size_t rows = round_rows(partition->units);
    struct code_round round = {.partition = partition};
    enum error error = packed_init(&round.codes, rows, partition->count - 1, "a digest");
    while (round.first < partition->units && !error) {
        int64_t left = partition->units - round.first;
        size_t count = left < (int64_t)rows ? (size_t)left : rows;
        error = team_run_blocks(DIGESTING, (int64_t)count, BLOCK, read_codes, &round);
        if (!error)
            frame_digester_bytes(digester, round.codes.data, count * round.codes.width);
        round.first += (int64_t)count;
    }
    packed_release(&round.codes);
    return error;
}

static enum error add_partition(struct frame_digester *digester, const struct partition *partition,
                                bool is_there)
{
    if (!is_there) {
        frame_digester_no_categories(digester);
        return OK;
    }
    frame_digester_categories(digester, &partition->dictionary, partition_is_cyclic(partition),
                              partition->shift);
    return partition_is_cyclic(partition) ? OK : add_codes(digester, partition);
}

enum error frame_digest_compute(struct frame *frame)
{
    struct frame_digester digester;
    enum error error = frame_digester_init(&digester, frame->units);
    if (error)
        return error;
    error = add_id_column(&digester, &frame->ids);
    if (!error)
        error = add_partition(&digester, &frame->labels, frame->has_labels);
    frame_digester_weights(&digester, frame->weights != NULL);
    if (frame->weights)
        frame_digester_bytes(&digester, frame->weights, (size_t)frame->units * sizeof(double));
    if (!error)
        error = add_partition(&digester, &frame->groups, frame->has_groups);
    if (!error)
        frame_digester_finish(&digester, &frame->digest);
    frame_digester_release(&digester);
    return error;
}
