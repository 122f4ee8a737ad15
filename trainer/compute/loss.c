/* SPDX-License-Identifier: MIT */
#include "trainer/compute/loss.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {
    [LOSS_CLIPPED_SUM] = "clipped_sum",
    [LOSS_MEAN] = "mean",
    [LOSS_SQUARED_MEAN] = "squared_mean",
    [LOSS_SQUARED_SUM] = "squared_sum",
};

bool loss_is_mean(enum loss loss)
{
    return loss == LOSS_MEAN || loss == LOSS_SQUARED_MEAN;
}

bool loss_is_squared(enum loss loss)
{
    return loss == LOSS_SQUARED_MEAN || loss == LOSS_SQUARED_SUM;
}

const char *loss_name(enum loss loss)
{
    return names[loss];
}

enum error loss_by_name(const char *name, enum loss *ret_loss)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (!strcmp(name, names[i])) {
            *ret_loss = (enum loss)i;
            return OK;
        }
    }
    return error_set(ERROR_INPUT,
                     "loss \"%.60s\" is unknown; it must be clipped_sum, mean, squared_mean or "
                     "squared_sum",
                     name);
}
