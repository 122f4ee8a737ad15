/* SPDX-License-Identifier: MIT */
/* Which whole numbers are the same as a double: in JSON, in labels, in columns of reals. */
#ifndef COMMON_EXACT_H
#define COMMON_EXACT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* All from -EXACT_INTEGER to EXACT_INTEGER; beyond, two of them have one double. */
#define EXACT_INTEGER (INT64_C(1) << 53)

static inline bool exact_is_integer(double value)
{
    return fabs(value) <= (double)EXACT_INTEGER && value == floor(value);
}

#endif
