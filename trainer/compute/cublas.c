/* SPDX-License-Identifier: MIT */
#include "trainer/compute/cublas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trainer/compute/blas_library.h"

/* cuBLAS's own types and constants, unchanged since its version 11. */
enum { STATUS_SUCCESS = 0, OPERATION_AS_IS = 0, OPERATION_TRANSPOSED = 1, DEFAULT_MATH = 0 };
enum { TYPE_F32 = 0, COMPUTE_F32 = 68, COMPUTE_BF16 = 75, COMPUTE_TF32 = 77, ANY_ALGORITHM = -1 };

typedef struct cublasContext *handle_type;
typedef int create_function(handle_type *handle);
typedef int destroy_function(handle_type handle);
typedef int set_stream_function(handle_type handle, void *stream);
typedef int set_workspace_function(handle_type handle, void *memory, size_t bytes);
typedef int set_math_function(handle_type handle, int mode);
typedef int get_version_function(handle_type handle, int *version);
typedef const char *status_function(int status);
typedef int gemm_function(handle_type handle, int a_operation, int b_operation, int m, int n, int k,
                          const void *alpha, const void *a, int a_type, int a_stride, const void *b,
                          int b_type, int b_stride, const void *beta, void *c, int c_type,
                          int c_stride, int compute, int algorithm);

struct cublas {
    handle_type handle;
    char description[60];
    int compute; /* COMPUTE_* */
    create_function *create;
    destroy_function *destroy;
    set_stream_function *set_stream;
    set_workspace_function *set_workspace; /* NULL: an old cuBLAS */
    set_math_function *set_math;
    get_version_function *get_version;
    status_function *status_text;
    gemm_function *gemm;
};

static enum error load(struct cublas *cublas)
{
    static const char *const files[] = {"libcublas.so.13",
                                        "libcublas.so.12",
                                        "libcublas.so.11",
                                        "libcublas.so",
                                        "/usr/local/cuda/lib64/libcublas.so",
                                        NULL};
    const struct {
        const char *symbol;
        void *target;
    } functions[] = {
        {"cublasCreate_v2", &cublas->create},          {"cublasDestroy_v2", &cublas->destroy},
        {"cublasSetStream_v2", &cublas->set_stream},   {"cublasSetMathMode", &cublas->set_math},
        {"cublasGetVersion_v2", &cublas->get_version}, {"cublasGemmEx", &cublas->gemm},
    };
    void *library;
    enum error error = blas_load_file(files, NULL, 0, &library);
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions) && !error; i++)
        error = blas_find(library, "cuBLAS", functions[i].symbol, (void **)functions[i].target);
    if (!error &&
        blas_find(library, "cuBLAS", "cublasGetStatusString", (void **)&cublas->status_text))
        cublas->status_text = NULL; /* since cuBLAS 11.4 */
    if (!error &&
        blas_find(library, "cuBLAS", "cublasSetWorkspace_v2", (void **)&cublas->set_workspace))
        cublas->set_workspace = NULL;
    return error;
}

static enum error check(const struct cublas *cublas, int status, const char *what)
{
    if (status == STATUS_SUCCESS)
        return OK;
    return error_set(ERROR_UNAVAILABLE, "%s failed: %s (%d)", what,
                     cublas->status_text ? cublas->status_text(status) : "status", status);
}

static enum error start(struct cublas *cublas, void *stream, const char *precision)
{
    int version = 0;
    bool is_f32 = strcmp(precision, "f32") == 0;
    cublas->compute = is_f32                           ? COMPUTE_F32
                      : strcmp(precision, "bf16") == 0 ? COMPUTE_BF16
                                                       : COMPUTE_TF32;
    enum error error = check(cublas, cublas->create(&cublas->handle), "cublasCreate");
    if (!error)
        error = check(cublas, cublas->set_stream(cublas->handle, stream), "cublasSetStream");
    if (!error)
        error = check(cublas, cublas->set_math(cublas->handle, DEFAULT_MATH), "cublasSetMathMode");
    if (!error)
        error = check(cublas, cublas->get_version(cublas->handle, &version), "cublasGetVersion");
    snprintf(cublas->description, sizeof(cublas->description), "cuBLAS %d.%d.%d%s%.8s%s",
             version / 10000, version / 100 % 100, version % 100, is_f32 ? "" : " with ",
             is_f32 ? "" : precision, is_f32 ? "" : " products");
    return error;
}

enum error cublas_open(void *stream, const char *precision, struct cublas **ret_cublas)
{
    struct cublas *cublas = array_new(1, sizeof(*cublas), "cuBLAS");
    if (!cublas)
        return ERROR_MEMORY;
    enum error error = load(cublas);
    if (!error)
        error = start(cublas, stream, precision);
    if (error) {
        cublas_close(cublas);
        return error_prefix(error, "cuBLAS: ");
    }
    *ret_cublas = cublas;
    return OK;
}

void cublas_close(struct cublas *cublas)
{
    if (!cublas)
        return;
    if (cublas->handle)
        cublas->destroy(cublas->handle);
    free(cublas);
}

enum error cublas_set_workspace(struct cublas *cublas, void *memory, size_t bytes)
{
    if (!cublas->set_workspace)
        return OK;
    return check(cublas, cublas->set_workspace(cublas->handle, memory, bytes),
                 "cuBLAS: cublasSetWorkspace");
}

/* cuBLAS is column-major: its B A is our A B, transposed. */
enum error cublas_multiply(struct cublas *cublas, const struct blas_product *p)
{
    const float one = 1, zero = 0;
    if (p->m == 0 || p->n == 0)
        return OK;
    int status = cublas->gemm(
        cublas->handle, p->b_transpose == BLAS_TRANSPOSED ? OPERATION_TRANSPOSED : OPERATION_AS_IS,
        p->a_transpose == BLAS_TRANSPOSED ? OPERATION_TRANSPOSED : OPERATION_AS_IS, (int)p->n,
        (int)p->m, (int)p->k, &one, p->b, TYPE_F32, (int)p->b_stride, p->a, TYPE_F32,
        (int)p->a_stride, p->add ? &one : &zero, p->c, TYPE_F32, (int)p->c_stride, cublas->compute,
        ANY_ALGORITHM);
    return check(cublas, status, "cuBLAS: cublasGemmEx");
}

const char *cublas_describe(const struct cublas *cublas)
{
    return cublas->description;
}
