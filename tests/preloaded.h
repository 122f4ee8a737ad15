/* SPDX-License-Identifier: MIT */
/* For libraries that are preloaded into programs (LD_PRELOAD). */
#ifndef TESTS_PRELOADED_H
#define TESTS_PRELOADED_H

#include <dlfcn.h>

/* The function of that name that would have been called without the library. */
#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

#endif
