/* SPDX-License-Identifier: MIT */
#include "trainer/compute/gradient_clip.h"

#include <math.h>

static enum error check(const char *what, float value)
{
    if (value >= 0 && isfinite(value))
        return OK;
    return error_set(ERROR_USAGE, "%s is %g; it must be at least 0 and finite", what,
                     (double)value);
}

enum error gradient_clip_check(const struct gradient_clip *clip)
{
    enum error error = check("clip norm", clip->norm);
    return error ? error : check("clip value", clip->value);
}

float gradient_clip_factor(const struct gradient_clip *clip, double squares)
{
    double norm = sqrt(squares);
    return norm > (double)clip->norm && isfinite(norm) ? (float)((double)clip->norm / norm) : 1;
}
