/* SPDX-License-Identifier: MIT */
/* The greatest common divisor of two integers, by Euclid; of a and 0 it is a. */
#ifndef COMMON_DIVISOR_H
#define COMMON_DIVISOR_H

#include <stdint.h>

static inline int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
