/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/compute/cublas: which of the libraries on a machine is taken. dlopen() and dlsym()
 * are the test's own: a library is a name, and its version tells which one answered.
 */
#include "tests/unit/unit.h"

#include <dlfcn.h>

#include "trainer/compute/cublas.h"

struct library {
    const char *name;
    int version;
    bool is_there;
};

static struct library libraries[] = {
    {"libcublas.so.11", 110702, false},
    {"libcublas.so.12", 120303, false},
    {"libcublas.so.13", 130002, false},
    {"libcublas.so", 120000, false},
    {"/usr/local/cuda/lib64/libcublas.so", 110000, false},
};
enum { LIBRARIES = sizeof(libraries) / sizeof(libraries[0]) };
static const struct library *loaded;

void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *handle, const char *name);
char *__wrap_dlerror(void);

void *__wrap_dlopen(const char *name, int flags)
{
    (void)flags;
    for (size_t i = 0; i < LIBRARIES; i++) {
        if (!libraries[i].is_there || strcmp(libraries[i].name, name) != 0)
            continue;
        loaded = &libraries[i];
        return &libraries[i];
    }
    return NULL;
}

char *__wrap_dlerror(void)
{
    static char why[] = "it is not there";
    return why;
}

static int succeed(void)
{
    return 0;
}

static int create(void **handle)
{
    *handle = libraries;
    return 0;
}

static int get_version(const void *handle, int *version)
{
    (void)handle;
    *version = loaded->version;
    return 0;
}

void *__wrap_dlsym(void *handle, const char *name)
{
    assert_ptr_equal(handle, loaded);
    if (!strcmp(name, "cublasCreate_v2"))
        return (void *)create;
    return !strcmp(name, "cublasGetVersion_v2") ? (void *)get_version : (void *)succeed;
}

/* `there`: the bits of those that are. */
static void expect(unsigned there, const char *description)
{
    struct cublas *cublas;
    for (size_t i = 0; i < LIBRARIES; i++)
        libraries[i].is_there = there >> i & 1;
    assert_ok(cublas_open(NULL, "f32", &cublas));
    assert_string_equal(cublas_describe(cublas), description);
    cublas_close(cublas);
}

static void test_each_name_is_found(void **state)
{
    (void)state;
    expect(1 << 0, "cuBLAS 11.7.2");
    expect(1 << 1, "cuBLAS 12.3.3");
    expect(1 << 2, "cuBLAS 13.0.2");
    expect(1 << 3, "cuBLAS 12.0.0");
    expect(1 << 4, "cuBLAS 11.0.0");
}

static void test_the_newest_is_taken(void **state)
{
    (void)state;
    expect(0x1f, "cuBLAS 13.0.2");
    expect(0x1b, "cuBLAS 12.3.3");
    expect(0x19, "cuBLAS 11.7.2");
    expect(0x18, "cuBLAS 12.0.0");
}

static void test_there_is_none(void **state)
{
    struct cublas *cublas;
    (void)state;
    for (size_t i = 0; i < LIBRARIES; i++)
        libraries[i].is_there = false;
    assert_fails(cublas_open(NULL, "f32", &cublas), ERROR_UNAVAILABLE,
                 "cuBLAS: cannot load the library");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_each_name_is_found),
    cmocka_unit_test(test_the_newest_is_taken),
    cmocka_unit_test(test_there_is_none),
};

UNIT_MAIN(tests)
