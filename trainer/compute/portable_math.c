/* SPDX-License-Identifier: MIT */
#include "trainer/compute/portable_math.h"

#include <math.h>

#define HALF_PI 1.57079632679489661923
#define LN_2 0.69314718055994530942
#define EXPONENTIAL_LIMIT 800 /* beyond it e^x is 0 or infinite */

/* ln x = e ln 2 + 2 artanh((m - 1) / (m + 1)), m in [sqrt 1/2, sqrt 2). */
double portable_logarithm(double x)
{
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654752440) {
        m *= 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int n = 21; n >= 1; n -= 2)
        sum = sum * square + 1.0 / n;
    return exponent * LN_2 + 2 * s * sum;
}

/* e^x = 2^n e^r, |r| <= ln 2 / 2, e^r by its Taylor series. */
double portable_exponential(double x)
{
    if (x > EXPONENTIAL_LIMIT)
        return INFINITY;
    if (!(x > -EXPONENTIAL_LIMIT))
        return x < 0 ? 0 : x;
    double n = floor(x / LN_2 + 0.5), r = x - n * LN_2, sum = 1;
    for (int i = 16; i >= 1; i--)
        sum = 1 + sum * r / i;
    return ldexp(sum, (int)n);
}

double portable_power(double base, int64_t exponent)
{
    double result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            result *= base;
        base *= base;
    }
    return result;
}

/* By Taylor series within an eighth of a turn. */
void portable_cosine_sine(double turns, double *ret_cosine, double *ret_sine)
{
    double quarters = turns * 4;
    int quadrant = (int)(quarters + 0.5);
    double angle = (quarters - quadrant) * HALF_PI, square = angle * angle;
    double cosine = 1, sine = 1;
    for (int n = 18; n >= 2; n -= 2) {
        cosine = 1 - cosine * square / (n * (n - 1));
        sine = 1 - sine * square / (n * (n + 1));
    }
    sine *= angle;
    double both[4][2] = {{cosine, sine}, {-sine, cosine}, {-cosine, -sine}, {sine, -cosine}};
    *ret_cosine = both[quadrant & 3][0];
    *ret_sine = both[quadrant & 3][1];
}
