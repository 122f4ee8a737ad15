/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/compute/cpu_loops: Every variant of the CPU's loops that this machine can run,
 * against scalar C. Element-wise loops must agree bit for bit, products within rounding. Arrays
 * are exactly as long as needed, so that the address sanitizer sees a vector that reaches over an
 * end.
 */
#include "tests/unit/trainer_unit.h"
#include "trainer/compute/cpu_loops.h"

static const size_t lengths[] = {1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 100, 129};

/* `density` of 100 are not zero. Freed by the caller. */
static float *random_array(size_t count, unsigned density)
{
    float *values = malloc((count ? count : 1) * sizeof(*values));
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = random_sparse(density);
    }
    return values;
}

static float *copy_array(const float *values, size_t count)
{
    float *copy = malloc((count ? count : 1) * sizeof(*copy));
    assert_non_null(copy);
    memcpy(copy, values, count * sizeof(*copy));
    return copy;
}

static void assert_same(const struct cpu_loops *loops, const float *got, const float *wanted,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (isnan(got[i]) && isnan(wanted[i]))
            continue;
        if (memcmp(&got[i], &wanted[i], sizeof(float)) != 0)
            fail_msg("%s: element %zu of %zu is %a, not %a", loops->name, i, count, (double)got[i],
                     (double)wanted[i]);
    }
}

struct problem {
    size_t rows, columns, outputs;
    unsigned density;
};

static const struct problem problems[] = {
    {1, 1, 1, 100},     {1, 64, 10, 20},    {2, 65, 4, 50},      {31, 63, 16, 20},
    {32, 64, 17, 0},    {33, 130, 100, 20}, {100, 784, 100, 19}, {65, 200, 129, 30},
    {129, 40, 300, 10}, {3, 128, 128, 100},
};

static void check_index(const struct cpu_loops *loops, const struct sparse_batch *x)
{
    size_t count = 0;
    for (size_t row = 0; row < x->rows; row++) {
        for (size_t column = 0; column < x->columns; column++) {
            bool there = x->values[row * x->columns + column] != 0;
            bool by_row = x->row_bits[column / 64 * x->rows + row] >> (column % 64) & 1;
            bool by_column = x->column_bits[row / 64 * x->columns + column] >> (row % 64) & 1;
            if (there != by_row || there != by_column)
                fail_msg("%s: element %zu,%zu is indexed wrong", loops->name, row, column);
            count += there;
        }
    }
    assert_int_equal(count, x->count);
}

/* Both indexes of the batch in `count` parts, which begin and end anywhere. */
static void index_in_parts(const struct cpu_loops *loops, struct sparse_batch *x, size_t count)
{
    x->count = 0;
    for (size_t i = 0; i < count; i++)
        x->count +=
            sparse_batch_index(x, loops, x->row_words * i / count, x->row_words * (i + 1) / count);
    for (size_t i = 0; i < count; i++) {
        const struct sparse_part part = {x->columns * i / count, x->columns * (i + 1) / count, 0};
        sparse_batch_index_columns(x, &part);
    }
}

static void check_product(const struct cpu_loops *loops, size_t rows, size_t columns, size_t inner,
                          const float *a, size_t a_row, size_t a_inner, const float *b,
                          const float *start, const float *got)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            double sum = start ? start[i * columns + j] : 0, size = fabs(sum);
            for (size_t k = 0; k < inner; k++) {
                double term = (double)a[i * a_row + k * a_inner] * (double)b[k * columns + j];
                sum += term;
                size += fabs(term);
            }
            if (fabs(got[i * columns + j] - sum) > 1e-6 * size)
                fail_msg("%s: product[%zu,%zu] is %g, not %g", loops->name, i, j,
                         (double)got[i * columns + j], sum);
        }
    }
}

/* Both products in `count` parts, which begin and end anywhere and have scratch of their own. The
 * parts of the first add to one result, in order: the same bits as in one part. */
static void multiply_in_parts(const struct cpu_loops *loops, const struct sparse_batch *x,
                              size_t count, const float *weights, size_t outputs, float *y,
                              const float *y_gradient, float *ret_weights_gradient)
{
    for (size_t i = 0; i < count; i++) {
        const struct sparse_part part = {x->columns * i / count, x->columns * (i + 1) / count,
                                         (unsigned)(i * 3 % SPARSE_BATCH_PARTS)};
        loops->multiply(x, &part, weights, outputs, y);
        loops->multiply_transposed(x, &part, y_gradient, outputs, ret_weights_gradient);
    }
}

static void check_parts(const struct cpu_loops *loops, const struct sparse_batch *x,
                        const float *weights, size_t outputs, const float *start, const float *y,
                        const float *weights_gradient)
{
    size_t parameters = x->columns * outputs;
    for (size_t count = 2; count <= 9; count++) {
        float *again = copy_array(start, x->rows * outputs);
        float *gradient = random_array(parameters, 100);
        multiply_in_parts(loops, x, count, weights, outputs, again, start, gradient);
        assert_memory_equal(again, y, x->rows * outputs * sizeof(float));
        assert_memory_equal(gradient, weights_gradient, parameters * sizeof(float));
        free(again);
        free(gradient);
    }
}

static void check_problem(const struct cpu_loops *loops, const struct problem *p)
{
    struct sparse_batch x = {0};
    const struct sparse_part all = {0, p->columns, SPARSE_BATCH_PARTS - 1};
    float *values = random_array(p->rows * p->columns, p->density);
    float *weights = random_array(p->columns * p->outputs, 100);
    float *start = random_array(p->rows * p->outputs, 100);
    float *y = copy_array(start, p->rows * p->outputs);
    float *weights_gradient = random_array(p->columns * p->outputs, 100);
    assert_ok(sparse_batch_reserve(&x, p->rows, p->columns));
    sparse_batch_set(&x, values, p->rows, p->columns);
    for (size_t parts = 9; parts >= 1; parts--) {
        index_in_parts(loops, &x, parts);
        check_index(loops, &x);
    }
    loops->multiply(&x, &all, weights, p->outputs, y);
    check_product(loops, p->rows, p->outputs, p->columns, values, p->columns, 1, weights, start, y);
    loops->multiply_transposed(&x, &all, start, p->outputs, weights_gradient);
    check_product(loops, p->columns, p->outputs, p->rows, values, 1, p->columns, start, NULL,
                  weights_gradient);
    check_parts(loops, &x, weights, p->outputs, start, y, weights_gradient);
    sparse_batch_release(&x);
    free(values);
    free(weights);
    free(start);
    free(y);
    free(weights_gradient);
}

static void test_products_over_the_nonzeros(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        for (size_t i = 0; i < sizeof(problems) / sizeof(*problems); i++)
            check_problem(loops, &problems[i]);
    }
}

/* The same bits as for the floats that the bytes stand for. */
static void check_bytes(const struct cpu_loops *loops, const struct problem *p)
{
    const float scale = 1.0f / 255;
    struct sparse_batch x = {0};
    size_t count = p->rows * p->columns, outputs = p->rows * p->outputs;
    size_t parameters = p->columns * p->outputs;
    float *values = random_array(count, p->density), *weights = random_array(parameters, 100);
    float *start = random_array(outputs, 100), *y[2], *gradient[2];
    uint8_t *bytes = malloc(count);
    for (size_t i = 0; i < count; i++) {
        bytes[i] = values[i] == 0 ? 0 : (uint8_t)(1 + i % 255);
        values[i] = (float)bytes[i] * scale;
    }
    assert_ok(sparse_batch_reserve(&x, p->rows, p->columns));
    for (size_t i = 0; i < 2; i++) {
        y[i] = copy_array(start, outputs);
        gradient[i] = random_array(parameters, 100);
        if (i == 0)
            sparse_batch_set(&x, values, p->rows, p->columns);
        else
            sparse_batch_set_bytes(&x, bytes, scale, p->rows, p->columns);
        index_in_parts(loops, &x, 1 + 2 * i);
        multiply_in_parts(loops, &x, 1, weights, p->outputs, y[i], start, gradient[i]);
    }
    for (size_t i = 0; i < count; i++)
        assert_memory_equal(&x.table[bytes[i]], &values[i], sizeof(float));
    x.values = values;
    check_index(loops, &x);
    assert_memory_equal(y[0], y[1], outputs * sizeof(float));
    assert_memory_equal(gradient[0], gradient[1], parameters * sizeof(float));
    sparse_batch_release(&x);
    for (size_t i = 0; i < 2; i++) {
        free(y[i]);
        free(gradient[i]);
    }
    free(values);
    free(weights);
    free(start);
    free(bytes);
}

static void test_bytes_are_the_floats_they_stand_for(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        for (size_t i = 0; i < sizeof(problems) / sizeof(*problems); i++)
            check_bytes(loops, &problems[i]);
    }
}

/* Each number of vectors that a strip may have, whole and with a tail. */
static void test_every_width_of_a_strip(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        for (size_t outputs = 2; outputs <= 130; outputs += 2) {
            struct problem p = {5, 70, outputs, 30};
            check_problem(loops, &p);
            check_bytes(loops, &p);
        }
    }
}

static void test_an_index_is_made_anew_for_each_batch(void **state)
{
    (void)state;
    const struct cpu_loops *loops = cpu_loops_best();
    struct sparse_batch x = {0};
    assert_ok(sparse_batch_reserve(&x, 70, 100));
    for (size_t i = 0; i < 20; i++) {
        size_t rows = 1 + i * 3, columns = 100 - i * 4;
        float *values = random_array(rows * columns, (unsigned)(i * 5));
        sparse_batch_set(&x, values, rows, columns);
        index_in_parts(loops, &x, 1);
        check_index(loops, &x);
        free(values);
    }
    sparse_batch_release(&x);
}

static void test_nan_counts_and_negative_zero_does_not(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        struct sparse_batch x = {0};
        float values[70] = {0};
        values[3] = NAN;
        values[5] = -0.0f;
        values[64] = INFINITY;
        values[69] = 1e-45f;
        assert_ok(sparse_batch_reserve(&x, 1, 70));
        sparse_batch_set(&x, values, 1, 70);
        index_in_parts(loops, &x, 1);
        assert_int_equal(x.count, 3);
        assert_true(x.row_bits[0] == 8 && x.row_bits[1] == 33);
        sparse_batch_release(&x);
    }
}

static void test_rows_are_finished(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
            size_t columns = lengths[i], rows = 3, count = rows * columns;
            for (int relu = 0; relu < 2; relu++) {
                float *bias = random_array(columns, 100), *got = random_array(count, 80);
                got[0] = -bias[0];
                got[count - 1] = NAN;
                float *wanted = copy_array(got, count);
                for (size_t j = 0; j < count; j++) {
                    wanted[j] += bias[j % columns];
                    wanted[j] = relu && wanted[j] < 0 ? 0 : wanted[j];
                }
                loops->finish_rows(got, rows, columns, bias, relu);
                assert_same(loops, got, wanted, count);
                free(bias);
                free(got);
                free(wanted);
            }
        }
    }
}

static void test_columns_are_summed_in_order(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
            size_t columns = lengths[i], rows = 50;
            float *values = random_array(rows * columns, 100);
            float *got = random_array(columns, 100), *wanted = random_array(columns, 0);
            for (size_t j = 0; j < rows * columns; j++)
                wanted[j % columns] += values[j];
            loops->sum_columns(values, rows, columns, got);
            assert_same(loops, got, wanted, columns);
            free(values);
            free(got);
            free(wanted);
        }
    }
}

static void test_sums_and_quotients_are_rounded_once(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        for (size_t count = 0; count < 70; count++) {
            float *x = random_array(count + 1, 100), *y = random_array(count + 1, 100);
            float *got = copy_array(y, count + 1);
            loops->add(got, x, count);
            loops->divide(got, 3, count);
            for (size_t i = 0; i < count; i++)
                assert_true(got[i] == (y[i] + x[i]) / 3);
            assert_true(got[count] == y[count]);
            free(x);
            free(y);
            free(got);
        }
    }
}

static void test_factors_and_limits(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        for (size_t count = 0; count < 70; count++) {
            float *x = random_array(count + 1, 100), *y = random_array(count + 1, 100);
            float *got = copy_array(y, count + 1), *sum = copy_array(x, count + 1);
            loops->add_multiple(x, 0.3f, y, count, sum);
            loops->scale(got, 1.7f, count);
            loops->clamp(got, 0.5f, count);
            for (size_t i = 0; i < count; i++) {
                volatile float multiple = 0.3f * y[i], scaled = 1.7f * y[i];
                assert_true(sum[i] == x[i] + multiple);
                assert_true(got[i] == fminf(fmaxf(scaled, -0.5f), 0.5f));
            }
            assert_true(got[count] == y[count] && sum[count] == x[count]);
            free(x);
            free(y);
            free(got);
            free(sum);
        }
        float ends[3] = {NAN, INFINITY, -INFINITY};
        loops->clamp(ends, 2, 3);
        assert_true(isnan(ends[0]) && ends[1] == 2 && ends[2] == -2);
    }
}

/* Every 16th by itself, then those in order: not a bit depends on the vector unit. */
static void test_squares_are_summed_in_one_order(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        for (size_t count = 0; count < 200; count++) {
            float *x = random_array(count + 1, 100);
            double sums[16] = {0}, wanted = 0;
            for (size_t i = 0; i < count; i++) {
                volatile double square = (double)x[i] * (double)x[i];
                sums[i % 16] += square;
            }
            for (size_t i = 0; i < 16; i++)
                wanted += sums[i];
            assert_true(loops->sum_squares(x, count) == wanted);
            free(x);
        }
    }
}

static void test_gradients_are_masked(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
            size_t count = lengths[i];
            float *x = random_array(count, 60), *got = random_array(count, 100);
            float *wanted = copy_array(got, count);
            for (size_t j = 0; j < count; j++)
                wanted[j] = x[j] > 0 ? wanted[j] : 0;
            loops->mask_positive(got, x, count);
            assert_same(loops, got, wanted, count);
            free(x);
            free(got);
            free(wanted);
        }
    }
}

static void test_exponentials_are_close_and_equal(void **state)
{
    (void)state;
    enum { COUNT = 200003 };
    const struct cpu_loops *loops;
    float *wanted = NULL;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        float *got = random_array(COUNT, 100);
        for (size_t i = 0; i < COUNT; i++)
            got[i] = -90.0f * (float)i / COUNT;
        got[1] = -INFINITY;
        got[2] = -0.0f;
        got[3] = -3.4e38f;
        float *x = copy_array(got, COUNT);
        loops->exponentials(got, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            double exact = exp((double)x[i]), error = fabs(got[i] - exact);
            if (x[i] < -87 ? got[i] != 0 : error > exact * 2 * 0x1p-23)
                fail_msg("%s: exp(%.9g) is %.9g", loops->name, (double)x[i], (double)got[i]);
        }
        assert_true(got[0] == 1 && got[1] == 0 && got[2] == 1 && got[3] == 0);
        if (wanted)
            assert_same(loops, got, wanted, COUNT);
        else
            wanted = copy_array(got, COUNT);
        float nan[2] = {NAN, -1};
        loops->exponentials(nan, 2);
        assert_true(isnan(nan[0]) && nan[1] > 0.36f);
        free(got);
        free(x);
    }
    free(wanted);
}

static void check_update(const struct cpu_loops *loops, const char *name, size_t count,
                         bool nesterov)
{
    struct optimizer optimizer;
    assert_ok(optimizer_init(&optimizer, name, 0.03));
    optimizer.nesterov = nesterov;
    void (*const apply[])(const struct optimizer *, float, size_t, const float *, float *,
                          float *const *) = {loops->sgd, loops->momentum, loops->adagrad,
                                             loops->adam};
    float *var = random_array(count, 90), *s0 = random_array(count, 0),
          *s1 = random_array(count, 0);
    for (size_t i = 0; i < count; i++)
        s0[i] = optimizer_slot_initial(&optimizer, 0);
    float *wanted = copy_array(var, count), *w0 = copy_array(s0, count),
          *w1 = copy_array(s1, count);
    float *slots[OPTIMIZER_SLOTS_LIMIT] = {s0, s1};
    for (int t = 1; t <= 5; t++) {
        float *gradient = random_array(count, t == 3 ? 0 : 60);
        gradient[0] = t == 5 ? NAN : -0.0f;
        float rate = optimizer_rate(&optimizer, t);
        apply[optimizer.kind](&optimizer, rate, count, gradient, var, slots);
        for (size_t i = 0; i < count; i++)
            update_one(&optimizer, rate, gradient[i], &wanted[i], &w0[i], &w1[i]);
        free(gradient);
    }
    assert_same(loops, var, wanted, count);
    assert_same(loops, s0, w0, count);
    assert_same(loops, s1, w1, count);
    free(var);
    free(s0);
    free(s1);
    free(wanted);
    free(w0);
    free(w1);
}

static void test_updates_are_the_formulas_bit_for_bit(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
            check_update(loops, "sgd", lengths[i], false);
            check_update(loops, "momentum", lengths[i], false);
            check_update(loops, "momentum", lengths[i], true);
            check_update(loops, "adagrad", lengths[i], false);
            check_update(loops, "adam", lengths[i], false);
        }
    }
}

static void test_the_index_is_used_where_it_pays(void **state)
{
    (void)state;
    const struct cpu_loops *loops;
    for (size_t variant = 0; (loops = cpu_loops_at(variant)) != NULL; variant++) {
        struct sparse_batch x = {
            .rows = 100, .columns = 784, .count = 15680 * (size_t)loops->worth_fifths};
        assert_true(sparse_batch_worth(&x, loops));
        x.count++;
        assert_false(sparse_batch_worth(&x, loops));
        x = (struct sparse_batch){.rows = 100, .columns = 4, .count = 0};
        assert_false(sparse_batch_worth(&x, loops));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_products_over_the_nonzeros),
    cmocka_unit_test(test_bytes_are_the_floats_they_stand_for),
    cmocka_unit_test(test_every_width_of_a_strip),
    cmocka_unit_test(test_an_index_is_made_anew_for_each_batch),
    cmocka_unit_test(test_nan_counts_and_negative_zero_does_not),
    cmocka_unit_test(test_rows_are_finished),
    cmocka_unit_test(test_columns_are_summed_in_order),
    cmocka_unit_test(test_sums_and_quotients_are_rounded_once),
    cmocka_unit_test(test_factors_and_limits),
    cmocka_unit_test(test_squares_are_summed_in_one_order),
    cmocka_unit_test(test_gradients_are_masked),
    cmocka_unit_test(test_exponentials_are_close_and_equal),
    cmocka_unit_test(test_updates_are_the_formulas_bit_for_bit),
    cmocka_unit_test(test_the_index_is_used_where_it_pays),
};

UNIT_MAIN(tests)
