/* SPDX-License-Identifier: MIT */
/*
 * Two methods: if mantissa and power of ten are both exact as doubles, one division or product
 * rounds correctly (Clinger 1990). Otherwise the mantissa is multiplied by the power's first 128
 * bits, and the product rounded, unless the power's missing bits could change the rounding (after
 * Lemire, Number Parsing at a Gigabyte per Second, 2021).
 */
#include "common/decimal.h"

#include <pthread.h>
#include <string.h>

#define EXPONENT_LIMIT 100000 /* far beyond every double; the sum with a text's length is an int */
#define DOUBLE_BITS 53
#define DOUBLE_BIAS 1023

/* ---- reading ------------------------------------------------------------ */

static size_t scan_digits(const char *text, size_t at, size_t length, struct decimal *decimal)
{
    for (; at < length; at++) {
        unsigned digit = (unsigned char)text[at] - (unsigned)'0';
        if (digit > 9)
            break;
        if (decimal->mantissa > (UINT64_MAX - 9) / 10)
            decimal->exact = false;
        else
            decimal->mantissa = decimal->mantissa * 10 + digit;
    }
    return at;
}

static size_t scan_exponent(const char *text, size_t at, size_t length, struct decimal *decimal)
{
    bool negative = text[at] == '-';
    int exponent = 0;
    if (text[at] == '-' || text[at] == '+')
        at++;
    for (; at < length && text[at] >= '0' && text[at] <= '9'; at++) {
        if (exponent < EXPONENT_LIMIT)
            exponent = exponent * 10 + (text[at] - '0');
    }
    decimal->exponent += negative ? -exponent : exponent;
    return at;
}

const char *decimal_read(const char *text, size_t length, struct decimal *ret_decimal)
{
    struct decimal decimal = {.exact = true, .negative = length > 0 && text[0] == '-'};
    size_t start = length > 0 && (text[0] == '-' || text[0] == '+');
    size_t at = scan_digits(text, start, length, &decimal);
    size_t digits = at - start;
    if (at < length && text[at] == '.') {
        size_t fraction = at + 1;
        at = scan_digits(text, fraction, length, &decimal);
        digits += at - fraction;
        decimal.exponent = -(int)(at - fraction);
    }
    if (digits == 0)
        return NULL;
    if (at < length && (text[at] == 'e' || text[at] == 'E')) {
        if (++at == length)
            return NULL;
        at = scan_exponent(text, at, length, &decimal);
        if (text[at - 1] < '0' || text[at - 1] > '9')
            return NULL;
    }
    *ret_decimal = decimal;
    return text + at;
}

/* ---- powers of ten ------------------------------------------------------ */

typedef unsigned __int128 wide;

#define POWER_LIMIT 55 /* 5^55 is the last one below 2^128 */

/* 10^n = bits * 2^exponent, the highest of 128 bits set; below 10^0 less than one bit too small. */
static struct power {
    wide bits;
    int exponent;
} powers[2 * POWER_LIMIT + 1]; /* of 10^(i - POWER_LIMIT) */
static pthread_once_t powers_once = PTHREAD_ONCE_INIT;

/* 2^(127 + width) / value, rounded down, for `value` of `width` bits that is not a power of 2. */
static wide reciprocal(wide value, int width)
{
    wide quotient = 0, rest = (wide)1 << (width - 1);
    for (int bit = 0; bit < 128; bit++) {
        bool carry = rest >> 127;
        rest <<= 1;
        bool fits = carry || rest >= value;
        rest -= fits ? value : 0;
        quotient = quotient << 1 | fits;
    }
    return quotient;
}

static void make_powers(void)
{
    wide fives = 1;
    for (int n = 0; n <= POWER_LIMIT; n++) {
        uint64_t high = (uint64_t)(fives >> 64);
        int width =
            high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((unsigned long long)fives);
        powers[POWER_LIMIT + n] = (struct power){fives << (128 - width), n + width - 128};
        if (n > 0)
            powers[POWER_LIMIT - n] = (struct power){reciprocal(fives, width), -n - width - 127};
        fives *= 5;
    }
}

/* ---- rounding ----------------------------------------------------------- */

/* kept * 2^exponent, unless the double is subnormal or out of range. */
static double scale(uint64_t kept, int exponent)
{
    uint64_t bits = (uint64_t)(DOUBLE_BIAS + exponent) << (DOUBLE_BITS - 1);
    double power;
    memcpy(&power, &bits, sizeof(power));
    return (double)kept * power;
}

/* The product has 191 or 192 bits: `high`, then the 64 of `low`. For a power below 1 it is too
 * small by less than 2 in the last place of `high`, and never exact. */
static bool round_product(uint64_t mantissa, int exponent, double *ret_value)
{
    pthread_once(&powers_once, make_powers);
    const struct power *power = &powers[POWER_LIMIT + exponent];
    int zeros = __builtin_clzll(mantissa);
    wide low = (wide)(mantissa << zeros) * (uint64_t)power->bits;
    wide high = (wide)(mantissa << zeros) * (uint64_t)(power->bits >> 64) + (low >> 64);
    int dropped = 127 - DOUBLE_BITS + (int)(high >> 127);
    uint64_t kept = (uint64_t)(high >> dropped);
    wide half = (wide)1 << (dropped - 1);
    wide rest = high & (2 * half - 1);
    bool above = rest > half || (rest == half && (exponent < 0 || (uint64_t)low > 0 || kept & 1));
    if (exponent < 0 && rest + 1 == half)
        return false;
    *ret_value = scale(kept + above, dropped + 64 + power->exponent - zeros);
    return true;
}

bool decimal_to_double(const struct decimal *decimal, double *ret_value)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    enum { TENS_LIMIT = sizeof(tens) / sizeof(tens[0]) - 1 };
    int exponent = decimal->exponent;
    double value = (double)decimal->mantissa;
    bool exact = decimal->mantissa <= UINT64_C(1) << DOUBLE_BITS;
    if (!decimal->exact)
        return false;
    if (exact && exponent <= 0 && exponent >= -TENS_LIMIT)
        value /= tens[-exponent];
    else if (exact && exponent > 0 && exponent <= TENS_LIMIT)
        value *= tens[exponent];
    else if (decimal->mantissa > 0 && (exponent < -POWER_LIMIT || exponent > POWER_LIMIT ||
                                       !round_product(decimal->mantissa, exponent, &value)))
        return false;
    *ret_value = decimal->negative ? -value : value;
    return true;
}
