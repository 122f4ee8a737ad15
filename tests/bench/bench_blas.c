/* SPDX-License-Identifier: MIT */
/*
 * The five matrix products of one step of the classic network (784-100-10, batch 100), by every
 * library, set of kernels and loop that this machine has: microseconds, the best of many rounds on
 * one thread. What trainer/compute/blas.c chooses follows from this table
 * (trainer/compute/README.md).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "trainer/compute/blas.h"
#include "trainer/compute/cpu_loops.h"

enum { B = 100, F = 784, H = 100, L = 10, PRODUCTS = 5, ROUNDS = 300 };

static float x[B * F], hid_w[F * H], hidden[B * H], sm_w[H * L], logits[B * L];
static float logits_gradient[B * L], hidden_gradient[B * H], sm_w_gradient[H * L];
static float hid_w_gradient[F * H];

static const struct blas_product products[PRODUCTS] = {
    {.m = B,
     .n = H,
     .k = F,
     .a = x,
     .a_stride = F,
     .b = hid_w,
     .b_stride = H,
     .c = hidden,
     .c_stride = H},
    {.m = B,
     .n = L,
     .k = H,
     .a = hidden,
     .a_stride = H,
     .b = sm_w,
     .b_stride = L,
     .c = logits,
     .c_stride = L},
    {.a_transpose = BLAS_TRANSPOSED,
     .m = H,
     .n = L,
     .k = B,
     .a = hidden,
     .a_stride = H,
     .b = logits_gradient,
     .b_stride = L,
     .c = sm_w_gradient,
     .c_stride = L},
    {.b_transpose = BLAS_TRANSPOSED,
     .m = B,
     .n = H,
     .k = L,
     .a = logits_gradient,
     .a_stride = L,
     .b = sm_w,
     .b_stride = L,
     .c = hidden_gradient,
     .c_stride = H},
    {.a_transpose = BLAS_TRANSPOSED,
     .m = F,
     .n = H,
     .k = B,
     .a = x,
     .a_stride = F,
     .b = hidden_gradient,
     .b_stride = H,
     .c = hid_w_gradient,
     .c_stride = H},
};

/* Every value between 0 and 1, but only `density` of 100 of x. */
static void fill(unsigned density)
{
    float *const arrays[] = {x, hid_w, hidden, sm_w, logits_gradient};
    const size_t counts[] = {B * F, F * H, B * H, H * L, B * L};
    uint32_t now = 1;
    for (size_t a = 0; a < sizeof(arrays) / sizeof(*arrays); a++) {
        for (size_t i = 0; i < counts[a]; i++) {
            now = now * 1664525 + 1013904223;
            float value = (float)(now >> 8) / 16777216.0f;
            now = now * 1664525 + 1013904223;
            arrays[a][i] = a > 0 || (now >> 8) % 100 < density ? value : 0;
        }
    }
}

static double microseconds_since(int64_t start_ns)
{
    return (double)(clock_now_ns() - start_ns) / 1000;
}

static void print_row(const char *name, const double best[PRODUCTS])
{
    double sum = 0;
    printf("| %-46s |", name);
    for (int i = 0; i < PRODUCTS; i++) {
        printf(" %7.1f |", best[i]);
        sum += best[i];
    }
    printf(" %7.1f | %7.0f |\n", sum, 31.76e3 / sum);
}

static void measure_open_library(double best[PRODUCTS])
{
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PRODUCTS; i++) {
            int64_t start_ns = clock_now_ns();
            blas_multiply(&products[i]);
            double spent = microseconds_since(start_ns);
            best[i] = round == 0 || spent < best[i] ? spent : best[i];
        }
    }
}

/* A library reads its environment once a process: each is measured in a child. */
static void measure_library(const char *name)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        double best[PRODUCTS];
        char row[160];
        if (blas_open(name))
            _exit(0);
        measure_open_library(best);
        snprintf(row, sizeof(row), "%s%s", !strcmp(name, "auto") ? "auto: " : "", blas_describe());
        print_row(row, best);
        fflush(stdout);
        _exit(0);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

/* The two products with the batch, the index included; the others as `auto` does them. */
static void measure_loops(const struct cpu_loops *loops, unsigned density)
{
    struct sparse_batch sparse = {0};
    const struct sparse_part all = {0, F, 0};
    double best[PRODUCTS];
    char row[80];
    fill(density);
    if (blas_open("auto") || sparse_batch_reserve(&sparse, B, F)) {
        fprintf(stderr, "bench_blas: %s\n", error_message());
        exit(1);
    }
    measure_open_library(best);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t start_ns = clock_now_ns();
        sparse_batch_set(&sparse, x, B, F);
        sparse.count = sparse_batch_index(&sparse, loops, 0, sparse.row_words);
        loops->multiply(&sparse, &all, hid_w, H, hidden);
        double spent = microseconds_since(start_ns);
        best[0] = round == 0 || spent < best[0] ? spent : best[0];
        start_ns = clock_now_ns();
        sparse_batch_index_columns(&sparse, &all);
        loops->multiply_transposed(&sparse, &all, hidden_gradient, H, hid_w_gradient);
        spent = microseconds_since(start_ns);
        best[4] = round == 0 || spent < best[4] ? spent : best[4];
    }
    snprintf(row, sizeof(row), "nonzeros, %s loops, %u %% not zero%s", loops->name, density,
             sparse_batch_worth(&sparse, loops) ? "" : " (dense is taken)");
    print_row(row, best);
    sparse_batch_release(&sparse);
    blas_close();
}

int main(void)
{
    static const char *const libraries[] = {
        "auto",
        "onednn",
        "openblas",
        "openblas:Haswell",
        "openblas:Zen",
        "openblas:SkylakeX",
        "openblas:Cooperlake",
        "openblas:Prescott",
        "plain",
    };
    printf("784-100-10, batch 100, one thread, microseconds (x: features, h: hidden layer)\n\n");
    printf("| %-46s | %-7s | %-7s | %-7s | %-7s | %-7s | %-7s | %-7s |\n", "products by", "x w",
           "h w2", "hT dy", "dy w2T", "xT dh", "all", "GFLOP/s");
    printf("|---|---|---|---|---|---|---|---|\n");
    fill(100);
    for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
        measure_library(libraries[i]);
    static const unsigned densities[] = {19, 40, 60};
    for (size_t i = 0; cpu_loops_at(i); i++) {
        for (size_t d = 0; d < sizeof(densities) / sizeof(*densities); d++)
            measure_loops(cpu_loops_at(i), densities[d]);
    }
    return 0;
}
