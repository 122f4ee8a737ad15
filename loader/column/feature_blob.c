/* SPDX-License-Identifier: MIT */
#include "loader/column/feature_blob.h"

#include <stdio.h>
#include <string.h>

#include "common/text.h"

#define EXPONENT UINT32_C(0x7f800000) /* all of its bits: infinite or NaN */
#define STEP 16                       /* floats that are checked together, as vectors */

static bool is_finite(const uint8_t *at)
{
    uint32_t bits;
    memcpy(&bits, at, sizeof(bits));
    return (bits & EXPONENT) != EXPONENT;
}

static bool are_finite(const uint8_t *at)
{
    uint32_t bits[STEP], bad = 0;
    memcpy(bits, at, sizeof(bits));
    for (size_t i = 0; i < STEP; i++)
        bad |= (bits[i] & EXPONENT) == EXPONENT;
    return !bad;
}

size_t feature_not_finite(const void *floats, size_t features)
{
    const uint8_t *at = floats;
    size_t i = 0;
    while (features - i >= STEP && are_finite(at + i * sizeof(float)))
        i += STEP;
    while (i < features && is_finite(at + i * sizeof(float)))
        i++;
    return i;
}

bool feature_blob_copy(const void *bytes, size_t length, size_t features, enum element element,
                       void *out, const char *kind, char ret_wanted[FEATURE_BLOB_TEXT_BYTES])
{
    size_t wanted = features * element_bytes(element), bad = features;
    if (length == wanted && bytes && element == ELEMENT_F32)
        bad = feature_not_finite(bytes, features);
    if (length == wanted && bad == features) {
        if (bytes && wanted > 0)
            memcpy(out, bytes, wanted);
        return true;
    }
    if (length == wanted)
        snprintf(ret_wanted, FEATURE_BLOB_TEXT_BYTES, "a finite number (element %zu is not)", bad);
    else
        snprintf(ret_wanted, FEATURE_BLOB_TEXT_BYTES, "a %s of %zu %s", kind, wanted,
                 text_plural((int64_t)wanted, "byte", "bytes"));
    return false;
}
