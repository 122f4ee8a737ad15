/* SPDX-License-Identifier: MIT */
#include "trainer/run/baseline.h"

#include <math.h>
#include <stdlib.h>

#include "common/array.h"

enum error baseline_init(struct baseline *baseline, size_t classes)
{
    *baseline = (struct baseline){.classes = classes};
    baseline->counts = array_new(classes, sizeof(*baseline->counts), "counts of classes");
    return baseline->counts ? OK : ERROR_MEMORY;
}

void baseline_release(struct baseline *baseline)
{
    free(baseline->counts);
    *baseline = (struct baseline){.rows = 0};
}

/* Welford's step. */
static void add_target(struct baseline *baseline, double target)
{
    double before = target - baseline->mean;
    baseline->mean += before / (double)baseline->rows;
    baseline->squares += before * (target - baseline->mean);
}

void baseline_add(struct baseline *baseline, const int32_t *classes, const float *targets,
                  size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        baseline->rows++;
        if (baseline->classes > 0)
            baseline->counts[classes[i]]++;
        else
            add_target(baseline, (double)targets[i]);
    }
}

double baseline_loss(const struct baseline *baseline)
{
    double rows = (double)baseline->rows, entropy = 0;
    if (baseline->rows == 0)
        return 0;
    if (baseline->classes == 0)
        return baseline->squares / rows;
    for (size_t i = 0; i < baseline->classes; i++) {
        double share = (double)baseline->counts[i] / rows;
        entropy -= share > 0 ? share * log(share) : 0;
    }
    return entropy;
}
