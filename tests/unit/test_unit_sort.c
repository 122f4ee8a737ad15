/* SPDX-License-Identifier: MIT */
/* Covers sampler/batch/unit_sort. */
#include "tests/unit/unit.h"

#include "sampler/batch/unit_sort.h"

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Sorts `count` ids below 2^bits; the label of an id is a function of it, so that pairs show. */
static void check(size_t count, int bits)
{
    uint64_t random = 0x9e3779b97f4a7c15 + count;
    size_t room = count ? count : 1;
    int64_t *ids = calloc(room, sizeof(*ids));
    int64_t *scratch_ids = calloc(room, sizeof(*ids));
    uint32_t *labels = calloc(room, sizeof(*labels));
    uint32_t *scratch_labels = calloc(room, sizeof(*labels));
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        ids[i] = (int64_t)(next_random(&random) & ((UINT64_C(1) << bits) - 1));
        labels[i] = (uint32_t)((uint64_t)ids[i] * 2654435761u >> 7);
        sum += (uint64_t)ids[i];
    }
    unit_sort(ids, labels, count, scratch_ids, scratch_labels);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            assert_true(ids[i - 1] <= ids[i]);
        assert_int_equal(labels[i], (uint32_t)((uint64_t)ids[i] * 2654435761u >> 7));
        sum -= (uint64_t)ids[i];
    }
    assert_int_equal(sum, 0);
    free(ids);
    free(scratch_ids);
    free(labels);
    free(scratch_labels);
}

static void test_every_count_and_width(void **state)
{
    (void)state;
    static const int widths[] = {1, 4, 8, 9, 16, 31, 32, 40, 63};
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        for (size_t count = 0; count <= 130; count++)
            check(count, widths[i]);
        check(70000, widths[i]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_count_and_width),
};

UNIT_MAIN(tests)
