/* SPDX-License-Identifier: MIT */
/*
 * OpenBLAS by dlopen(). It chooses its kernels by the CPU's model number, falls back to the oldest
 * for an unknown number, and honours OPENBLAS_CORETYPE instead, but only while it loads.
 *
 * As it loads, or (before 0.3.29) with its first product, it allocates a buffer, which it keeps;
 * where that fails, as with ulimit -v, it tries again without end. Therefore load() looks whether
 * there is room, and makes a product. With several threads, those that multiply at once need a
 * buffer each.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "trainer/compute/blas_library.h"

#define BUFFER_BYTES ((size_t)32 << 22)                /* BUFFER_SIZE of x86-64 and ARM64 */
#define ROOM_BYTES (BUFFER_BYTES + ((size_t)64 << 20)) /* and the library: 0.3.29 has 40 MiB */
#define TRIAL 128 /* rows and columns: smaller products need no buffer on some processors */

enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };

typedef void sgemm_function(int order, int a_transpose, int b_transpose, int m, int n, int k,
                            float alpha, const float *a, int a_stride, const float *b, int b_stride,
                            float beta, float *c, int c_stride);

static void *handle;
static sgemm_function *sgemm;

static enum error check_room(void)
{
    void *room = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return error_set(ERROR_UNAVAILABLE,
                         "no address space for %zu MiB, most of them its buffer (ulimit -v, or "
                         "vm.overcommit_memory)",
                         ROOM_BYTES >> 20);
    munmap(room, ROOM_BYTES);
    return OK;
}

static void make_buffer(sgemm_function *multiply_once)
{
    static float factor[TRIAL * TRIAL], product[TRIAL * TRIAL];
    multiply_once(ROW_MAJOR, AS_IS, AS_IS, TRIAL, TRIAL, TRIAL, 1, factor, TRIAL, factor, TRIAL, 0,
                  product, TRIAL);
}

static enum error load_once(const char *core)
{
    static const char *const files[] = {"libopenblas.so.0", "libopenblas.so", NULL};
    if (handle)
        return OK;
    const struct blas_variable variables[] = {{"OPENBLAS_NUM_THREADS", "1"},
                                              {"OPENBLAS_CORETYPE", core}};
    void *loaded, *function;
    enum error error = check_room();
    if (!error)
        error = blas_load_file(files, variables, core ? 2 : 1, &loaded);
    if (!error)
        error = blas_find(loaded, "OpenBLAS", "cblas_sgemm", &function);
    if (error)
        return error;
    sgemm = (sgemm_function *)function;
    handle = loaded;
    make_buffer(sgemm);
    return OK;
}

/* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." -> "OpenBLAS 0.3.21" */
static void version_text(char *out, size_t bytes)
{
    void *function;
    if (blas_find(handle, "OpenBLAS", "openblas_get_config", &function)) {
        snprintf(out, bytes, "OpenBLAS");
        return;
    }
    const char *config = ((char *(*)(void))function)();
    const char *space = strchr(config, ' ');
    const char *end = space ? strchr(space + 1, ' ') : NULL;
    snprintf(out, bytes, "%.*s", end ? (int)(end - config) : 40, config);
}

static enum error load(const char *core, char ret_description[BLAS_DESCRIPTION_BYTES])
{
    enum error error = load_once(core);
    if (error)
        return error_prefix(error, "OpenBLAS: ");
    char version[48];
    version_text(version, sizeof(version));
    const char *kernels = "its own choice of";
    void *function;
    if (!blas_find(handle, "OpenBLAS", "openblas_get_corename", &function))
        kernels = ((char *(*)(void))function)();
    if (core && strcasecmp(core, kernels) != 0)
        return error_set(ERROR_UNAVAILABLE,
                         "OpenBLAS uses its %s kernels, %s were asked for: it does not have them, "
                         "or was loaded before with others",
                         kernels, core);
    if (!blas_find(handle, "OpenBLAS", "openblas_set_num_threads", &function))
        ((void (*)(int))function)(1);
    snprintf(ret_description, BLAS_DESCRIPTION_BYTES, "%s, %s kernels", version, kernels);
    return OK;
}

static void multiply(const struct blas_product *p)
{
    sgemm(ROW_MAJOR, p->a_transpose == BLAS_TRANSPOSED ? TRANSPOSED : AS_IS,
          p->b_transpose == BLAS_TRANSPOSED ? TRANSPOSED : AS_IS, (int)p->m, (int)p->n, (int)p->k,
          1, p->a, (int)p->a_stride, p->b, (int)p->b_stride, p->add ? 1 : 0, p->c,
          (int)p->c_stride);
}

const struct blas_library blas_openblas = {"openblas", load, multiply};
