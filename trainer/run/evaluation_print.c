/* SPDX-License-Identifier: MIT */
#include "trainer/run/evaluation_print.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/text.h"

#define NAME_WIDTH 16 /* at least */
#define NAME_LIMIT 40 /* a longer one shifts the columns */

/* ---- text --------------------------------------------------------------- */

static int name_width(const struct classes *classes)
{
    size_t width = NAME_WIDTH;
    for (size_t i = 0; i < classes->count; i++) {
        size_t length = strlen(classes->texts[i]);
        width = length > width ? length : width;
    }
    return (int)(width < NAME_LIMIT ? width : NAME_LIMIT);
}

static void print_figures(struct buffer *out, int width, const char *name,
                          const struct confusion_figures *figures)
{
    buffer_print(out, "%-*s %9.4f %9.4f %9.4f %9" PRId64 "\n", width, name, figures->precision,
                 figures->recall, figures->f1, figures->support);
}

static void print_classes(struct buffer *out, const struct confusion *confusion,
                          const struct classes *classes)
{
    int width = name_width(classes);
    struct confusion_figures macro = confusion_mean(confusion, false);
    struct confusion_figures weighted = confusion_mean(confusion, true);
    buffer_print(out, "%-*s %9s %9s %9s %9s\n", width, "class", "precision", "recall", "f1",
                 "support");
    for (size_t i = 0; i < classes->count && i < EVALUATION_CLASSES_SHOWN; i++) {
        struct confusion_figures figures = confusion_class(confusion, i);
        print_figures(out, width, classes->texts[i], &figures);
    }
    if (classes->count > EVALUATION_CLASSES_SHOWN)
        buffer_print(out, "... and %zu more classes: --format json has all\n",
                     classes->count - EVALUATION_CLASSES_SHOWN);
    print_figures(out, width, "macro average", &macro);
    print_figures(out, width, "weighted average", &weighted);
}

/* Rows: the true class; columns: the predicted one. */
static void print_matrix(struct buffer *out, const struct confusion *confusion,
                         const struct classes *classes)
{
    size_t count = classes->count;
    int width = name_width(classes), cell = 7;
    if (!confusion->matrix || count > EVALUATION_MATRIX_SHOWN)
        return;
    for (size_t i = 0; i < count; i++) {
        int length = (int)strlen(classes->texts[i]);
        cell = length > cell && length <= NAME_LIMIT ? length : cell;
    }
    buffer_print(out, "%-*s", width, "class \\ given");
    for (size_t j = 0; j < count; j++)
        buffer_print(out, " %*s", cell, classes->texts[j]);
    for (size_t i = 0; i < count; i++) {
        buffer_print(out, "\n%-*s", width, classes->texts[i]);
        for (size_t j = 0; j < count; j++)
            buffer_print(out, " %*" PRId64, cell, confusion->matrix[i * count + j]);
    }
    buffer_add_text(out, "\n");
}

void evaluation_print_text(const struct evaluation *evaluation, const struct classes *classes,
                           struct buffer *out)
{
    buffer_print(out, "rows: %" PRId64 "\n", evaluation->rows);
    if (!classes) {
        if (evaluation->baseline > 0)
            buffer_print(out, "R2: %g\n", 1 - evaluation->loss / evaluation->baseline);
        buffer_print(out, "mean squared error: %g\n", evaluation->loss);
        return;
    }
    print_classes(out, &evaluation->confusion, classes);
    print_matrix(out, &evaluation->confusion, classes);
    buffer_print(out, "mean cross entropy: %g\naccuracy: %g\n", evaluation->loss,
                 evaluation->accuracy);
}

/* ---- JSON --------------------------------------------------------------- */

/* JSON has no NaN and no infinity. */
static void add_member(struct buffer *out, const char *key, double value)
{
    char text[TEXT_REAL_BYTES];
    buffer_print(out, ",\"%s\":%s", key, isfinite(value) ? text_of_real(value, text) : "null");
}

static void add_figures(struct buffer *out, const struct confusion_figures *figures)
{
    add_member(out, "precision", figures->precision);
    add_member(out, "recall", figures->recall);
    add_member(out, "f1", figures->f1);
    buffer_print(out, ",\"support\":%" PRId64 "}", figures->support);
}

static void add_classes(struct buffer *out, const struct confusion *confusion,
                        const struct classes *classes)
{
    struct confusion_figures macro = confusion_mean(confusion, false);
    struct confusion_figures weighted = confusion_mean(confusion, true);
    buffer_add_text(out, ",\"classes\":[");
    for (size_t i = 0; i < classes->count; i++) {
        struct confusion_figures figures = confusion_class(confusion, i);
        buffer_add_text(out, i > 0 ? ",{\"class\":" : "{\"class\":");
        json_add_string(out, classes->texts[i]);
        add_figures(out, &figures);
    }
    buffer_add_text(out, "],\"averages\":[{\"average\":\"macro\"");
    add_figures(out, &macro);
    buffer_add_text(out, ",{\"average\":\"weighted\"");
    add_figures(out, &weighted);
    buffer_add_text(out, "]");
}

static void add_matrix(struct buffer *out, const struct confusion *confusion)
{
    size_t count = confusion->classes;
    if (!confusion->matrix)
        return;
    buffer_add_text(out, ",\"confusion\":[");
    for (size_t i = 0; i < count; i++) {
        buffer_add_text(out, i > 0 ? "],[" : "[");
        for (size_t j = 0; j < count; j++)
            buffer_print(out, "%s%" PRId64, j > 0 ? "," : "", confusion->matrix[i * count + j]);
    }
    buffer_add_text(out, "]]");
}

void evaluation_print_json(const struct evaluation *evaluation, const struct classes *classes,
                           struct buffer *out)
{
    buffer_print(out, "{\"rows\":%" PRId64, evaluation->rows);
    if (classes) {
        add_member(out, "mean_cross_entropy", evaluation->loss);
        add_member(out, "accuracy", evaluation->accuracy);
        add_classes(out, &evaluation->confusion, classes);
        add_matrix(out, &evaluation->confusion);
    } else {
        add_member(out, "mean_squared_error", evaluation->loss);
        if (evaluation->baseline > 0)
            add_member(out, "r2", 1 - evaluation->loss / evaluation->baseline);
    }
    buffer_add_text(out, "}\n");
}
