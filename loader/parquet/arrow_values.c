/* SPDX-License-Identifier: MIT */
#include "loader/parquet/arrow_values.h"

#include <math.h>
#include <string.h>

#define VIEW_BYTES 16
#define VIEW_INLINE_BYTES 12 /* texts up to this length are in the view itself */

/* ---- arrays ------------------------------------------------------------- */

static bool bit(const uint8_t *bits, int64_t at)
{
    return bits[at / 8] >> (at % 8) & 1;
}

static bool is_null(const struct arrow_part *part, int64_t at)
{
    return part->valid && !bit(part->valid, part->first + at);
}

/* `buffers`: the fewest that it has. A buffer of no values may be NULL. */
static bool take_part(struct arrow_part *part, const struct arrow_array *array, int64_t buffers)
{
    if (!array || array->length < 0 || array->offset < 0 || array->buffer_count < buffers)
        return false;
    for (int64_t i = 1; i < buffers; i++) {
        if (!array->buffers[i] && array->length > 0)
            return false;
    }
    *part = (struct arrow_part){.buffers = array->buffers,
                                .buffer_count = array->buffer_count,
                                .first = array->offset,
                                .length = array->length};
    if (array->null_count != 0)
        part->valid = array->buffers[0];
    return true;
}

static int64_t buffers_of(const struct arrow_type *type)
{
    return type->layout == ARROW_OFFSETS || type->layout == ARROW_OFFSETS64 ? 3 : 2;
}

static bool take(struct arrow_values *values, const struct arrow_array *array)
{
    const struct arrow_type *type = values->type;
    const struct arrow_array *inner = array;
    if (type->form == ARROW_CODED)
        inner = array->dictionary;
    else if (type->form != ARROW_PLAIN)
        inner = array->child_count == 1 ? array->children[0] : NULL;
    if (!take_part(&values->values, inner, buffers_of(type)))
        return false;
    if (inner == array)
        values->rows = values->values;
    else if (!take_part(&values->rows, array, type->form == ARROW_FIXED_LIST ? 1 : 2))
        return false;
    return type->form != ARROW_FIXED_LIST ||
           values->values.length / (type->items > 0 ? type->items : 1) >= values->rows.length;
}

enum error arrow_values_init(struct arrow_values *values, const struct arrow_type *type,
                             const struct arrow_array *array, int64_t rows)
{
    *values = (struct arrow_values){.type = type};
    if (type->kind == ARROW_OTHER || !take(values, array) || values->rows.length != rows)
        return error_set(ERROR_INPUT, "its values are not the %s that its type says", type->name);
    return OK;
}

/* ---- rows --------------------------------------------------------------- */

/* A little-endian integer of 1 to 8 bytes. */
static uint64_t read_integer(const void *buffer, int64_t at, int64_t size, bool is_unsigned)
{
    uint64_t value = 0;
    memcpy(&value, (const uint8_t *)buffer + at * size, (size_t)size);
    unsigned shift = 64 - 8 * (unsigned)size;
    return is_unsigned ? value : (uint64_t)((int64_t)(value << shift) >> shift);
}

bool arrow_values_of_row(const struct arrow_values *values, int64_t row, int64_t *ret_first,
                         int64_t *ret_count)
{
    const struct arrow_type *type = values->type;
    const struct arrow_part *rows = &values->rows;
    int64_t at = rows->first + row, end;
    *ret_count = 1;
    if (is_null(rows, row))
        return false;
    switch (type->form) {
    case ARROW_PLAIN:
        *ret_first = row;
        return true;
    case ARROW_CODED:
        *ret_first =
            (int64_t)read_integer(rows->buffers[1], at, type->code_size, type->code_unsigned);
        return true;
    case ARROW_FIXED_LIST:
        *ret_first = at * type->items;
        *ret_count = type->items;
        return true;
    default:
        end = type->form == ARROW_LIST ? 4 : 8;
        *ret_first = (int64_t)read_integer(rows->buffers[1], at, end, false);
        *ret_count = (int64_t)read_integer(rows->buffers[1], at + 1, end, false) - *ret_first;
        return true;
    }
}

/* ---- texts -------------------------------------------------------------- */

static struct text read_view(const struct arrow_part *part, int64_t at)
{
    const uint8_t *view = (const uint8_t *)part->buffers[1] + at * VIEW_BYTES;
    int32_t fields[4]; /* length, first bytes, buffer, offset */
    memcpy(fields, view, sizeof(fields));
    const char *data = (const char *)view + sizeof(fields[0]);
    if (fields[0] > VIEW_INLINE_BYTES)
        data = (const char *)part->buffers[2 + fields[2]] + fields[3];
    return (struct text){.data = data, .length = (size_t)fields[0]};
}

/* Texts and bytes. */
static struct text read_bytes(const struct arrow_values *values, int64_t value)
{
    const struct arrow_type *type = values->type;
    const struct arrow_part *part = &values->values;
    int64_t at = part->first + value;
    if (type->layout == ARROW_VIEWS)
        return read_view(part, at);
    if (type->layout == ARROW_FIXED)
        return (struct text){.data = (const char *)part->buffers[1] + at * type->size,
                             .length = (size_t)type->size};
    int64_t size = type->layout == ARROW_OFFSETS ? 4 : 8;
    int64_t begin = (int64_t)read_integer(part->buffers[1], at, size, false);
    int64_t end = (int64_t)read_integer(part->buffers[1], at + 1, size, false);
    return (struct text){.data = (const char *)part->buffers[2] + begin,
                         .length = (size_t)(end - begin)};
}

/* Divides by ten; returns the rest. */
static unsigned take_digit(uint32_t limbs[8], size_t count)
{
    uint64_t rest = 0;
    for (size_t i = count; i-- > 0;) {
        rest = rest << 32 | limbs[i];
        limbs[i] = (uint32_t)(rest / 10);
        rest %= 10;
    }
    return (unsigned)rest;
}

static bool is_zero(const uint32_t limbs[8])
{
    uint32_t any = 0;
    for (size_t i = 0; i < 8; i++)
        any |= limbs[i];
    return any == 0;
}

/* Two's complement. */
static void negate(uint32_t limbs[8], size_t count)
{
    uint64_t carry = 1;
    for (size_t i = 0; i < count; i++) {
        carry += ~limbs[i];
        limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* The decimal at `bytes`, its point `scale` digits from the end. */
static struct text write_decimal(const uint8_t *bytes, size_t size, int scale,
                                 char room[ARROW_TEXT_BYTES])
{
    uint32_t limbs[8] = {0};
    size_t count = size / sizeof(limbs[0]), at = ARROW_TEXT_BYTES;
    memcpy(limbs, bytes, size);
    bool negative = limbs[count - 1] >> 31;
    if (negative)
        negate(limbs, count);
    for (int i = scale; i < 0 && !is_zero(limbs); i++)
        room[--at] = '0';
    for (int written = 0; written == 0 || written <= scale || !is_zero(limbs); written++) {
        if (written == scale && scale > 0)
            room[--at] = '.';
        room[--at] = (char)('0' + take_digit(limbs, count));
    }
    if (negative)
        room[--at] = '-';
    return (struct text){.data = room + at, .length = ARROW_TEXT_BYTES - at};
}

static struct text read_decimal(const struct arrow_values *values, int64_t at,
                                char room[ARROW_TEXT_BYTES])
{
    const uint8_t *bytes = (const uint8_t *)values->values.buffers[1] + at * values->type->size;
    return write_decimal(bytes, (size_t)values->type->size, values->type->scale, room);
}

/* ---- numbers ------------------------------------------------------------ */

static double of_half(uint16_t half)
{
    int exponent = half >> 10 & 31;
    double fraction = half & 1023;
    double value = exponent == 31  ? (fraction > 0 ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return half >> 15 ? -value : value;
}

static double of_text(struct text text, bool *ret_known)
{
    double value = INFINITY;
    *ret_known =
        text_parse_real(text.data, text.length, &value) || text_is_real(text.data, text.length);
    return value;
}

static double of_decimal(const struct arrow_values *values, int64_t at)
{
    char room[ARROW_TEXT_BYTES];
    bool known;
    return of_text(read_decimal(values, at, room), &known);
}

/* Converts values of one type at once: the loops are the hot path of an import. */
#define CONVERT(type, convert)                                           \
    do {                                                                 \
        const uint8_t *from = (const uint8_t *)data + at * sizeof(type); \
        for (size_t i = 0; i < count; i++, from += sizeof(type)) {       \
            type value;                                                  \
            memcpy(&value, from, sizeof(value));                         \
            ret_numbers[i] = convert(value);                             \
        }                                                                \
    } while (0)

static void read_floats(const struct arrow_values *values, size_t at, size_t count,
                        double *ret_numbers)
{
    const void *data = values->values.buffers[1];
    switch (values->type->size) {
    case 2:
        CONVERT(uint16_t, of_half);
        break;
    case 4:
        CONVERT(float, (double));
        break;
    default:
        CONVERT(double, );
    }
}

static void read_integers(const struct arrow_values *values, size_t at, size_t count,
                          double *ret_numbers)
{
    const void *data = values->values.buffers[1];
    bool is_unsigned = values->type->kind == ARROW_UNSIGNED;
    switch (values->type->size * 2 + is_unsigned) {
    case 2:
        CONVERT(int8_t, (double));
        break;
    case 3:
        CONVERT(uint8_t, (double));
        break;
    case 4:
        CONVERT(int16_t, (double));
        break;
    case 5:
        CONVERT(uint16_t, (double));
        break;
    case 8:
        CONVERT(int32_t, (double));
        break;
    case 9:
        CONVERT(uint32_t, (double));
        break;
    case 16:
        CONVERT(int64_t, (double));
        break;
    default:
        CONVERT(uint64_t, (double));
    }
}

void arrow_values_numbers(const struct arrow_values *values, int64_t first, size_t count,
                          double *ret_numbers, bool *ret_known)
{
    const struct arrow_part *part = &values->values;
    int64_t at = part->first + first;
    memset(ret_known, 1, count * sizeof(*ret_known));
    for (size_t i = 0; i < count && part->valid; i++)
        ret_known[i] = !is_null(part, first + (int64_t)i);
    switch (values->type->kind) {
    case ARROW_FLOAT:
        read_floats(values, (size_t)at, count, ret_numbers);
        return;
    case ARROW_INTEGER:
    case ARROW_UNSIGNED:
        read_integers(values, (size_t)at, count, ret_numbers);
        return;
    case ARROW_BOOLEAN:
        for (size_t i = 0; i < count; i++)
            ret_numbers[i] = bit(part->buffers[1], at + (int64_t)i);
        return;
    case ARROW_DECIMAL:
        for (size_t i = 0; i < count; i++)
            ret_numbers[i] = of_decimal(values, at + (int64_t)i);
        return;
    case ARROW_TEXT:
        for (size_t i = 0; i < count; i++) {
            if (ret_known[i])
                ret_numbers[i] = of_text(read_bytes(values, first + (int64_t)i), &ret_known[i]);
        }
        return;
    default:
        memset(ret_known, 0, count * sizeof(*ret_known));
    }
}

const uint8_t *arrow_values_u8(const struct arrow_values *values, int64_t first)
{
    const struct arrow_part *part = &values->values;
    bool is_u8 = values->type->kind == ARROW_UNSIGNED && values->type->size == 1;
    return is_u8 && !part->valid ? (const uint8_t *)part->buffers[1] + part->first + first : NULL;
}

void arrow_values_row_numbers(const struct arrow_values *values, int64_t row, size_t count,
                              double *ret_numbers, bool *ret_known)
{
    if (values->type->form == ARROW_PLAIN) {
        arrow_values_numbers(values, row, count, ret_numbers, ret_known);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t first, values_of_row;
        ret_known[i] = false;
        if (arrow_values_of_row(values, row + (int64_t)i, &first, &values_of_row))
            arrow_values_numbers(values, first, 1, &ret_numbers[i], &ret_known[i]);
    }
}

/* ---- single values ------------------------------------------------------ */

/* The index of the row's only value; -1: null. */
static int64_t value_of(const struct arrow_values *values, int64_t row)
{
    int64_t first, count;
    if (!arrow_values_of_row(values, row, &first, &count) || is_null(&values->values, first))
        return -1;
    return first;
}

bool arrow_values_integer(const struct arrow_values *values, int64_t row, int64_t *ret_integer)
{
    const struct arrow_type *type = values->type;
    int64_t value = value_of(values, row);
    bool is_unsigned = type->kind == ARROW_UNSIGNED;
    if (value < 0 || (type->kind != ARROW_INTEGER && !is_unsigned))
        return false;
    uint64_t bits = read_integer(values->values.buffers[1], values->values.first + value,
                                 type->size, is_unsigned);
    *ret_integer = (int64_t)bits;
    return !is_unsigned || bits <= INT64_MAX;
}

static struct text of_string(const char *string)
{
    return (struct text){.data = string, .length = strlen(string)};
}

static bool write_float(const struct arrow_values *values, int64_t value,
                        char room[ARROW_TEXT_BYTES], struct text *ret_text)
{
    double number;
    bool known;
    arrow_values_numbers(values, value, 1, &number, &known);
    *ret_text = of_string(text_of_number(number, values->type->size != 8, room));
    return isfinite(number);
}

static struct text write_integer(const struct arrow_values *values, int64_t at,
                                 char room[ARROW_TEXT_BYTES])
{
    bool is_unsigned = values->type->kind == ARROW_UNSIGNED;
    uint64_t bits = read_integer(values->values.buffers[1], at, values->type->size, is_unsigned);
    char *end = room;
    if (is_unsigned && bits > INT64_MAX) { /* the last digit is written separately */
        end = text_write_integer(room, (int64_t)(bits / 10));
        *end++ = (char)('0' + bits % 10);
    } else {
        end = text_write_integer(room, (int64_t)bits);
    }
    return (struct text){.data = room, .length = (size_t)(end - room)};
}

bool arrow_values_text(const struct arrow_values *values, int64_t row, char room[ARROW_TEXT_BYTES],
                       struct text *ret_text)
{
    const struct arrow_type *type = values->type;
    int64_t value = value_of(values, row);
    int64_t at = values->values.first + value;
    if (value < 0)
        return false;
    switch (type->kind) {
    case ARROW_TEXT:
        *ret_text = read_bytes(values, value);
        return true;
    case ARROW_INTEGER:
    case ARROW_UNSIGNED:
        *ret_text = write_integer(values, at, room);
        return true;
    case ARROW_FLOAT:
        return write_float(values, value, room, ret_text);
    case ARROW_DECIMAL:
        *ret_text = read_decimal(values, at, room);
        return true;
    case ARROW_BOOLEAN:
        *ret_text = of_string(bit(values->values.buffers[1], at) ? "true" : "false");
        return true;
    default:
        return false;
    }
}

bool arrow_values_bytes(const struct arrow_values *values, int64_t row, struct text *ret_bytes)
{
    int64_t value = value_of(values, row);
    if (value < 0 || values->type->kind != ARROW_BYTES)
        return false;
    *ret_bytes = read_bytes(values, value);
    return true;
}
