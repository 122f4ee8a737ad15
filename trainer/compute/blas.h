/* SPDX-License-Identifier: MIT */
/*
 * Single-precision matrix products, with the fastest library for this CPU.
 *
 * blas_open() loads oneDNN (dnnl_sgemm) or OpenBLAS (cblas_sgemm) with dlopen(), so that the
 * program starts if neither is installed; then, or on request, it uses the plain C product of this
 * folder. Which library is tried first depends only on the CPU's features (README.md has the
 * figures for the rule), never on a timing, so that a run is reproducible bit for bit on a machine.
 *
 * One library at a time per process: they read their environment while they load. A product is
 * computed by the thread that asks for it, since with most kernels its last bits depend on how
 * threads divide it. All matrices are row-major. Threads: blas_open() temporarily sets environment
 * variables, so call it and blas_close() before other threads start; blas_multiply() from any.
 */
#ifndef TRAINER_COMPUTE_BLAS_H
#define TRAINER_COMPUTE_BLAS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

enum blas_transpose { BLAS_AS_IS, BLAS_TRANSPOSED };

/* C[M,N] = op(A)[M,K] op(B)[K,N], or C += the same with `add`. op(A) is A, stored [M,K] with
 * a_stride floats per row; or the transpose of A stored [K,M]. B likewise, [K,N] or [N,K]. C has
 * c_stride floats per row. Strides are at least the row's length. M, N, K may be 0 (K = 0: C is
 * zeroed unless `add`). C must not overlap A or B. */
struct blas_product {
    enum blas_transpose a_transpose, b_transpose;
    size_t m, n, k;
    const float *a;
    size_t a_stride;
    const float *b;
    size_t b_stride;
    bool add;
    float *c;
    size_t c_stride;
};

/* `name`: "auto", "onednn", "openblas", "openblas:CORE" (a value of OPENBLAS_CORETYPE, such as
 * Haswell or SkylakeX) or "plain". "auto" falls back with a line in the log; a missing library
 * requested by name is ERROR_UNAVAILABLE. While one is open, opening the same again (or "auto")
 * adds a user, and another is ERROR_CONFLICT. Blocks while the library loads (some ms). */
enum error blas_open(const char *name) MUST_CHECK;
/* The last user's close resets the choice; the library itself stays loaded. */
void blas_close(void);

/* Between blas_open() and blas_close(). We allocate nothing. */
void blas_multiply(const struct blas_product *product);

/* The plain C product, always available: the reference in tests and the last resort. */
void blas_multiply_plain(const struct blas_product *product);

/* One line for log and --version: library, version and kernels, "oneDNN 2.6.3, AVX-512 kernels".
 * While nothing is open: what "auto" would choose. Borrowed until the next blas_open(). */
const char *blas_describe(void);

#endif
