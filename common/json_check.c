/* SPDX-License-Identifier: MIT */
#include "common/json_check.h"

#include <stdbool.h>
#include <string.h>

#include "common/text.h"

struct scan {
    const char *text;
    const char *what;
    size_t at;
    size_t length;
    int depth;
};

static void find_place(const struct scan *scan, size_t at, size_t *ret_line, size_t *ret_column)
{
    *ret_line = *ret_column = 1;
    for (size_t i = 0; i < at; i++) {
        *ret_column = scan->text[i] == '\n' ? 1 : *ret_column + 1;
        *ret_line += scan->text[i] == '\n';
    }
}

static enum error refuse(const struct scan *scan, const char *expected)
{
    size_t line, column;
    find_place(scan, scan->at, &line, &column);
    if (scan->at >= scan->length)
        return error_set(ERROR_INPUT, "%s ends at line %zu, column %zu: %s was expected",
                         scan->what, line, column, expected);
    char shown[TEXT_QUOTE_BYTES];
    size_t left = scan->length - scan->at;
    return error_set(
        ERROR_INPUT, "%s, line %zu, column %zu: %s was expected, found %s", scan->what, line,
        column, expected,
        text_quote(shown, sizeof(shown), scan->text + scan->at, left < 20 ? left : 20));
}

static int peek(const struct scan *scan)
{
    return scan->at < scan->length ? (unsigned char)scan->text[scan->at] : -1;
}

static bool accept(struct scan *scan, char wanted)
{
    bool met = peek(scan) == wanted;
    scan->at += met;
    return met;
}

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->length && memchr(" \t\n\r", scan->text[scan->at], 4))
        scan->at++;
}

static size_t skip_digits(struct scan *scan)
{
    size_t start = scan->at;
    while (peek(scan) >= '0' && peek(scan) <= '9')
        scan->at++;
    return scan->at - start;
}

/* Without an exponent, a number needs 309 digits to be too large. */
#define DIGITS_IN_RANGE 308

static enum error check_range(const struct scan *scan, size_t start, bool has_exponent)
{
    double value;
    size_t line, column, length = scan->at - start;
    char shown[TEXT_QUOTE_BYTES];
    if ((!has_exponent && length <= DIGITS_IN_RANGE) ||
        text_parse_real(scan->text + start, length, &value))
        return OK;
    find_place(scan, start, &line, &column);
    return error_set(
        ERROR_INPUT, "%s, line %zu, column %zu: the number %s is out of range, " TEXT_REAL_RANGE,
        scan->what, line, column, text_quote(shown, sizeof(shown), scan->text + start, length));
}

static enum error check_number(struct scan *scan)
{
    size_t start = scan->at;
    bool has_exponent = false;
    accept(scan, '-');
    if (!accept(scan, '0') && skip_digits(scan) == 0)
        return refuse(scan, "a digit");
    if (accept(scan, '.') && skip_digits(scan) == 0)
        return refuse(scan, "a digit");
    if (accept(scan, 'e') || accept(scan, 'E')) {
        has_exponent = true;
        if (!accept(scan, '-'))
            accept(scan, '+');
        if (skip_digits(scan) == 0)
            return refuse(scan, "a digit");
    }
    return check_range(scan, start, has_exponent);
}

static bool read_hex4(struct scan *scan, unsigned *ret_value)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++, scan->at++) {
        int digit = peek(scan);
        if (digit >= '0' && digit <= '9')
            value = value * 16 + (unsigned)(digit - '0');
        else if ((digit | 32) >= 'a' && (digit | 32) <= 'f')
            value = value * 16 + (unsigned)((digit | 32) - 'a' + 10);
        else
            return false;
    }
    *ret_value = value;
    return true;
}

/* After "\u". */
static enum error check_unicode_escape(struct scan *scan)
{
    unsigned first;
    unsigned second;
    size_t start = scan->at;
    if (!read_hex4(scan, &first))
        return refuse(scan, "four hex digits");
    bool high = first >= 0xd800 && first < 0xdc00;
    bool low = first >= 0xdc00 && first < 0xe000;
    if (high && accept(scan, '\\') && accept(scan, 'u') && read_hex4(scan, &second) &&
        second >= 0xdc00 && second < 0xe000)
        return OK;
    if (!high && !low && first != 0)
        return OK;
    scan->at = start;
    return refuse(scan, "a character other than NUL or half a surrogate pair");
}

/* After the opening quote. */
static enum error check_string(struct scan *scan)
{
    enum error error = OK;
    while (!error) {
        int byte = peek(scan);
        if (byte < 0)
            return refuse(scan, "the closing quote of a string");
        if (byte < 0x20)
            return refuse(scan, "a string without control characters");
        scan->at++;
        if (byte == '"')
            return OK;
        if (byte != '\\')
            continue;
        if (accept(scan, 'u'))
            error = check_unicode_escape(scan);
        else if (scan->at < scan->length && memchr("\"\\/bfnrt", scan->text[scan->at], 8))
            scan->at++;
        else
            error = refuse(scan, "an escape of \"\\/bfnrtu");
    }
    return error;
}

static enum error check_word(struct scan *scan, const char *word)
{
    size_t length = strlen(word);
    if (scan->length - scan->at < length || memcmp(scan->text + scan->at, word, length) != 0)
        return refuse(scan, "a JSON value");
    scan->at += length;
    return OK;
}

static enum error check_value(struct scan *scan);

static enum error check_member(struct scan *scan)
{
    skip_space(scan);
    if (!accept(scan, '"'))
        return refuse(scan, "a key in quotes");
    enum error error = check_string(scan);
    if (error)
        return error;
    skip_space(scan);
    if (!accept(scan, ':'))
        return refuse(scan, "':'");
    return check_value(scan);
}

/* After '{' or '['. Recursion ends at JSON_DEPTH_LIMIT. */
static enum error check_container(struct scan *scan, bool object)
{
    char close = object ? '}' : ']';
    if (++scan->depth > JSON_DEPTH_LIMIT)
        return error_set(ERROR_INPUT, "%s is nested deeper than %d, the most that is read",
                         scan->what, JSON_DEPTH_LIMIT);
    skip_space(scan);
    bool empty = accept(scan, close);
    while (!empty) {
        enum error error = object ? check_member(scan) : check_value(scan);
        if (error)
            return error;
        skip_space(scan);
        if (accept(scan, close))
            break;
        if (!accept(scan, ','))
            return refuse(scan, object ? "',' or '}'" : "',' or ']'");
    }
    scan->depth--;
    return OK;
}

static enum error check_value(struct scan *scan)
{
    skip_space(scan);
    switch (peek(scan)) {
    case '{':
    case '[':
        scan->at++;
        return check_container(scan, scan->text[scan->at - 1] == '{');
    case '"':
        scan->at++;
        return check_string(scan);
    case 't':
        return check_word(scan, "true");
    case 'f':
        return check_word(scan, "false");
    case 'n':
        return check_word(scan, "null");
    case '-':
    case '0' ... '9':
        return check_number(scan);
    default:
        return refuse(scan, "a JSON value");
    }
}

enum error json_check(const char *text, size_t length, const char *what)
{
    struct scan scan = {.text = text, .what = what, .length = length};
    if (!text_is_utf8(text, length))
        return error_set(ERROR_INPUT, "%s is not UTF-8 text without NUL", what);
    enum error error = check_value(&scan);
    if (error)
        return error;
    skip_space(&scan);
    return scan.at == length ? OK : refuse(&scan, "the end");
}
