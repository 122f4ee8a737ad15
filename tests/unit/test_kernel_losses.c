/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/compute/kernel: Softmax and the losses on every device there is, against the
 * formulas in double.
 */
#include "tests/unit/kernel_unit.h"

struct losses {
    struct array logits, labels, gradient;
    struct kernel_result *result;
    size_t rows, classes;
};

static struct losses losses_new(size_t rows, size_t classes, float scale)
{
    struct losses l = {.rows = rows, .classes = classes};
    l.logits = array_of(rows * classes, 100);
    l.labels = array_of(rows, 100);
    l.gradient = array_of(rows * classes, 100);
    for (size_t i = 0; i < l.logits.count; i++)
        l.logits.host[i] *= scale;
    for (size_t i = 0; i < rows; i++) {
        int32_t label = (int32_t)(i * 7 % classes);
        memcpy(&l.labels.host[i], &label, sizeof(label));
    }
    void *memory;
    assert_ok(kernel_reserve(kernel, rows, classes));
    assert_ok(device_memory_new(device, sizeof(*l.result), &memory));
    l.result = memory;
    send(&l.labels);
    return l;
}

static void losses_free(struct losses *l)
{
    release(&l->logits);
    release(&l->labels);
    release(&l->gradient);
    device_memory_free(device, l->result);
}

static size_t label_of(const struct losses *l, size_t row)
{
    return row * 7 % l->classes;
}

/* Largest, and log of the sum of exponentials, of one row, in double. */
static double log_sum(const float *logits, size_t classes)
{
    double largest = logits[0], sum = 0;
    for (size_t j = 1; j < classes; j++)
        largest = fmax(largest, (double)logits[j]);
    for (size_t j = 0; j < classes; j++)
        sum += exp((double)logits[j] - largest);
    return largest + log(sum);
}

static void check_cross_entropy(struct losses *l, enum loss loss)
{
    struct kernel_result result;
    double loss_sum = 0;
    int64_t correct = 0;
    send(&l->logits);
    assert_ok(kernel_cross_entropy(kernel, loss, l->logits.there,
                                   (const int32_t *)(const void *)l->labels.there, l->rows,
                                   l->classes, l->gradient.there, l->result));
    fetch(&l->gradient);
    fetch_result(l->result, &result);
    for (size_t row = 0; row < l->rows; row++) {
        const float *logits = l->logits.host + row * l->classes;
        size_t label = label_of(l, row), best = 0;
        double normal = log_sum(logits, l->classes), log_p = logits[label] - normal;
        bool dead = loss == LOSS_CLIPPED_SUM && log_p < log(1e-10);
        loss_sum += dead ? log(1e10) : -log_p;
        for (size_t j = 0; j < l->classes; j++) {
            double p = exp(logits[j] - normal), wanted = p - (j == label);
            best = logits[j] > logits[best] ? j : best;
            wanted = dead ? 0 : loss == LOSS_MEAN ? wanted / (double)l->rows : wanted;
            double size = loss == LOSS_MEAN ? 1.0 / (double)l->rows : 1;
            assert_near(l->gradient.host[row * l->classes + j], wanted, size, "gradient",
                        row * l->classes + j);
        }
        correct += best == label;
    }
    assert_true(fabs(result.loss_sum - loss_sum) <= 1e-5 * fabs(loss_sum) + 1e-6 * l->rows);
    assert_int_equal(result.correct, correct);
    int64_t moving = 0;
    for (size_t row = 0; row < l->rows; row++) {
        bool moves = false;
        for (size_t j = 0; j < l->classes; j++)
            moves = moves || l->gradient.host[row * l->classes + j] != 0;
        moving += moves;
    }
    assert_int_equal(result.moving, moving);
}

static void test_cross_entropies(void **state)
{
    open_kernel(state);
    static const size_t rows[] = {1, 3, 100, 257}, classes[] = {2, 10, 33, 1000};
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 4; j++) {
            struct losses l = losses_new(rows[i], classes[j], 3);
            check_cross_entropy(&l, LOSS_CLIPPED_SUM);
            check_cross_entropy(&l, LOSS_MEAN);
            losses_free(&l);
        }
    }
    close_kernel();
}

/* Logits so far apart that many rows are dead: p of the label is below 1e-10. */
static void test_dead_rows_have_no_gradient(void **state)
{
    open_kernel(state);
    struct losses l = losses_new(200, 10, 40);
    check_cross_entropy(&l, LOSS_CLIPPED_SUM);
    check_cross_entropy(&l, LOSS_MEAN);
    size_t dead = 0;
    for (size_t row = 0; row < l.rows; row++) {
        const float *logits = l.logits.host + row * 10;
        double log_p = logits[label_of(&l, row)] - log_sum(logits, 10);
        dead += log_p < log(1e-10);
    }
    assert_true(dead > 20 && dead < 180);
    losses_free(&l);
    close_kernel();
}

static void assert_softmax(const struct array *logits, const struct array *p, size_t classes)
{
    double normal = 0;
    for (size_t at = 0; at < p->count; at++) {
        if (at % classes == 0)
            normal = log_sum(logits->host + at, classes);
        double wanted = exp(logits->host[at] - normal);
        assert_near(p->host[at], wanted, wanted, "p", at);
    }
}

/* A GPU has at most 4096 blocks of four rows at a time. */
static void test_more_rows_than_a_grid_takes(void **state)
{
    open_kernel(state);
    struct losses l = losses_new(4096 * 4 + 6, 3, 2);
    check_cross_entropy(&l, LOSS_MEAN);
    struct array p = array_of(l.logits.count, 0);
    assert_ok(kernel_softmax(kernel, l.logits.there, l.rows, 3, p.there));
    fetch(&p);
    assert_softmax(&l.logits, &p, 3);
    release(&p);
    losses_free(&l);
    close_kernel();
}

static void test_enormous_logits_stay_finite(void **state)
{
    open_kernel(state);
    struct losses l = losses_new(50, 10, 1e30f);
    check_cross_entropy(&l, LOSS_CLIPPED_SUM);
    l.logits.host[0] = -3e38f;
    l.logits.host[1] = 3e38f;
    for (size_t j = 10; j < 20; j++)
        l.logits.host[j] = -1e30f; /* a row far below zero */
    send(&l.logits);
    struct array p = array_of(l.logits.count, 0);
    assert_ok(kernel_softmax(kernel, l.logits.there, 50, 10, p.there));
    fetch(&p);
    for (size_t i = 0; i < p.count; i++)
        assert_true(p.host[i] >= 0 && p.host[i] <= 1);
    assert_true(p.host[10] == 0.1f);
    release(&p);
    losses_free(&l);
    close_kernel();
}

static void test_ties_and_nan_when_counting(void **state)
{
    open_kernel(state);
    struct losses l = losses_new(4, 3, 0);
    struct kernel_result result;
    /* Labels are 0, 1, 2, 0. Row 0: all equal, the first wins: correct. Row 1: equal to a later
     * one: correct. Row 2: equal to an earlier one: not. Row 3: NaN: never. */
    static const float logits[12] = {1, 1, 1, 0, 2, 2, 5, 0, 5, NAN, 0, 0};
    memcpy(l.logits.host, logits, sizeof(logits));
    send(&l.logits);
    assert_ok(kernel_cross_entropy(kernel, LOSS_MEAN, l.logits.there,
                                   (const int32_t *)(const void *)l.labels.there, 4, 3,
                                   l.gradient.there, l.result));
    fetch_result(l.result, &result);
    assert_int_equal(result.correct, 2);
    assert_true(isnan(result.loss_sum));
    /* A squared error knows none that are correct, whatever was counted before it. */
    assert_ok(kernel_squared_error(kernel, LOSS_SQUARED_SUM, l.logits.there, l.logits.there, 4,
                                   l.gradient.there, l.result));
    fetch_result(l.result, &result);
    assert_int_equal(result.correct, 0);
    losses_free(&l);
    close_kernel();
}

static void test_softmax(void **state)
{
    open_kernel(state);
    static const size_t classes[] = {1, 2, 10, 32, 33, 1000};
    for (size_t i = 0; i < 6; i++) {
        size_t rows = 37, count = rows * classes[i];
        struct array logits = sent_array(count, 100), p = array_of(count, 0);
        assert_ok(kernel_softmax(kernel, logits.there, rows, classes[i], p.there));
        fetch(&p);
        assert_softmax(&logits, &p, classes[i]);
        assert_ok(kernel_softmax(kernel, logits.there, rows, classes[i], logits.there));
        fetch(&logits);
        assert_memory_equal(logits.host, p.host, count * sizeof(float));
        release(&logits);
        release(&p);
    }
    close_kernel();
}

static void test_squared_errors(void **state)
{
    open_kernel(state);
    static const size_t rows[] = {1, 2, 100, 1025, 4096 * 256 + 300};
    for (size_t i = 0; i < 5; i++) {
        struct array y = sent_array(rows[i], 100), targets = sent_array(rows[i], 100);
        struct array gradient = sent_array(rows[i], 100);
        struct kernel_result result;
        void *there;
        assert_ok(kernel_reserve(kernel, rows[i], 1));
        assert_ok(device_memory_new(device, sizeof(result), &there));
        for (int mean = 0; mean < 2; mean++) {
            double sum = 0, scale = mean ? 2.0 / (double)rows[i] : 2;
            assert_ok(kernel_squared_error(kernel, mean ? LOSS_SQUARED_MEAN : LOSS_SQUARED_SUM,
                                           y.there, targets.there, rows[i], gradient.there, there));
            fetch(&gradient);
            fetch_result(there, &result);
            for (size_t row = 0; row < rows[i]; row++) {
                double difference = (double)y.host[row] - (double)targets.host[row];
                sum += difference * difference;
                assert_near(gradient.host[row], difference * scale, scale, "gradient", row);
            }
            assert_true(fabs(result.loss_sum - sum) <= 1e-6 * sum);
            assert_int_equal(result.correct, 0);
        }
        device_memory_free(device, there);
        release(&y);
        release(&targets);
        release(&gradient);
    }
    close_kernel();
}

static const struct CMUnitTest tests[] = {
    ON_EACH_DEVICE(test_cross_entropies),
    ON_EACH_DEVICE(test_dead_rows_have_no_gradient),
    ON_EACH_DEVICE(test_more_rows_than_a_grid_takes),
    ON_EACH_DEVICE(test_enormous_logits_stay_finite),
    ON_EACH_DEVICE(test_ties_and_nan_when_counting),
    ON_EACH_DEVICE(test_softmax),
    ON_EACH_DEVICE(test_squared_errors),
};

UNIT_MAIN(tests)
