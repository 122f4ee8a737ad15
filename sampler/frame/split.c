/* SPDX-License-Identifier: MIT */
#include "sampler/frame/split.h"

#include <string.h>
#include <xxhash.h>

#include "common/text.h"

#define POINTS (UINT64_C(1) << 63)
#define KEY_NAME UINT64_C(0x746c70736c626d74) /* "tmblsplt" */
#define SUM_TOLERANCE 1e-9

static const char *const names[] = {"", "train", "validation", "test"};

static enum error refuse(const char *text)
{
    char shown[TEXT_QUOTE_BYTES];
    return error_set(ERROR_USAGE,
                     "--splits %s: must be the shares of train, validation and test, three "
                     "numbers from 0 to 1 whose sum is 1, such as 0.8,0.1,0.1",
                     text_quote(shown, sizeof(shown), text, strlen(text)));
}

enum error split_shares_parse(const char *text, struct split_shares *ret_shares)
{
    double shares[3];
    const char *at = text;
    for (size_t i = 0; i < 3; i++) {
        size_t length = strcspn(at, ",");
        if (!text_parse_real(at, length, &shares[i]) || shares[i] < 0 || shares[i] > 1 ||
            (at[length] == ',') != (i < 2))
            return refuse(text);
        at += length + 1;
    }
    double off = shares[0] + shares[1] + shares[2] - 1;
    if (off > SUM_TOLERANCE || off < -SUM_TOLERANCE)
        return refuse(text);
    *ret_shares = (struct split_shares){shares[0], shares[1], shares[2]};
    return OK;
}

const char *split_name(enum split split)
{
    return names[split];
}

enum error split_of_name(const char *name, enum split *ret_split)
{
    char shown[TEXT_QUOTE_BYTES];
    for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
        if (strcmp(name, names[split]) == 0) {
            *ret_split = split;
            return OK;
        }
    }
    return error_set(ERROR_USAGE, "split is %s, must be train, validation or test",
                     text_quote(shown, sizeof(shown), name, strlen(name)));
}

double split_share(const struct split_shares *shares, enum split split)
{
    if (split == SPLIT_NONE)
        return 1;
    if (split == SPLIT_TRAIN)
        return shares->train;
    return split == SPLIT_VALIDATION ? shares->validation : shares->test;
}

/* `share` of all points; all of them if nothing is left for the later sides. */
static uint64_t points_below(double share, double rest)
{
    return rest <= 0 || share >= 1 ? POINTS : (uint64_t)(share * (double)POINTS);
}

void split_span_init(struct split_span *span, const struct split_shares *shares, enum split split)
{
    uint64_t train = points_below(shares->train, shares->validation + shares->test);
    uint64_t validation = points_below(shares->train + shares->validation, shares->test);
    span->begin = split == SPLIT_VALIDATION ? train : split == SPLIT_TEST ? validation : 0;
    span->end = split == SPLIT_TRAIN ? train : split == SPLIT_VALIDATION ? validation : POINTS;
    span->key = random_key_at((struct random_key){0, 0}, KEY_NAME);
}

bool split_span_has_text(const struct split_span *span, const char *text)
{
    uint64_t point = XXH3_64bits_withSeed(text, strlen(text), span->key.first) >> 1;
    return point - span->begin < span->end - span->begin;
}
