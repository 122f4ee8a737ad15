/* SPDX-License-Identifier: MIT */
/* The part of cuBLAS that Tombola loads, on the emulated GPU's streams: column-major, float32, sums
 * in ascending order, factors rounded to TF32 or bfloat16 where that is allowed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

struct cublasContext {
    cudaStream_t stream;
    void *workspace; /* NULL: its own, which it allocates when a product needs it */
};

struct product {
    bool a_transposed, b_transposed;
    int m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    int a_stride, b_stride, c_stride;
    unsigned dropped_bits; /* of a factor's 23 */
};

enum { SUCCESS = 0, ALLOCATION_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };
enum { VERSION = 130000, WORKSPACE_ALIGNMENT = 256 };
enum { TYPE_F32 = 0, COMPUTE_F32 = 68, COMPUTE_BF16 = 75, COMPUTE_TF32 = 77 };

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
    handle->workspace = NULL;
    return SUCCESS;
}

int cublasSetWorkspace_v2(struct cublasContext *handle, void *workspace, size_t bytes)
{
    if (fails() || (uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0 || bytes == 0)
        return INVALID_VALUE;
    handle->workspace = workspace;
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

/* To the nearest, ties to even. */
static float rounded(float value, unsigned dropped_bits)
{
    uint32_t bits;
    if (dropped_bits == 0 || value != value)
        return value;
    memcpy(&bits, &value, sizeof(bits));
    uint32_t unit = 1u << dropped_bits;
    bits = (bits + unit / 2 - 1 + ((bits & unit) != 0)) & ~(unit - 1);
    memcpy(&value, &bits, sizeof(bits));
    return value;
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
                sum += rounded(p->a[a], p->dropped_bits) * rounded(p->b[b], p->dropped_bits);
            }
            float *to = &p->c[row + (size_t)column * p->c_stride];
            *to = p->alpha * sum + (p->beta == 0 ? 0 : p->beta * *to); /* beta 0: not read */
        }
    }
}

int cublasGemmEx(struct cublasContext *handle, int a_operation, int b_operation, int m, int n,
                 int k, const void *alpha, const void *a, int a_type, int a_stride, const void *b,
                 int b_type, int b_stride, const void *beta, void *c, int c_type, int c_stride,
                 int compute, int algorithm)
{
    if (a_type != TYPE_F32 || b_type != TYPE_F32 || c_type != TYPE_F32 || algorithm != -1 ||
        (compute != COMPUTE_F32 && compute != COMPUTE_BF16 && compute != COMPUTE_TF32))
        return INVALID_VALUE;
    if (m < 0 || n < 0 || k < 0 || a_stride < (a_operation ? k : m) || a_stride < 1 ||
        b_stride < (b_operation ? n : k) || b_stride < 1 || c_stride < m || c_stride < 1)
        return INVALID_VALUE;
    struct product product = {.a_transposed = a_operation != 0,
                              .b_transposed = b_operation != 0,
                              .m = m,
                              .n = n,
                              .k = k,
                              .alpha = *(const float *)alpha,
                              .beta = *(const float *)beta,
                              .a = a,
                              .b = b,
                              .c = c,
                              .a_stride = a_stride,
                              .b_stride = b_stride,
                              .c_stride = c_stride,
                              .dropped_bits = compute == COMPUTE_F32    ? 0
                                              : compute == COMPUTE_TF32 ? 13
                                                                        : 16};
    const struct emulated_stream_head *head = (const void *)handle->stream;
    if (!handle->workspace && head->is_capturing(handle->stream))
        return ALLOCATION_FAILED;
    const void *const pointers[] = {a, b, c};
    cudaError_t error =
        fails() ? cudaErrorUnknown
                : head->submit(handle->stream, multiply, &product, sizeof(product), pointers, 3);
    return error ? EXECUTION_FAILED : SUCCESS;
}
