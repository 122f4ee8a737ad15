/* SPDX-License-Identifier: MIT */
/* Covers trainer/compute/gradient_clip: on every device there is. */
#include "tests/unit/kernel_unit.h"
#include "trainer/compute/gradient_clip.h"

static double norm_of(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

/* By hand: a gradient (3, 4) has the norm 5. */
static void test_by_example(void **state)
{
    open_kernel(state);
    assert_ok(kernel_reserve(kernel, 1, 1));
    struct array gradient = array_of(2, 0);
    static const struct {
        struct gradient_clip clip;
        float clipped[2];
    } examples[] = {
        {{2.5f, 0}, {1.5f, 2}},  {{5, 0}, {3, -4}}, {{6, 0}, {3, -4}}, {{0, 0}, {3, -4}},
        {{0, 3.5f}, {3, -3.5f}}, {{0, 1}, {1, -1}}, {{0, 4}, {3, -4}},
    };
    for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
        gradient.host[0] = 3;
        gradient.host[1] = -4;
        send(&gradient);
        assert_ok(kernel_clip(kernel, &examples[i].clip, gradient.there, 2));
        fetch(&gradient);
        assert_true(gradient.host[0] == examples[i].clipped[0]);
        assert_true(fabsf(gradient.host[1]) == fabsf(examples[i].clipped[1]));
        assert_true(gradient.host[1] < 0);
    }
    release(&gradient);
    close_kernel();
}

static void check_norm(size_t count, float limit)
{
    struct array gradient = sent_array(count, 70);
    float *before = malloc(count * sizeof(*before));
    assert_non_null(before);
    memcpy(before, gradient.host, count * sizeof(*before));
    double norm = norm_of(before, count), factor = norm > (double)limit ? (double)limit / norm : 1;
    struct gradient_clip clip = {.norm = limit};
    assert_ok(kernel_clip(kernel, &clip, gradient.there, count));
    fetch(&gradient);
    for (size_t i = 0; i < count; i++)
        assert_true(fabs(gradient.host[i] - before[i] * factor) <= 2e-7 * fabs((double)before[i]));
    if (factor < 1)
        assert_true(fabs(norm_of(gradient.host, count) / (double)limit - 1) < 1e-6);
    else
        assert_memory_equal(gradient.host, before, count * sizeof(*before));
    free(before);
    release(&gradient);
}

static void test_the_norm_is_of_all_parameters(void **state)
{
    open_kernel(state);
    assert_ok(kernel_reserve(kernel, 1, 1));
    static const size_t counts[] = {5, 15, 16, 17, 300, 79510, 4096 * 256 + 300};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        check_norm(counts[i], 0.5f);
        check_norm(counts[i], 1e6f);
    }
    close_kernel();
}

static void test_values_stay_within(void **state)
{
    open_kernel(state);
    struct array gradient = sent_array(1003, 90);
    float before[1003];
    memcpy(before, gradient.host, sizeof(before));
    struct gradient_clip clip = {.value = 0.25f};
    assert_ok(kernel_clip(kernel, &clip, gradient.there, 1003));
    fetch(&gradient);
    for (size_t i = 0; i < 1003; i++)
        assert_true(gradient.host[i] == fminf(fmaxf(before[i], -0.25f), 0.25f));
    release(&gradient);
    close_kernel();
}

/* A training that diverges is to be seen, not to stand still. */
static void test_what_is_not_finite_stays(void **state)
{
    open_kernel(state);
    assert_ok(kernel_reserve(kernel, 1, 1));
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        struct array gradient = sent_array(50, 100);
        gradient.host[33] = bad[i];
        send(&gradient);
        float kept = gradient.host[0];
        struct gradient_clip clip = {.norm = 1e-3f};
        assert_ok(kernel_clip(kernel, &clip, gradient.there, 50));
        fetch(&gradient);
        assert_true(gradient.host[0] == kept);
        assert_true(!isfinite(gradient.host[33]));
        release(&gradient);
    }
    struct array gradient = sent_array(50, 100);
    gradient.host[7] = NAN;
    send(&gradient);
    struct gradient_clip clip = {.value = 1e-3f};
    assert_ok(kernel_clip(kernel, &clip, gradient.there, 50));
    fetch(&gradient);
    assert_true(isnan(gradient.host[7]));
    release(&gradient);
    close_kernel();
}

/* Squares of the largest floats do not overflow, nor do those of the smallest vanish. */
static void test_sizes_at_the_ends(void **state)
{
    open_kernel(state);
    assert_ok(kernel_reserve(kernel, 1, 1));
    static const float sizes[] = {3e38f, 2e-38f};
    for (size_t i = 0; i < 2; i++) {
        struct array gradient = array_of(4, 0);
        for (size_t j = 0; j < 4; j++)
            gradient.host[j] = sizes[i];
        send(&gradient);
        struct gradient_clip clip = {.norm = sizes[i]};
        assert_ok(kernel_clip(kernel, &clip, gradient.there, 4));
        fetch(&gradient);
        for (size_t j = 0; i == 0 && j < 4; j++)
            assert_true(gradient.host[j] == sizes[i] / 2);
        for (size_t j = 0; i == 1 && j < 4; j++) /* half of it is denormal: zero on some devices */
            assert_true(gradient.host[j] <= sizes[i] / 2);
        release(&gradient);
    }
    close_kernel();
}

static void test_bad_limits_are_refused(void **state)
{
    (void)state;
    static const struct gradient_clip bad[] = {{-1, 0}, {NAN, 0}, {INFINITY, 0}};
    for (size_t i = 0; i < 3; i++) {
        struct gradient_clip turned = {bad[i].value, bad[i].norm};
        assert_fails(gradient_clip_check(&bad[i]), ERROR_USAGE, "clip norm is");
        assert_fails(gradient_clip_check(&turned), ERROR_USAGE, "clip value is");
    }
    struct gradient_clip none = {0, 0};
    assert_ok(gradient_clip_check(&none));
    assert_false(gradient_clip_is_on(&none));
}

static const struct CMUnitTest tests[] = {
    ON_EACH_DEVICE(test_by_example),         ON_EACH_DEVICE(test_the_norm_is_of_all_parameters),
    ON_EACH_DEVICE(test_values_stay_within), ON_EACH_DEVICE(test_what_is_not_finite_stays),
    ON_EACH_DEVICE(test_sizes_at_the_ends),  cmocka_unit_test(test_bad_limits_are_refused),
};

UNIT_MAIN(tests)
