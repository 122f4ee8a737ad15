/* SPDX-License-Identifier: MIT */
/*
 * Interface of a BLAS library; chosen by name in blas.c. Internal to blas*.c and their tests.
 */
#ifndef TRAINER_COMPUTE_BLAS_LIBRARY_H
#define TRAINER_COMPUTE_BLAS_LIBRARY_H

#include <stddef.h>

#include "common/error.h"
#include "trainer/compute/blas.h"

#define BLAS_DESCRIPTION_BYTES 120

struct blas_library {
    const char *name; /* "onednn" */
    /* Loads the library, unless it is loaded; `core`: which of its kernels, NULL for its own choice
     * (OpenBLAS only, and only the first load of a process can choose). ERROR_UNAVAILABLE naming
     * the files tried. */
    enum error (*load)(const char *core, char ret_description[BLAS_DESCRIPTION_BYTES]) MUST_CHECK;
    void (*multiply)(const struct blas_product *product);
};

extern const struct blas_library blas_onednn, blas_openblas, blas_plain;

/* An environment variable that a library reads while it loads. */
struct blas_variable {
    const char *name, *value;
};

/* dlopen() of the first of `files` (NULL-terminated) that loads, with the variables (at most 4) set
 * meanwhile and restored afterwards. *ret_handle is never closed. ERROR_UNAVAILABLE with the
 * loader's message. */
enum error blas_load_file(const char *const *files, const struct blas_variable *variables,
                          size_t variable_count, void **ret_handle) MUST_CHECK;

/* A function of a loaded library; ERROR_UNAVAILABLE if it has none of this name. */
enum error blas_find(void *handle, const char *library, const char *symbol,
                     void **ret_function) MUST_CHECK;

#endif
