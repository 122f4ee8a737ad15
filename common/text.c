/* SPDX-License-Identifier: MIT */
/* Reals are parsed by decimal.h; what it cannot decide goes to strtod(). Whatever the locale of a
 * program that uses libtombola, numbers are read and written as in the C locale. */
#include "common/text.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/decimal.h"

#define REAL_LENGTH_LIMIT 1024
#define QUOTE_CHARACTERS 60

bool text_parse_integer(const char *text, size_t length, int64_t minimum, int64_t maximum,
                        int64_t *ret_value)
{
    bool negative = length > 0 && text[0] == '-';
    size_t at = negative;
    if (at == length)
        return false;
    int64_t value = 0; /* kept negative: INT64_MIN has no positive counterpart */
    for (; at < length; at++) {
        unsigned digit = (unsigned char)text[at] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, (int64_t)digit, &value))
            return false;
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, value, &value))
        return false;
    if (value < minimum || value > maximum)
        return false;
    *ret_value = value;
    return true;
}

/* value * 10^places, unless that overflows. */
static bool shift_left(int64_t *value, int64_t places)
{
    while (*value != 0 && places-- > 0) {
        if (__builtin_mul_overflow(*value, 10, value))
            return false;
    }
    return true;
}

bool text_parse_json_integer(const char *text, size_t length, int64_t *ret_value)
{
    int64_t value = 0, exponent = 0; /* `value` without its last zeros, and negative, as above */
    int64_t zeros = 0, behind_point = 0;
    bool negative = text[0] == '-', has_point = false;
    size_t at = negative;
    for (; at < length && text[at] != 'e' && text[at] != 'E'; at++) {
        has_point |= text[at] == '.';
        if (text[at] == '.')
            continue;
        behind_point += has_point;
        zeros++;
        if (text[at] == '0')
            continue;
        if (!shift_left(&value, zeros) || __builtin_sub_overflow(value, text[at] - '0', &value))
            return false;
        zeros = 0;
    }
    at += at + 1 < length && text[at + 1] == '+' ? 2 : 1;
    bool is_far = at < length && !text_parse_integer(text + at, length - at, INT32_MIN, INT32_MAX,
                                                     &exponent); /* longer than any text is */
    if (is_far && value != 0)
        return false;
    int64_t places = exponent + zeros - behind_point;
    if ((value != 0 && places < 0) || !shift_left(&value, places) ||
        (!negative && __builtin_sub_overflow((int64_t)0, value, &value)))
        return false;
    *ret_value = value;
    return true;
}

bool text_parse_bytes(const char *text, int64_t minimum, int64_t *ret_bytes)
{
    static const char units[] = "KMGT";
    size_t length = strlen(text);
    const char *unit = length > 1 ? strchr(units, text[length - 1]) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    int64_t number;
    if (!text_parse_integer(text, length - (unit != NULL), 0, INT64_MAX >> shift, &number) ||
        number << shift < minimum)
        return false;
    *ret_bytes = number << shift;
    return true;
}

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* For this thread; returns the locale to restore by uselocale(). */
static locale_t use_c_locale(void)
{
    pthread_once(&c_locale_once, make_c_locale);
    return uselocale(c_locale);
}

static bool parse_real_slowly(const char *text, size_t length, double *ret_value)
{
    char copy[REAL_LENGTH_LIMIT + 1];
    memcpy(copy, text, length);
    copy[length] = '\0';
    locale_t old = use_c_locale();
    double value = strtod(copy, NULL);
    uselocale(old);
    if (!isfinite(value))
        return false;
    *ret_value = value;
    return true;
}

bool text_parse_real(const char *text, size_t length, double *ret_value)
{
    struct decimal decimal;
    if (length > REAL_LENGTH_LIMIT || !decimal_scan(text, length, &decimal))
        return false;
    return decimal_to_double(&decimal, ret_value) || parse_real_slowly(text, length, ret_value);
}

const char *text_of_real(double value, char out[TEXT_REAL_BYTES])
{
    locale_t old = use_c_locale();
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, TEXT_REAL_BYTES, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    uselocale(old);
    return out;
}

const char *text_of_float(float value, char out[TEXT_REAL_BYTES])
{
    locale_t old = use_c_locale();
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(out, TEXT_REAL_BYTES, "%.*g", digits, (double)value);
        if (strtof(out, NULL) == value)
            break;
    }
    uselocale(old);
    return out;
}

const char *text_of_number(double value, bool is_float, char out[TEXT_REAL_BYTES])
{
    if (!text_real_is_integer(value))
        return is_float ? text_of_float((float)value, out) : text_of_real(value, out);
    *text_write_integer(out, (int64_t)value) = '\0';
    return out;
}

bool text_is_real(const char *text, size_t length)
{
    struct decimal decimal;
    return length <= REAL_LENGTH_LIMIT && decimal_scan(text, length, &decimal);
}

bool text_parse_boolean(const char *text, size_t length, bool *ret_value)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0) {
            *ret_value = i % 2 == 1;
            return true;
        }
    }
    return false;
}

char *text_write_integer(char *out, int64_t value)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    char digits[TEXT_INTEGER_BYTES];
    char *end = digits + sizeof(digits);
    char *start = end;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (value < 0)
        *out++ = '-';
    while (rest >= 100) {
        uint64_t quotient = rest / 100;
        start -= 2;
        memcpy(start, pairs + 2 * (rest - quotient * 100), 2);
        rest = quotient;
    }
    if (rest >= 10) {
        start -= 2;
        memcpy(start, pairs + 2 * rest, 2);
    } else {
        *--start = (char)('0' + rest);
    }
    size_t length = (size_t)(end - start);
    memcpy(out, start, length);
    return out + length;
}

/* Length of the UTF-8 character at text[0], or 0 if it is not valid (RFC 3629). */
static size_t utf8_length(const unsigned char *text, size_t left)
{
    unsigned char lead = text[0];
    if (lead < 0x80)
        return lead != 0;
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    unsigned char second = text[1];
    bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    bool surrogate = lead == 0xed && second > 0x9f;
    bool beyond = lead == 0xf4 && second > 0x8f;
    return overlong || surrogate || beyond ? 0 : length;
}

bool text_is_utf8(const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        size_t bytes = utf8_length((const unsigned char *)text + at, length - at);
        if (bytes == 0)
            return false;
        at += bytes;
    }
    return true;
}

size_t text_control_bytes(const char *text, size_t length)
{
    const unsigned char *next = (const unsigned char *)text;
    if (length > 0 && (next[0] < 0x20 || next[0] == 0x7f))
        return 1;
    return length > 1 && next[0] == 0xc2 && next[1] < 0xa0 ? 2 : 0;
}

void text_mask_controls(char *text)
{
    for (; *text; text++)
        memset(text, strchr("\t\n\r", *text) ? ' ' : '?',
               text_control_bytes(text, text[1] ? 2 : 1));
}

const char *text_quote(char *out, size_t bytes, const char *text, size_t length)
{
    static const char end_cut[] = "...\"";
    if (bytes < sizeof(end_cut) + 1) {
        if (bytes > 0)
            out[0] = '\0';
        return out;
    }
    size_t room = bytes - sizeof(end_cut); /* for the text; the end always fits behind it */
    size_t written = 0;
    size_t at = 0;
    out[written++] = '"';
    for (int characters = 0; at < length && characters < QUOTE_CHARACTERS; characters++) {
        const unsigned char *next = (const unsigned char *)text + at;
        size_t step = utf8_length(next, length - at);
        bool shown = step > 0 && text_control_bytes(text + at, step) == 0;
        if (written + (shown ? step : 1) > room)
            break;
        if (shown)
            memcpy(out + written, next, step);
        else
            out[written] = '?';
        written += shown ? step : 1;
        at += step > 0 ? step : 1;
    }
    const char *end = at < length ? end_cut : end_cut + 3;
    memcpy(out + written, end, strlen(end) + 1);
    return out;
}

#define NEAREST_WORD_LIMIT 64
#define NEAREST_EDITS_LIMIT 3

/* In half edits: swapped letters are the likeliest slip, so "lable" is rather "label" than
 * "table". */
#define EDIT_COST 2
#define SWAP_COST 1

/* From a[..i] to b[..j], given all shorter pairs. */
static size_t least_cost(const char *a, const char *b, size_t i, size_t j,
                         size_t rows[3][NEAREST_WORD_LIMIT + 1])
{
    const size_t *own = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
    size_t best = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : EDIT_COST);
    if (above[j] + EDIT_COST < best)
        best = above[j] + EDIT_COST;
    if (own[j - 1] + EDIT_COST < best)
        best = own[j - 1] + EDIT_COST;
    bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
    if (swapped && before[j - 2] + SWAP_COST < best)
        best = before[j - 2] + SWAP_COST;
    return best;
}

/* Levenshtein distance with swaps of neighbours (optimal string alignment), in three rows. */
static size_t edit_cost(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][NEAREST_WORD_LIMIT + 1];
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j * EDIT_COST;
    for (size_t i = 1; i <= a_length; i++) {
        rows[i % 3][0] = i * EDIT_COST;
        for (size_t j = 1; j <= b_length; j++)
            rows[i % 3][j] = least_cost(a, b, i, j, rows);
    }
    return rows[a_length % 3][b_length];
}

const char *text_nearest(const char *word, const char *const candidates[], size_t count)
{
    const char *nearest = NULL;
    size_t least = NEAREST_EDITS_LIMIT * EDIT_COST + 1;
    size_t word_length = strlen(word);
    if (word_length > NEAREST_WORD_LIMIT)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(candidates[i]);
        if (length > NEAREST_WORD_LIMIT)
            continue;
        size_t cost = edit_cost(word, word_length, candidates[i], length);
        size_t longer = length > word_length ? length : word_length;
        if (cost < least && 2 * cost <= EDIT_COST * longer) {
            least = cost;
            nearest = candidates[i];
        }
    }
    return nearest;
}

size_t text_find(const char *text, size_t length, const char *const sorted[], size_t count)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strncmp(sorted[middle], text, length);
        if (order == 0 && strlen(sorted[middle]) == length) /* the text may have a NUL */
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return count;
}
