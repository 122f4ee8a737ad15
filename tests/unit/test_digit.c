/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/tool/digit: The digits of the demo data: the same everywhere, all ten about equally
 * often, none of them empty or outside its page, and no two of them the same.
 */
#include "tests/unit/unit.h"

#include "loader/tool/digit.h"

#define DRAWS (20000 / UNIT_LESS)

/* FNV-1a, 64 bits: enough to tell whether a byte changed. */
static uint64_t hash_digit(uint64_t hash, unsigned digit, const uint8_t *pixels)
{
    hash = (hash ^ digit) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < DIGIT_PIXELS; i++)
        hash = (hash ^ pixels[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_of(uint64_t seed, uint64_t first, uint64_t count)
{
    uint8_t pixels[DIGIT_PIXELS];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = first; i < first + count; i++) {
        unsigned digit = digit_draw(seed, i, pixels);
        hash = hash_digit(hash, digit, pixels);
    }
    return hash;
}

static void same_bytes_for_the_same_seed_on_every_machine(void **state)
{
    (void)state;
    assert_int_equal(hash_of(1, 0, 1000), UINT64_C(0xc11385ed079d3884));
    assert_int_equal(hash_of(UINT64_MAX, UINT64_C(1) << 40, 100), UINT64_C(0xa0431d79c952ad3c));
    assert_int_not_equal(hash_of(2, 0, 1000), hash_of(1, 0, 1000));
}

static void every_digit_comes_about_equally_often(void **state)
{
    (void)state;
    uint8_t pixels[DIGIT_PIXELS];
    int count[DIGIT_KINDS] = {0};
    double chi_square = 0, expected = (double)DRAWS / DIGIT_KINDS;
    for (uint64_t i = 0; i < DRAWS; i++)
        count[digit_draw(7, i, pixels)]++;
    for (int d = 0; d < DIGIT_KINDS; d++)
        chi_square += (count[d] - expected) * (count[d] - expected) / expected;
    assert_true(chi_square < 27.9); /* 9 degrees of freedom, p = 0.001 */
}

static void every_digit_has_ink_and_paper(void **state)
{
    (void)state;
    uint8_t pixels[DIGIT_PIXELS];
    for (uint64_t i = 0; i < DRAWS; i++) {
        int ink = 0;
        digit_draw(3, i, pixels);
        for (size_t p = 0; p < DIGIT_PIXELS; p++)
            ink += pixels[p] > 100;
        assert_in_range(ink, 8, DIGIT_PIXELS / 2);
    }
}

static void no_two_digits_are_the_same(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static uint64_t seen[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        seen[i] = hash_of(5, i, 1);
        for (size_t k = 0; k < i; k++)
            assert_true(seen[k] != seen[i]);
    }
}

static void control_points_lie_near_the_field(void **state)
{
    (void)state;
    for (unsigned digit = 0; digit < DIGIT_KINDS; digit++) {
        size_t forms;
        const struct digit_form *form = digit_forms(digit, &forms);
        assert_true(forms >= 2);
        for (size_t f = 0; f < forms; f++) {
            assert_in_range(form[f].strokes, 1, 2);
            for (size_t s = 0; s < form[f].strokes; s++) {
                const struct digit_stroke *stroke = &form[f].stroke[s];
                assert_in_range(stroke->points, 2, DIGIT_STROKE_POINTS);
                for (size_t p = 0; p < stroke->points; p++) {
                    assert_in_range(stroke->point[p].x + 10, 0, 120);
                    assert_in_range(stroke->point[p].y + 10, 0, 120);
                }
            }
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(same_bytes_for_the_same_seed_on_every_machine),
    cmocka_unit_test(every_digit_comes_about_equally_often),
    cmocka_unit_test(every_digit_has_ink_and_paper),
    cmocka_unit_test(no_two_digits_are_the_same),
    cmocka_unit_test(control_points_lie_near_the_field),
};

UNIT_MAIN(tests)
