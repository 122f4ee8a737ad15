/* SPDX-License-Identifier: MIT */
#include "loader/csv/csv_floats.h"

#include <math.h>
#include <string.h>

#include "common/decimal.h"
#include "common/text.h"
#include "loader/column/feature.h"

#define FIELD_LIMIT_BYTES 64 /* longer fields are left to the splitter */

size_t csv_floats_plain(const char **at, size_t count, char delimiter, void *out, bool *is_u8)
{
    size_t done = 0;
    for (; done < count; done++) {
        struct decimal decimal;
        double value;
        const char *end = decimal_read(*at, FIELD_LIMIT_BYTES, &decimal);
        if (!end || *end != delimiter)
            break;
        if (!decimal_to_double(&decimal, &value) &&
            !text_parse_real(*at, (size_t)(end - *at), &value))
            break;
        if (!feature_fits(value, ELEMENT_F32))
            break;
        feature_store(value, ELEMENT_F32, out, done, is_u8);
        *at = end + 1;
    }
    return done;
}

size_t csv_floats_decode(const char **at, size_t count, char delimiter, void *out, bool *is_u8)
{
    csv_floats_way *way = csv_floats_vectors();
    uint8_t *next = out;
    size_t done = 0, got = 1;
    while (way && done < count && got > 0) {
        done += way(at, count - done, delimiter, next + done * sizeof(float), is_u8);
        /* A field that the vectors cannot parse; they go on after it. */
        got = done < count ? csv_floats_plain(at, 1, delimiter, next + done * sizeof(float), is_u8)
                           : 0;
        done += got;
    }
    return way ? done : csv_floats_plain(at, count, delimiter, out, is_u8);
}
