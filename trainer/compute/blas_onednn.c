/* SPDX-License-Identifier: MIT */
/*
 * oneDNN's dnnl_sgemm by dlopen(). It chooses its kernels by the CPU's features and generates them
 * at the first call. Its threads are OpenMP's, whose number is a setting of the calling thread: one
 * in the environment while the library loads, which applies to all threads, else set before a
 * product. They sleep between products unless OMP_WAIT_POLICY says otherwise: OpenMP's default is
 * to spin for milliseconds, which takes the processors from feed and sampler, or a container's
 * quota. Only the AVX-512 kernels get several: of the others the last bits depend on them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "common/log.h"
#include "trainer/compute/blas_library.h"

typedef int sgemm_function(char a_transpose, char b_transpose, int64_t m, int64_t n, int64_t k,
                           float alpha, const float *a, int64_t a_stride, const float *b,
                           int64_t b_stride, float beta, float *c, int64_t c_stride);

/* Multiplications per product that one thread does as fast, since others have to wake up first: if
 * they sleep, and if they spin. */
#define ALONE_BELOW_ASLEEP 20000000
#define ALONE_BELOW_AWAKE 4000000

struct version {
    int major, minor, patch;
};

static void *handle;
static sgemm_function *sgemm;
static void (*set_threads)(int); /* NULL: OpenMP not found */
static unsigned most_threads;
static size_t alone_below;

static enum error load_once(void)
{
    static const char *const files[] = {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so", NULL};
    if (handle)
        return OK;
    const char *wait = getenv("OMP_WAIT_POLICY");
    const struct blas_variable variables[] = {{"OMP_NUM_THREADS", "1"},
                                              {"OMP_WAIT_POLICY", wait ? wait : "passive"}};
    void *loaded, *function;
    enum error error = blas_load_file(files, variables, 2, &loaded);
    if (!error)
        error = blas_find(loaded, "oneDNN", "dnnl_sgemm", &function);
    if (error)
        return error;
    alone_below = wait && strcasecmp(wait, "active") == 0 ? ALONE_BELOW_AWAKE : ALONE_BELOW_ASLEEP;
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

static enum error load(const char *core, unsigned threads,
                       char ret_description[BLAS_DESCRIPTION_BYTES])
{
    if (core)
        return error_set(ERROR_USAGE, "oneDNN chooses its kernels itself; leave out \":%.40s\"",
                         core);
    enum error error = load_once();
    if (error)
        return error_prefix(error, "oneDNN: ");
    void *function;
    char version[32] = "", count[32];
    /* Through oneDNN's handle: dlsym() also searches the libraries it was linked with, so this is
     * the OpenMP that oneDNN uses, not another one in the process. */
    if (!blas_find(handle, "OpenMP", "omp_set_num_threads", &function))
        set_threads = (void (*)(int))function;
    int isa = effective_isa();
    most_threads = set_threads && isa & ISA_AVX512 ? threads : 1;
    if (most_threads < threads)
        log_info("--threads %u has no effect on oneDNN without AVX-512, whose last bits would "
                 "depend on them",
                 threads);
    if (!blas_find(handle, "oneDNN", "dnnl_version", &function)) {
        const struct version *found = ((const struct version *(*)(void))function)();
        snprintf(version, sizeof(version), " %d.%d.%d", found->major, found->minor, found->patch);
    }
    snprintf(ret_description, BLAS_DESCRIPTION_BYTES, "oneDNN%s, %s kernels, %s", version,
             kernels_text(isa), blas_threads_text(most_threads, count));
    return OK;
}

/* dnnl_sgemm is row-major (unlike BLAS's own sgemm), C = alpha op(A) op(B) + beta C: alpha is 1,
 * and beta 0 overwrites C whatever it contains, also NaN. Its status only reports bad arguments. */
static void multiply(const struct blas_product *p)
{
    if (most_threads > 1)
        set_threads(p->m * p->n * p->k < alone_below ? 1 : (int)most_threads);
    sgemm(p->a_transpose == BLAS_TRANSPOSED ? 'T' : 'N',
          p->b_transpose == BLAS_TRANSPOSED ? 'T' : 'N', (int64_t)p->m, (int64_t)p->n,
          (int64_t)p->k, 1, p->a, (int64_t)p->a_stride, p->b, (int64_t)p->b_stride, p->add ? 1 : 0,
          p->c, (int64_t)p->c_stride);
}

const struct blas_library blas_onednn = {"onednn", load, multiply};
