/* SPDX-License-Identifier: MIT */
/*
 * cuBLAS, loaded with dlopen() when a GPU is used, so that the program starts without it. Matrices
 * and sums are float32. With precision "f32" so are the products, and the CPU is the reference;
 * with "tf32" and "bf16" cuBLAS may round factors to TF32 (10-bit mantissa) or bfloat16 (7-bit
 * mantissa), for the tensor cores. One handle per stream; work is enqueued there asynchronously,
 * and the same product gives the same bits on the same GPU.
 *
 * Threads: one at a time per handle.
 */
#ifndef TRAINER_COMPUTE_CUBLAS_H
#define TRAINER_COMPUTE_CUBLAS_H

#include <stddef.h>

#include "common/error.h"
#include "trainer/compute/blas.h"

struct cublas;

/* `stream`: a cudaStream_t of the current GPU, which must support the precision. ERROR_UNAVAILABLE
 * if the library is missing or does not work with this GPU and driver. */
enum error cublas_open(void *stream, const char *precision, struct cublas **ret_cublas) MUST_CHECK;
void cublas_close(struct cublas *cublas);

/* Device memory as workspace for cuBLAS; must outlive it. An old cuBLAS without this call keeps its
 * own. */
enum error cublas_set_workspace(struct cublas *cublas, void *memory, size_t bytes) MUST_CHECK;

/* As blas_multiply(), on device memory. ERROR_UNAVAILABLE with cuBLAS's reason. */
enum error cublas_multiply(struct cublas *cublas, const struct blas_product *product) MUST_CHECK;

/* "cuBLAS 13.0.2", "cuBLAS 13.0.2 with tf32 products". Borrowed until cublas_close(). */
const char *cublas_describe(const struct cublas *cublas);

#endif
