#define XXH_STATIC_LINKING_ONLY
#include "sampler/frame/frame_digester.h"

#include <xxhash.h>

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

void frame_digester_categories(struct frame_digester *digester, const struct dictionary *names,
                               bool is_cyclic, uint32_t shift)
{
    add_number(digester, 1 + (uint64_t)names->are_integers);
    add_number(digester, names->count);
    frame_digester_bytes(digester, names->texts, names->text_bytes);
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
