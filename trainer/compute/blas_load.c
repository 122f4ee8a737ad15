/* SPDX-License-Identifier: MIT */
/* Loads shared libraries with temporary environment variables. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/compute/blas_library.h"

#define VARIABLES_LIMIT 4

static char *value_now(const char *name)
{
    const char *value = getenv(name);
    return value ? strdup(value) : NULL;
}

static void put_back(const char *name, char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    free(value);
}

enum error blas_load_file(const char *const *files, const struct blas_variable *variables,
                          size_t variable_count, void **ret_handle)
{
    char *before[VARIABLES_LIMIT];
    for (size_t i = 0; i < variable_count; i++) {
        before[i] = value_now(variables[i].name);
        setenv(variables[i].name, variables[i].value, 1);
    }
    void *handle = NULL;
    char why[400] = "";
    for (; *files && !handle; files++) {
        handle = dlopen(*files, RTLD_NOW | RTLD_LOCAL);
        if (!handle && !why[0])
            snprintf(why, sizeof(why), "%s", dlerror());
    }
    for (size_t i = 0; i < variable_count; i++)
        put_back(variables[i].name, before[i]);
    if (!handle)
        return error_set(ERROR_UNAVAILABLE, "cannot load the library: %s", why);
    *ret_handle = handle;
    return OK;
}

enum error blas_find(void *handle, const char *library, const char *symbol, void **ret_function)
{
    void *function = dlsym(handle, symbol);
    if (!function)
        return error_set(ERROR_UNAVAILABLE, "%s has no function %s; another build of it is needed",
                         library, symbol);
    *ret_function = function;
    return OK;
}
