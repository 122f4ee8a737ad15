/* SPDX-License-Identifier: MIT */
#include "trainer/compute/blas.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "common/log.h"
#include "trainer/compute/blas_library.h"

#define NAME_BYTES 64
#define CANDIDATES 4

static const struct blas_library *const libraries[] = {&blas_onednn, &blas_openblas, &blas_plain,
                                                       NULL};

/* The choice of this process. */
static struct {
    const struct blas_library *library; /* NULL: none is open */
    char name[NAME_BYTES];              /* as requested */
    unsigned users;
    char description[BLAS_DESCRIPTION_BYTES]; /* stays after the last close */
} open_now;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* One library and its kernels. */
struct candidate {
    const struct blas_library *library;
    const char *core;
};

#if defined(__x86_64__)
#define AMD_ZEN_5 26 /* the family of the first AMD that computes 512 bits at once */

static unsigned cpu_family(void)
{
    unsigned eax = 0, ebx, ecx, edx;
    __get_cpuid(1, &eax, &ebx, &ecx, &edx);
    return (eax >> 8 & 15) + (eax >> 20 & 255);
}

/* Are AVX-512 kernels faster than those of AVX2? AMD's Zen 4 takes 512 bits in two halves. */
static bool has_fast_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           (!__builtin_cpu_is("amd") || cpu_family() >= AMD_ZEN_5);
}

/* OpenBLAS chooses kernels by vendor and model number: for a virtual processor that reports an old
 * AMD's, it uses kernels whose instructions that processor lacks. */
static const char *openblas_core(bool fast_avx512)
{
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return fast_avx512 ? "SkylakeX" : "Haswell";
    if (__builtin_cpu_supports("avx"))
        return "Sandybridge";
    if (__builtin_cpu_supports("sse4.2"))
        return "Nehalem";
    return __builtin_cpu_supports("ssse3") ? "Core2" : "Prescott";
}
#endif

/* README.md has the measurements for this table: oneDNN is fastest where AVX-512 is, elsewhere
 * OpenBLAS with Haswell kernels; by its own choice OpenBLAS may use kernels four times as slow. */
static void candidates_here(struct candidate candidates[CANDIDATES])
{
    const struct blas_library *first = &blas_openblas, *second = &blas_onednn;
    const char *core = NULL;
#if defined(__x86_64__)
    __builtin_cpu_init();
    core = openblas_core(has_fast_avx512());
    if (has_fast_avx512()) {
        first = &blas_onednn;
        second = &blas_openblas;
    }
#endif
    candidates[0] = (struct candidate){first, first == &blas_openblas ? core : NULL};
    candidates[1] = (struct candidate){second, second == &blas_openblas ? core : NULL};
    /* An OpenBLAS built for only one CPU has no other kernels, and is still faster than ours. */
    candidates[2] = (struct candidate){&blas_openblas, NULL};
    candidates[3] = (struct candidate){&blas_plain, NULL};
}

static enum error load_best(const struct blas_library **ret_library,
                            char ret_description[BLAS_DESCRIPTION_BYTES])
{
    struct candidate candidates[CANDIDATES];
    candidates_here(candidates);
    enum error error = OK;
    for (size_t i = 0; i < CANDIDATES; i++) {
        error = candidates[i].library->load(candidates[i].core, ret_description);
        if (!error) {
            *ret_library = candidates[i].library;
            if (candidates[i].library == &blas_plain)
                log_warning("neither OpenBLAS nor oneDNN can be used: matrix products are done in "
                            "plain C, many times slower (Debian: libopenblas0-pthread); %s",
                            error_message());
            return OK;
        }
        log_debug("%s", error_message());
    }
    return error;
}

static enum error load_named(const char *name, const struct blas_library **ret_library,
                             char ret_description[BLAS_DESCRIPTION_BYTES])
{
    size_t length = strcspn(name, ":");
    const char *core = name[length] ? name + length + 1 : NULL;
    for (size_t i = 0; libraries[i]; i++) {
        if (strlen(libraries[i]->name) != length || strncmp(libraries[i]->name, name, length) != 0)
            continue;
        enum error error = libraries[i]->load(core, ret_description);
        if (!error)
            *ret_library = libraries[i];
        return error;
    }
    return error_set(ERROR_USAGE,
                     "BLAS \"%.60s\" is unknown; it must be auto, onednn, openblas, openblas:CORE "
                     "or plain",
                     name);
}

static enum error open_first(const char *name)
{
    const struct blas_library *library = NULL;
    char description[BLAS_DESCRIPTION_BYTES];
    enum error error = !strcmp(name, "auto") ? load_best(&library, description)
                                             : load_named(name, &library, description);
    if (error)
        return error;
    open_now.library = library;
    open_now.users = 1;
    snprintf(open_now.name, sizeof(open_now.name), "%s", name);
    memcpy(open_now.description, description, sizeof(description));
    return OK;
}

static enum error open_again(const char *name)
{
    bool same = !strcmp(name, "auto") || !strcmp(name, open_now.name);
    if (!same)
        return error_set(ERROR_CONFLICT,
                         "this process already computes with %s; it cannot also use \"%.60s\"",
                         open_now.description, name);
    open_now.users++;
    return OK;
}

enum error blas_open(const char *name)
{
    if (strlen(name) >= NAME_BYTES)
        return error_set(ERROR_USAGE, "BLAS \"%.60s...\" is unknown", name);
    pthread_mutex_lock(&lock);
    enum error error = open_now.library ? open_again(name) : open_first(name);
    pthread_mutex_unlock(&lock);
    return error;
}

void blas_close(void)
{
    pthread_mutex_lock(&lock);
    if (open_now.users && --open_now.users == 0)
        open_now.library = NULL;
    pthread_mutex_unlock(&lock);
}

void blas_multiply(const struct blas_product *product)
{
    /* The libraries disagree on what empty products do to C. */
    if (product->m == 0 || product->n == 0)
        return;
    if (product->k == 0)
        blas_multiply_plain(product);
    else
        open_now.library->multiply(product);
}

const char *blas_describe(void)
{
    if (blas_open("auto"))
        return "no BLAS";
    blas_close();
    return open_now.description;
}
