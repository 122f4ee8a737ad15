/* The part of cuBLAS that Tombola loads, on the emulated GPU's streams: column-major, float32, sums
 * in ascending order. */
#include <stdlib.h>

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

enum { SUCCESS = 0, ALLOCATION_FAILED = 3, INVALID_VALUE = 7, VERSION = 130000 };

int cublasCreate_v2(struct cublasContext **ret_handle)
{
    *ret_handle = calloc(1, sizeof(**ret_handle));
    return *ret_handle ? SUCCESS : ALLOCATION_FAILED;
}

int cublasDestroy_v2(struct cublasContext *handle)
{
    free(handle);
    return SUCCESS;
}

int cublasSetStream_v2(struct cublasContext *handle, cudaStream_t stream)
{
    handle->stream = stream;
    return SUCCESS;
}

int cublasSetMathMode(struct cublasContext *handle, int mode)
{
    (void)handle;
    return mode == 0 ? SUCCESS : INVALID_VALUE;
}

int cublasGetVersion_v2(struct cublasContext *handle, int *version)
{
    (void)handle;
    *version = VERSION;
    return SUCCESS;
}

const char *cublasGetStatusString(int status)
{
    return status == SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INVALID_VALUE";
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
    head->enqueue(handle->stream, multiply, &product, sizeof(product));
    return SUCCESS;
}
