/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/compute/blas: Every BLAS library that is installed, and the plain product,
 * against sums in double. A library reads its environment once a process, so each runs in a child
 * of its own.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/file.h"
#include "trainer/compute/blas.h"

#define GUARD 12345.5f
#define NOT_INSTALLED 77
#define FLOATS 40000

struct sizes {
    size_t m, n, k, extra; /* `extra` floats between the rows */
};

static const struct sizes shapes[] = {
    {1, 1, 1, 0},    {1, 10, 7, 0},      {3, 1, 5, 2},      {2, 3, 1, 1},      {7, 5, 3, 0},
    {16, 16, 16, 0}, {17, 15, 33, 3},    {100, 10, 100, 0}, {100, 100, 37, 5}, {64, 65, 63, 0},
    {5, 100, 2, 28}, {100, 100, 100, 0}, {33, 129, 17, 1},  {0, 4, 4, 0},      {4, 0, 4, 0},
    {4, 4, 0, 0},    {128, 3, 129, 7},
};

static float a[FLOATS], b[FLOATS], c[FLOATS], before[FLOATS], again[FLOATS];

static void fill(float *out, uint32_t seed)
{
    for (size_t i = 0; i < FLOATS; i++) {
        seed = seed * 1664525 + 1013904223;
        out[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
}

static float element(const float *matrix, size_t stride, enum blas_transpose transpose, size_t i,
                     size_t j)
{
    return transpose == BLAS_TRANSPOSED ? matrix[j * stride + i] : matrix[i * stride + j];
}

/* Is c what the product must be, and nothing written outside of it? Says what is not. */
static int verify(const struct blas_product *p, const char *name)
{
    for (size_t at = 0; at < FLOATS; at++) {
        size_t i = at / p->c_stride, j = at % p->c_stride;
        if (i >= p->m || j >= p->n) {
            if (c[at] == before[at])
                continue;
            fprintf(stderr, "%s wrote outside of C, at %zu\n", name, at);
            return 1;
        }
        double sum = p->add ? before[at] : 0, size = fabs(sum);
        for (size_t k = 0; k < p->k; k++) {
            double term = (double)element(p->a, p->a_stride, p->a_transpose, i, k) *
                          (double)element(p->b, p->b_stride, p->b_transpose, k, j);
            sum += term;
            size += fabs(term);
        }
        if (fabs(c[at] - sum) <= 1e-6 * (size + 1))
            continue;
        fprintf(stderr, "%s: C[%zu,%zu] of %zux%zux%zu is %g, not %g (transposes %d %d, add %d)\n",
                name, i, j, p->m, p->n, p->k, (double)c[at], sum, p->a_transpose, p->b_transpose,
                p->add);
        return 1;
    }
    return 0;
}

static int check_product(const char *name, const struct sizes *s, int variant)
{
    struct blas_product p = {
        .a_transpose = variant & 1 ? BLAS_TRANSPOSED : BLAS_AS_IS,
        .b_transpose = variant & 2 ? BLAS_TRANSPOSED : BLAS_AS_IS,
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .a = a,
        .b = b,
        .add = (variant & 4) != 0,
        .c = c,
    };
    p.a_stride = (variant & 1 ? s->m : s->k) + s->extra + 1;
    p.b_stride = (variant & 2 ? s->k : s->n) + s->extra + 1;
    p.c_stride = s->n + s->extra + 1;
    memcpy(c, before, sizeof(c));
    blas_multiply(&p);
    if (verify(&p, name))
        return 1;
    memcpy(again, c, sizeof(c));
    memcpy(c, before, sizeof(c));
    blas_multiply(&p);
    if (!memcmp(again, c, sizeof(c)))
        return 0;
    fprintf(stderr, "%s: the same product twice gave different bits\n", name);
    return 1;
}

/* ---- from several threads at once ------------------------------------------- */

enum { AT_ONCE = 3, SIDE = 64 };

struct at_once {
    pthread_t thread;
    float c[SIDE * SIDE];
};

static void multiply_side(float *ret_c)
{
    blas_multiply(&(struct blas_product){.m = SIDE,
                                         .n = SIDE,
                                         .k = SIDE,
                                         .a = a,
                                         .a_stride = SIDE,
                                         .b = b,
                                         .b_stride = SIDE,
                                         .c = ret_c,
                                         .c_stride = SIDE});
}

static void *multiply_at_once(void *context)
{
    for (int i = 0; i < 50; i++)
        multiply_side(((struct at_once *)context)->c);
    return NULL;
}

/* Every thread's products have the bits that one alone gives. */
static int check_at_once(const char *name)
{
    static struct at_once others[AT_ONCE];
    multiply_side(again);
    int wrong = 0;
    for (int i = 0; i < AT_ONCE; i++)
        wrong |= pthread_create(&others[i].thread, NULL, multiply_at_once, &others[i]);
    for (int i = 0; i < AT_ONCE; i++) {
        wrong |= pthread_join(others[i].thread, NULL);
        wrong |= memcmp(again, others[i].c, sizeof(others[i].c)) != 0;
    }
    if (wrong)
        fprintf(stderr, "%s: products at once have other bits than one alone\n", name);
    return wrong;
}

static int count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

static int check_library(const char *name)
{
    int threads = count_threads();
    enum error error = blas_open(name);
    if (error == ERROR_UNAVAILABLE)
        return NOT_INSTALLED;
    if (error) {
        fprintf(stderr, "%s: %s\n", name, error_message());
        return 1;
    }
    fill(a, 1);
    fill(b, 2);
    for (size_t i = 0; i < FLOATS; i++)
        before[i] = GUARD + (float)(i % 7);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        for (int variant = 0; variant < 8; variant++) {
            if (check_product(name, &shapes[i], variant))
                return 1;
        }
    }
    if (count_threads() > threads) {
        fprintf(stderr, "%s has started threads of its own\n", name);
        return 1;
    }
    int wrong = check_at_once(name);
    blas_close();
    return wrong;
}

/* check_library() in a child process; its exit status. */
static int check_in_child(const char *name)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(check_library(name));
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check_named(const char *name)
{
    int status = check_in_child(name);
    if (status == NOT_INSTALLED)
        print_message("%s is not there; left out\n", name);
    else
        assert_int_equal(status, 0);
}

static void test_plain_is_right(void **state)
{
    (void)state;
    check_named("plain");
}

static void test_the_choice_is_right(void **state)
{
    (void)state;
    check_named("auto");
}

static void test_onednn_is_right(void **state)
{
    (void)state;
    check_named("onednn");
}

static void test_openblas_is_right_with_every_kernel(void **state)
{
    (void)state;
    check_named("openblas");
#if defined(__x86_64__)
    check_named("openblas:Prescott");
    if (__builtin_cpu_supports("avx2")) {
        check_named("openblas:Haswell");
        check_named("openblas:Zen");
    }
    if (__builtin_cpu_supports("avx512vl"))
        check_named("openblas:SkylakeX");
#endif
}

static void test_bad_names_are_refused(void **state)
{
    (void)state;
    assert_fails(blas_open("mkl"), ERROR_USAGE, "onednn, openblas");
    assert_fails(blas_open(""), ERROR_USAGE, "unknown");
    assert_fails(blas_open("plain:Zen"), ERROR_USAGE, "no kernels to choose");
    assert_fails(blas_open("onednn:Zen"), ERROR_USAGE, "chooses its kernels itself");
    char longest[300];
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = 0;
    assert_fails(blas_open(longest), ERROR_USAGE, "unknown");
}

static void test_one_choice_a_process(void **state)
{
    (void)state;
    assert_ok(blas_open("plain"));
    assert_ok(blas_open("auto"));
    assert_ok(blas_open("plain"));
    assert_fails(blas_open("openblas"), ERROR_CONFLICT, "plain C product");
    assert_string_equal(blas_describe(), "plain C product (slow)");
    blas_close();
    blas_close();
    blas_close();
    assert_ok(blas_open("plain"));
    blas_close();
    blas_close();
}

static void test_the_environment_is_put_back(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv("OPENBLAS_NUM_THREADS", "7", 1);
        unsetenv("OPENBLAS_CORETYPE");
        unsetenv("OMP_NUM_THREADS");
        int threads = count_threads(); /* a sanitizer may have one */
        const char *described = blas_describe();
        bool kept = !strcmp(getenv("OPENBLAS_NUM_THREADS"), "7") && !getenv("OPENBLAS_CORETYPE") &&
                    !getenv("OMP_NUM_THREADS");
        _exit(kept && described[0] && count_threads() == threads ? 0 : 1);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* OpenBLAS tries without end to allocate the buffer of its first product. */
static void test_openblas_without_room_is_refused(void **state)
{
    (void)state;
    if (UNIT_LESS > 1) /* a sanitizer needs the room */
        return;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct buffer sizes = BUFFER_INIT(1000);
        struct rlimit limit = {.rlim_cur = 0};
        alarm(60);
        bool ok = !file_read_whole("/proc/self/statm", &sizes) && !getrlimit(RLIMIT_AS, &limit);
        limit.rlim_cur =
            (rlim_t)strtoll(sizes.data, NULL, 10) * (rlim_t)getpagesize() + ((rlim_t)100 << 20);
        if (!ok || setrlimit(RLIMIT_AS, &limit))
            _exit(2);
        enum error error = blas_open("openblas");
        bool says = error == ERROR_UNAVAILABLE && strstr(error_message(), "ulimit -v");
        _exit(says ? 0 : error && strstr(error_message(), "libopenblas") ? NOT_INSTALLED : 1);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NOT_INSTALLED);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_openblas_without_room_is_refused),
    cmocka_unit_test(test_plain_is_right),
    cmocka_unit_test(test_the_choice_is_right),
    cmocka_unit_test(test_onednn_is_right),
    cmocka_unit_test(test_openblas_is_right_with_every_kernel),
    cmocka_unit_test(test_bad_names_are_refused),
    cmocka_unit_test(test_one_choice_a_process),
    cmocka_unit_test(test_the_environment_is_put_back),
};

UNIT_MAIN(tests)
