/* SPDX-License-Identifier: MIT */
/* The product in plain C: sums in the order of k, one rounding per step. Slow, but always
 * available. */
#include <stdio.h>
#include <string.h>

#include "trainer/compute/blas_library.h"

void blas_multiply_plain(const struct blas_product *p)
{
    size_t a_row = p->a_transpose == BLAS_TRANSPOSED ? 1 : p->a_stride;
    size_t a_column = p->a_transpose == BLAS_TRANSPOSED ? p->a_stride : 1;
    size_t b_row = p->b_transpose == BLAS_TRANSPOSED ? 1 : p->b_stride;
    size_t b_column = p->b_transpose == BLAS_TRANSPOSED ? p->b_stride : 1;
    for (size_t i = 0; i < p->m; i++) {
        float *c = p->c + i * p->c_stride;
        if (!p->add)
            memset(c, 0, p->n * sizeof(*c));
        for (size_t k = 0; k < p->k; k++) {
            float a = p->a[i * a_row + k * a_column];
            const float *b = p->b + k * b_row;
            for (size_t j = 0; j < p->n; j++)
                c[j] += a * b[j * b_column];
        }
    }
}

static enum error load(const char *core, char ret_description[BLAS_DESCRIPTION_BYTES])
{
    if (core)
        return error_set(ERROR_USAGE,
                         "the plain product has no kernels to choose; leave out "
                         "\":%.40s\"",
                         core);
    snprintf(ret_description, BLAS_DESCRIPTION_BYTES, "plain C product (slow)");
    return OK;
}

const struct blas_library blas_plain = {"plain", load, blas_multiply_plain};
