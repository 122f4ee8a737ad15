/* SPDX-License-Identifier: MIT */
/*
 * oneDNN's dnnl_sgemm by dlopen(). It chooses its kernels by the CPU's features and generates them
 * at the first call. OpenMP is told to start no threads, in the environment while it loads.
 */
#include <stdint.h>
#include <stdio.h>

#include "trainer/compute/blas_library.h"

typedef int sgemm_function(char a_transpose, char b_transpose, int64_t m, int64_t n, int64_t k,
                           float alpha, const float *a, int64_t a_stride, const float *b,
                           int64_t b_stride, float beta, float *c, int64_t c_stride);

struct version {
    int major, minor, patch;
};

static void *handle;
static sgemm_function *sgemm;

static enum error load_once(void)
{
    static const char *const files[] = {"libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so.2",
                                        "libdnnl.so", NULL}; /* .3.6: Debian 13, Ubuntu 26.04 */
    if (handle)
        return OK;
    const struct blas_variable variables[] = {{"OMP_NUM_THREADS", "1"}};
    void *loaded, *function;
    enum error error = blas_load_file(files, variables, 1, &loaded);
    if (!error)
        error = blas_find(loaded, "oneDNN", "dnnl_sgemm", &function);
    if (error)
        return error;
    sgemm = (sgemm_function *)function;
    handle = loaded;
    return OK;
}

/* Of dnnl_cpu_isa_t: each newer set includes the earlier ones. */
enum { ISA_AVX = 0x2, ISA_AVX2 = 0x4, ISA_AVX512 = 0x20 };

/* 0: unknown. */
static int effective_isa(void)
{
    void *function;
    if (blas_find(handle, "oneDNN", "dnnl_get_effective_cpu_isa", &function))
        return 0;
    return ((int (*)(void))function)();
}

static const char *kernels_text(int isa)
{
    if (isa & ISA_AVX512)
        return "AVX-512";
    if (isa & ISA_AVX2)
        return "AVX2";
    if (isa & ISA_AVX)
        return "AVX";
    return isa ? "SSE4.1" : "unnamed";
}

static enum error load(const char *core, char ret_description[BLAS_DESCRIPTION_BYTES])
{
    if (core)
        return error_set(ERROR_USAGE, "oneDNN chooses its kernels itself; leave out \":%.40s\"",
                         core);
    enum error error = load_once();
    if (error)
        return error_prefix(error, "oneDNN: ");
    void *function;
    char version[32] = "";
    if (!blas_find(handle, "oneDNN", "dnnl_version", &function)) {
        const struct version *found = ((const struct version *(*)(void))function)();
        snprintf(version, sizeof(version), " %d.%d.%d", found->major, found->minor, found->patch);
    }
    snprintf(ret_description, BLAS_DESCRIPTION_BYTES, "oneDNN%s, %s kernels", version,
             kernels_text(effective_isa()));
    return OK;
}

/* dnnl_sgemm is row-major (unlike BLAS's own sgemm), C = alpha op(A) op(B) + beta C: alpha is 1,
 * and beta 0 overwrites C whatever it contains, also NaN. Its status only reports bad arguments. */
static void multiply(const struct blas_product *p)
{
    sgemm(p->a_transpose == BLAS_TRANSPOSED ? 'T' : 'N',
          p->b_transpose == BLAS_TRANSPOSED ? 'T' : 'N', (int64_t)p->m, (int64_t)p->n,
          (int64_t)p->k, 1, p->a, (int64_t)p->a_stride, p->b, (int64_t)p->b_stride, p->add ? 1 : 0,
          p->c, (int64_t)p->c_stride);
}

const struct blas_library blas_onednn = {"onednn", load, multiply};
