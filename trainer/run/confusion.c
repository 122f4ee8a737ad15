/* SPDX-License-Identifier: MIT */
#include "trainer/run/confusion.h"

#include <stdlib.h>

#include "common/array.h"
#include "trainer/model/classes.h"

enum error confusion_init(struct confusion *confusion, size_t classes)
{
    *confusion = (struct confusion){.classes = classes};
    if (classes == 0)
        return OK;
    confusion->had = array_new(3 * classes, sizeof(*confusion->had), "counts of classes");
    if (!confusion->had)
        return ERROR_MEMORY;
    confusion->given = confusion->had + classes;
    confusion->hits = confusion->given + classes;
    if (classes > CONFUSION_MATRIX_LIMIT)
        return OK;
    confusion->matrix =
        array_new(classes * classes, sizeof(*confusion->matrix), "a confusion matrix");
    return confusion->matrix ? OK : ERROR_MEMORY;
}

void confusion_release(struct confusion *confusion)
{
    free(confusion->had);
    free(confusion->matrix);
    *confusion = (struct confusion){.classes = 0};
}

void confusion_add(struct confusion *confusion, const int32_t *classes, const float *scores,
                   size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        size_t had = (size_t)classes[i];
        size_t given = classes_choose(scores + i * confusion->classes, confusion->classes);
        confusion->had[had]++;
        confusion->given[given]++;
        confusion->hits[had] += had == given;
        if (confusion->matrix)
            confusion->matrix[had * confusion->classes + given]++;
    }
    confusion->rows += (int64_t)rows;
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

struct confusion_figures confusion_class(const struct confusion *confusion, size_t class_number)
{
    int64_t had = confusion->had[class_number], given = confusion->given[class_number];
    int64_t hits = confusion->hits[class_number];
    return (struct confusion_figures){.precision = share(hits, given),
                                      .recall = share(hits, had),
                                      .f1 = share(2 * hits, had + given),
                                      .support = had};
}

struct confusion_figures confusion_mean(const struct confusion *confusion, bool weighted)
{
    struct confusion_figures mean = {.support = confusion->rows};
    size_t present = 0;
    for (size_t i = 0; i < confusion->classes; i++)
        present += confusion->had[i] + confusion->given[i] > 0;
    double whole = weighted ? (double)confusion->rows : (double)present;
    for (size_t i = 0; i < confusion->classes && whole > 0; i++) {
        struct confusion_figures one = confusion_class(confusion, i);
        double weight = (weighted ? (double)one.support : 1) / whole;
        mean.precision += weight * one.precision;
        mean.recall += weight * one.recall;
        mean.f1 += weight * one.f1;
    }
    return mean;
}
