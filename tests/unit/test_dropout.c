/* SPDX-License-Identifier: MIT */
/* Covers trainer/compute/dropout: on every device there is. */
#include "tests/unit/kernel_unit.h"
#include "tests/unit/statistics.h"
#include "trainer/compute/cpu_loops.h"

static struct dropout_mask mask_of(float share, uint64_t seed, int64_t batch, uint32_t layer)
{
    struct dropout_mask mask;
    dropout_mask_init(&mask, share, seed, batch, layer);
    return mask;
}

/* Which of `count` values are dropped, as 1 and 0. */
static uint8_t *dropped(const struct dropout_mask *mask, size_t count)
{
    float *values = malloc(count * sizeof(*values));
    uint8_t *bits = malloc(count);
    assert_true(values && bits);
    for (size_t i = 0; i < count; i++)
        values[i] = 1;
    cpu_loops_best()->drop(mask, values, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(values[i] == 0 || values[i] == mask->scale);
        bits[i] = values[i] == 0;
    }
    free(values);
    return bits;
}

/* Computed in Python by a Philox4x32-10 that gives its published known answers. */
static void test_words_are_those_of_the_definition(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        int64_t batch;
        uint32_t layer;
        uint64_t block;
        uint32_t words[4];
    } known[] = {
        {12345, 7, 1, 0, {0x895bf139, 0x4215ef12, 0x89281a51, 0xccdc04a2}},
        {12345, 7, 1, 1, {0x5fb6c453, 0xeb8ba5d0, 0xd4651d5e, 0xa4b5e8ae}},
        {INT64_MAX,
         (INT64_C(5) << 32) + 3,
         2,
         (UINT64_C(3) << 32) + 9,
         {0xa67bfb32, 0x8e0645a0, 0x24c6f520, 0x5380f291}},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        struct dropout_mask mask = mask_of(0.5f, known[i].seed, known[i].batch, known[i].layer);
        struct philox_block block = dropout_block(&mask, known[i].block);
        assert_memory_equal(block.word, known[i].words, sizeof(block.word));
    }
    /* Value 16 is word 1 of block 0; 0x4215ef12 is 0.258 of 2^32: dropped by 0.26, kept by 0.25. */
    float few[70];
    for (int i = 0; i < 70; i++)
        few[i] = (float)(i + 1);
    struct dropout_mask mask = mask_of(0.25f, 12345, 7, 1), more = mask_of(0.26f, 12345, 7, 1);
    cpu_loops_best()->drop(&mask, few, 69);
    assert_true(few[16] == 17 * (4 / 3.0f) && few[69] == 70);
    cpu_loops_best()->drop(&more, few, 17);
    assert_true(few[16] == 0);
}

static void test_every_processor_drops_what_the_definition_says(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    static const size_t counts[] = {0, 1, 15, 16, 17, 63, 64, 65, 127, 1000, 10007};
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
            struct dropout_mask mask = mask_of(0.4f, INT64_MAX - c, (INT64_C(7) << 40) + 3, 16);
            float *values = malloc((counts[c] + 1) * sizeof(*values));
            assert_non_null(values);
            for (size_t i = 0; i <= counts[c]; i++)
                values[i] = 3;
            loops->drop(&mask, values, counts[c]);
            for (size_t i = 0; i < counts[c]; i++)
                assert_true(values[i] == (is_dropped(&mask, i) ? 0 : 3 * mask.scale));
            assert_true(values[counts[c]] == 3);
            free(values);
        }
    }
}

/* Over seeds, batches, layers and units: chi-square of what is kept and dropped, 4 errors wide. */
static void test_the_share_is_kept_everywhere(void **state)
{
    (void)state;
    enum { MASKS = 400, COUNT = 10000, UNITS = 100 };
    static const float shares[] = {0.1f, 0.5f, 0.9f};
    for (size_t s = 0; s < 3; s++) {
        double share = (double)shares[s], chi_masks = 0, chi_units = 0;
        uint32_t units[UNITS] = {0};
        for (int m = 0; m < MASKS; m++) {
            struct dropout_mask mask =
                mask_of(shares[s], (uint64_t)(m / 20), m % 20 / 2, (uint32_t)m % 2);
            uint8_t *bits = dropped(&mask, COUNT);
            uint32_t sum = 0;
            for (size_t i = 0; i < COUNT; i++) {
                sum += bits[i];
                units[i % UNITS] += bits[i];
            }
            chi_masks += pow(sum - COUNT * share, 2) / (COUNT * share * (1 - share));
            free(bits);
        }
        double each = (double)MASKS * COUNT / UNITS;
        for (size_t u = 0; u < UNITS; u++)
            chi_units += pow(units[u] - each * share, 2) / (each * share * (1 - share));
        assert_true(fabs(statistics_errors(chi_masks, MASKS)) < 4);
        assert_true(fabs(statistics_errors(chi_units, UNITS)) < 4);
    }
}

/* Neighbours share a quarter of what each drops half of, as chance has it. */
static void test_seeds_batches_and_layers_are_independent(void **state)
{
    (void)state;
    enum { COUNT = 40000 };
    struct dropout_mask base = mask_of(0.5f, 7, 3, 1);
    const struct dropout_mask others[] = {mask_of(0.5f, 8, 3, 1), mask_of(0.5f, 7, 4, 1),
                                          mask_of(0.5f, 7, 3, 0), mask_of(0.5f, 7, 2, 0),
                                          mask_of(0.5f, 7, 3 + (INT64_C(1) << 32), 1)};
    uint8_t *first = dropped(&base, COUNT), *again = dropped(&base, COUNT);
    assert_memory_equal(first, again, COUNT);
    uint8_t *some = dropped(&base, 1001); /* a shorter batch */
    assert_memory_equal(first, some, 1001);
    free(some);
    free(again);
    for (size_t o = 0; o < sizeof(others) / sizeof(*others); o++) {
        uint8_t *other = dropped(&others[o], COUNT);
        double both = 0;
        for (size_t i = 0; i < COUNT; i++)
            both += first[i] & other[i];
        assert_true(fabs(both - COUNT / 4.0) < 4.5 * sqrt(COUNT * 3 / 16.0));
        free(other);
    }
    free(first);
}

static void test_the_ends_of_the_share(void **state)
{
    (void)state;
    float values[3] = {1.5f, -2, NAN};
    struct dropout_mask mask = mask_of(0, 1, 2, 3);
    cpu_loops_best()->drop(&mask, values, 3);
    assert_true(values[0] == 1.5f && values[1] == -2 && isnan(values[2]));
    mask = mask_of(0x1.fffffep-1f, 1, 2, 3); /* the largest float below 1 */
    assert_true(mask.threshold == UINT32_MAX - 255 && mask.scale == 0x1p24f);
    uint8_t *bits = dropped(&mask, 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(bits[i], 1);
    free(bits);
}

static void test_every_device_drops_the_same(void **state)
{
    open_kernel(state);
    static const size_t counts[] = {1, 3, 4, 5, 10000, 4 * 4096 * 256 + 7};
    for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
        struct array values = sent_array(counts[c], 100);
        void *sent_mask;
        float *wanted = malloc(counts[c] * sizeof(*wanted));
        struct dropout_mask mask = mask_of(0.3f, 99, (INT64_C(3) << 33) + 1, 2);
        assert_non_null(wanted);
        assert_ok(device_memory_new(device, sizeof(mask), &sent_mask));
        for (size_t i = 0; i < counts[c]; i++)
            wanted[i] = is_dropped(&mask, i) ? 0 : values.host[i] * mask.scale;
        assert_ok(device_copy_in(device, queue, sent_mask, &mask, sizeof(mask)));
        assert_ok(kernel_dropout(kernel, sent_mask, values.there, counts[c]));
        assert_ok(kernel_scale(kernel, values.there, counts[c], 0.7f));
        fetch(&values);
        for (size_t i = 0; i < counts[c]; i++) {
            volatile float scaled = wanted[i] * 0.7f;
            assert_true(values.host[i] == scaled);
        }
        free(wanted);
        device_memory_free(device, sent_mask);
        release(&values);
    }
    close_kernel();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_words_are_those_of_the_definition),
    cmocka_unit_test(test_every_processor_drops_what_the_definition_says),
    cmocka_unit_test(test_the_share_is_kept_everywhere),
    cmocka_unit_test(test_seeds_batches_and_layers_are_independent),
    cmocka_unit_test(test_the_ends_of_the_share),
    ON_EACH_DEVICE(test_every_device_drops_the_same),
};

UNIT_MAIN(tests)
