/* SPDX-License-Identifier: MIT */
#include "trainer/checkpoint/hyperparameters.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/text.h"

enum type { REAL, COUNT, FLAG, SCHEDULE };

struct hyperparameter {
    const char *name;
    enum type type;
    size_t offset; /* of a float, int64_t, bool or enum schedule_kind in struct model_options */
};

#define OF(name, type, member)                             \
    {                                                      \
        name, type, offsetof(struct model_options, member) \
    }
static const struct hyperparameter table[] = {
    OF("learning_rate", REAL, optimizer.learning_rate),
    OF("learning_rate_schedule", SCHEDULE, optimizer.schedule.kind),
    OF("warmup_steps", COUNT, optimizer.schedule.warmup_steps),
    OF("decay_steps", COUNT, optimizer.schedule.decay_steps),
    OF("decay_rate", REAL, optimizer.schedule.decay_rate),
    OF("end_learning_rate", REAL, optimizer.schedule.end_rate),
    OF("momentum", REAL, optimizer.momentum),
    OF("nesterov", FLAG, optimizer.nesterov),
    OF("initial_accumulator", REAL, optimizer.initial_accumulator),
    OF("beta1", REAL, optimizer.beta1),
    OF("beta2", REAL, optimizer.beta2),
    OF("epsilon", REAL, optimizer.epsilon),
    OF("weight_decay", REAL, optimizer.weight_decay),
    OF("l2", REAL, optimizer.l2),
    OF("clip_norm", REAL, clip.norm),
    OF("clip_value", REAL, clip.value),
    OF("dropout", REAL, dropout),
};
_Static_assert(sizeof(table) / sizeof(*table) == HYPERPARAMETERS, "all of them");

const char *hyperparameter_name(size_t number)
{
    return table[number].name;
}

const char *hyperparameter_text(size_t number, const struct model_options *model,
                                char out[HYPERPARAMETER_BYTES])
{
    const void *value = (const char *)model + table[number].offset;
    switch (table[number].type) {
    case REAL:
        return text_of_float(*(const float *)value, out);
    case COUNT:
        snprintf(out, HYPERPARAMETER_BYTES, "%" PRId64, *(const int64_t *)value);
        return out;
    case FLAG:
        snprintf(out, HYPERPARAMETER_BYTES, "%s", *(const bool *)value ? "yes" : "no");
        return out;
    case SCHEDULE:
        snprintf(out, HYPERPARAMETER_BYTES, "%s",
                 schedule_name(*(const enum schedule_kind *)value));
        return out;
    }
    return "";
}

static bool parse_float(const char *text, float *ret_value)
{
    double value;
    if (!text_parse_real(text, strlen(text), &value) || !isfinite((float)value))
        return false;
    *ret_value = (float)value;
    return true;
}

enum error hyperparameter_set(size_t number, const char *text, struct model_options *model)
{
    void *value = (char *)model + table[number].offset;
    char quoted[TEXT_QUOTE_BYTES];
    bool right = false;
    switch (table[number].type) {
    case REAL:
        right = parse_float(text, value);
        break;
    case COUNT:
        right = text_parse_integer(text, strlen(text), 0, INT64_MAX, value);
        break;
    case FLAG:
        right = text_parse_boolean(text, strlen(text), value);
        break;
    case SCHEDULE:
        right = !schedule_by_name(text, value);
        break;
    }
    if (right)
        return OK;
    return error_set(ERROR_INPUT, "%s is %s", table[number].name,
                     text_quote(quoted, sizeof(quoted), text, strlen(text)));
}

static bool is_same(size_t number, const struct model_options *one,
                    const struct model_options *other)
{
    char left[HYPERPARAMETER_BYTES], right[HYPERPARAMETER_BYTES];
    return strcmp(hyperparameter_text(number, one, left),
                  hyperparameter_text(number, other, right)) == 0;
}

bool hyperparameter_is_default(size_t number, const struct model_options *model)
{
    struct model_options plain = {.dropout = 0};
    const struct optimizer *optimizer = &model->optimizer;
    return !optimizer_init(&plain.optimizer, optimizer_name(optimizer),
                           (double)optimizer->learning_rate) &&
           is_same(number, model, &plain);
}

size_t hyperparameters_difference(const struct model_options *one,
                                  const struct model_options *other)
{
    size_t number = 0;
    while (number < HYPERPARAMETERS && is_same(number, one, other))
        number++;
    return number;
}

void hyperparameters_log_changes(const struct model_options *before,
                                 const struct model_options *now)
{
    for (size_t i = 0; i < HYPERPARAMETERS; i++) {
        char name[HYPERPARAMETER_BYTES], then[HYPERPARAMETER_BYTES], text[HYPERPARAMETER_BYTES];
        if (is_same(i, before, now))
            continue;
        snprintf(name, sizeof(name), "%s", table[i].name);
        for (char *at = strchr(name, '_'); at; at = strchr(at, '_'))
            *at = ' ';
        log_info("%s %s from now on (%s before)", name, hyperparameter_text(i, now, text),
                 hyperparameter_text(i, before, then));
    }
}
