/* SPDX-License-Identifier: MIT */
/* What a batch's labels are on the device, besides the doubles on the host, and its weights. */
#ifndef LOADER_FEED_LABEL_ELEMENT_H
#define LOADER_FEED_LABEL_ELEMENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "loader/store/store.h"

enum label_element {
    LABELS_HOST, /* not on the device */
    LABELS_F64,
    LABELS_I64, /* of texts: their numbers */
    LABELS_F32,
    LABELS_BY_KIND /* of an option: LABELS_F64 for real numbers, else LABELS_I64 */
};

enum weight_element { WEIGHTS_NONE, WEIGHTS_F32, WEIGHTS_F64 };

static inline size_t weight_element_bytes(enum weight_element element)
{
    return element == WEIGHTS_NONE ? 0 : element == WEIGHTS_F32 ? sizeof(float) : sizeof(double);
}

static inline enum label_element label_element_choose(enum label_element wanted,
                                                      enum label_kind kind)
{
    if (wanted != LABELS_BY_KIND)
        return wanted;
    return kind == LABEL_REAL ? LABELS_F64 : LABELS_I64;
}

static inline size_t label_element_bytes(enum label_element element)
{
    return element == LABELS_HOST ? 0 : element == LABELS_F32 ? sizeof(float) : sizeof(double);
}

/* `to`: [rows] of the element, not LABELS_HOST. Labels that are to be integers are. */
static inline void label_element_convert(enum label_element element, void *to, const double *labels,
                                         size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        if (element == LABELS_I64)
            ((int64_t *)to)[i] = (int64_t)labels[i];
        else if (element == LABELS_F32)
            ((float *)to)[i] = (float)labels[i];
        else
            ((double *)to)[i] = labels[i];
    }
}

#endif
