/* SPDX-License-Identifier: MIT */
/* The part of cuBLAS that Tombola loads, on the emulated GPU's streams: column-major, float32, sums
 * in ascending order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

struct cublasContext {
    cudaStream_t stream;
};

struct product {
    bool a_transposed, b_transposed;
    int m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    int a_stride, b_stride, c_stride;
};

enum { SUCCESS = 0, ALLOCATION_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };
enum { VERSION = 130000 };

/* EMULATED_GPU_FAILS=cublas:N, counted since it was set. */
static bool fails(void)
{
    static const char kind[] = "cublas:";
    static char plan[40];
    static long calls;
    const char *wanted = getenv("EMULATED_GPU_FAILS");
    if (!wanted)
        wanted = "";
    if (strcmp(wanted, plan) != 0) {
        snprintf(plan, sizeof(plan), "%s", wanted);
        calls = 0;
    }
    calls++;
    return strncmp(plan, kind, sizeof(kind) - 1) == 0 && atol(plan + sizeof(kind) - 1) == calls;
}

int cublasCreate_v2(struct cublasContext **ret_handle)
{
    struct cublasContext *made = fails() ? NULL : calloc(1, sizeof(*made));
    if (!made)
        return ALLOCATION_FAILED;
    *ret_handle = made;
    return SUCCESS;
}

int cublasDestroy_v2(struct cublasContext *handle)
{
    free(handle);
    return SUCCESS;
}

/* A handle belongs to the GPU that is current when it is made: the emulation looks for it here. */
int cublasSetStream_v2(struct cublasContext *handle, cudaStream_t stream)
{
    if (!stream) {
        fputs("emulated cuBLAS: the default stream is not emulated\n", stderr);
        abort();
    }
    const struct emulated_stream_head *head = (const void *)stream;
    if (fails() || !head->is_current(stream))
        return INVALID_VALUE;
    handle->stream = stream;
    return SUCCESS;
}

int cublasSetMathMode(struct cublasContext *handle, int mode)
{
    (void)handle;
    return mode == 0 && !fails() ? SUCCESS : INVALID_VALUE;
}

int cublasGetVersion_v2(struct cublasContext *handle, int *version)
{
    (void)handle;
    *version = VERSION;
    return fails() ? INVALID_VALUE : SUCCESS;
}

const char *cublasGetStatusString(int status)
{
    switch (status) {
    case SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case ALLOCATION_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
        return "CUBLAS_STATUS_INVALID_VALUE";
    }
}

static void multiply(void *closure)
{
    const struct product *p = closure;
    for (int column = 0; column < p->n; column++) {
        for (int row = 0; row < p->m; row++) {
            float sum = 0;
            for (int i = 0; i < p->k; i++) {
                size_t a =
                    p->a_transposed ? i + (size_t)row * p->a_stride : row + (size_t)i * p->a_stride;
                size_t b = p->b_transposed ? column + (size_t)i * p->b_stride
                                           : i + (size_t)column * p->b_stride;
                sum += p->a[a] * p->b[b];
            }
            float *to = &p->c[row + (size_t)column * p->c_stride];
            *to = p->alpha * sum + (p->beta == 0 ? 0 : p->beta * *to); /* beta 0: not read */
        }
    }
}

int cublasSgemm_v2(struct cublasContext *handle, int a_operation, int b_operation, int m, int n,
                   int k, const float *alpha, const float *a, int a_stride, const float *b,
                   int b_stride, const float *beta, float *c, int c_stride)
{
    if (m < 0 || n < 0 || k < 0 || a_stride < (a_operation ? k : m) || a_stride < 1 ||
        b_stride < (b_operation ? n : k) || b_stride < 1 || c_stride < m || c_stride < 1)
        return INVALID_VALUE;
    struct product product = {.a_transposed = a_operation != 0,
                              .b_transposed = b_operation != 0,
                              .m = m,
                              .n = n,
                              .k = k,
                              .alpha = *alpha,
                              .beta = *beta,
                              .a = a,
                              .b = b,
                              .c = c,
                              .a_stride = a_stride,
                              .b_stride = b_stride,
                              .c_stride = c_stride};
    const struct emulated_stream_head *head = (const void *)handle->stream;
    const void *const pointers[] = {a, b, c};
    cudaError_t error =
        fails() ? cudaErrorUnknown
                : head->submit(handle->stream, multiply, &product, sizeof(product), pointers, 3);
    return error ? EXECUTION_FAILED : SUCCESS;
}
