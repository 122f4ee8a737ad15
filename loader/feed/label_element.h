/* SPDX-License-Identifier: MIT */
/* Types of a batch's labels on the device (in addition to the doubles on the host), and of its
 * weights. */
#ifndef LOADER_FEED_LABEL_ELEMENT_H
#define LOADER_FEED_LABEL_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "loader/store/store.h"

enum label_element {
    LABELS_HOST, /* not on the device */
    LABELS_F64,
    LABELS_I64, /* for texts, their numbers */
    LABELS_F32,
    LABELS_BY_KIND,     /* as an option: LABELS_F64 for real numbers, else LABELS_I64 */
    LABELS_ONE_HOT_F32, /* zeros with a one at the label's code (one_hot.h) */
    LABELS_ONE_HOT_U8
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

static inline bool label_element_is_one_hot(enum label_element element)
{
    return element == LABELS_ONE_HOT_F32 || element == LABELS_ONE_HOT_U8;
}

/* Per row, on the device. */
static inline size_t label_element_bytes(enum label_element element, size_t classes)
{
    switch (element) {
    case LABELS_HOST:
        return 0;
    case LABELS_ONE_HOT_U8:
        return classes;
    case LABELS_ONE_HOT_F32:
        return classes * sizeof(float);
    case LABELS_F32:
        return sizeof(float);
    default:
        return sizeof(double);
    }
}

static inline size_t label_one_hot_bytes(enum label_element element, size_t classes)
{
    return label_element_is_one_hot(element) ? label_element_bytes(element, classes) : 0;
}

/* Per row, as the host provides it: for one-hot rows the code. */
static inline size_t label_element_host_bytes(enum label_element element)
{
    return label_element_is_one_hot(element) ? sizeof(uint32_t) : label_element_bytes(element, 0);
}

/* `to`: [rows] of the element, not LABELS_HOST nor one-hot. Labels to be converted to integers are
 * integers. */
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
