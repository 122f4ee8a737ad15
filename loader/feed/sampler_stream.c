/* SPDX-License-Identifier: MIT */
#include "loader/feed/sampler_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/text.h"

/* ---- from JSON ---------------------------------------------------------- */

static enum error copy_name(const cJSON *object, const char *key, const char *what,
                            char out[SAMPLER_NAME_BYTES])
{
    const char *text = NULL;
    enum error error = json_get_text(object, key, what, &text);
    if (error)
        return error;
    if (strlen(text) >= SAMPLER_NAME_BYTES)
        return error_set(ERROR_INPUT, "%s: \"%s\" is longer than %d bytes", what, key,
                         SAMPLER_NAME_BYTES - 1);
    memcpy(out, text, strlen(text) + 1);
    return OK;
}

static enum error read_count(const cJSON *object, const char *key, const char *what,
                             int64_t minimum, int64_t *ret_value)
{
    enum error error = json_get_integer(object, key, what, ret_value);
    if (!error && *ret_value < minimum)
        error = error_set(ERROR_INPUT, "%s: \"%s\" is %" PRId64 ", less than %" PRId64, what, key,
                          *ret_value, minimum);
    return error;
}

/* A seed has 63 bits, a JSON number in cJSON 53: the digits are taken from the text. Of all places
 * that read "seed": (a value, a member of some other object), picks the one that cJSON found. */
static enum error read_seed(const cJSON *object, const char *text, const char *what,
                            int64_t *ret_seed)
{
    static const char key[] = "\"seed\"";
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, "seed");
    bool number = cJSON_IsNumber(member);
    for (const char *at = strstr(text, key); number && at; at = strstr(at, key)) {
        int64_t value;
        at += sizeof(key) - 1;
        const char *digits = at + strspn(at, " \t\r\n:");
        if (text_parse_integer(digits, strspn(digits, "-0123456789.eE"), 0, INT64_MAX, &value) &&
            (double)value == member->valuedouble) {
            *ret_seed = value;
            return OK;
        }
    }
    return error_set(ERROR_INPUT, "%s: \"seed\" is not an integer from 0 to 2^63-1", what);
}

static enum error read_flag(const cJSON *object, const char *key, const char *what, bool *ret_value)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsBool(member))
        return error_set(ERROR_INPUT, "%s: \"%s\" is neither true nor false", what, key);
    *ret_value = cJSON_IsTrue(member);
    return OK;
}

/* p * k of design pxk; 0: another design, or a kept order. */
static enum error read_batch_units(const cJSON *object, const char *what, int64_t *ret_units)
{
    int64_t p = 0, k = 0;
    if (!cJSON_GetObjectItemCaseSensitive(object, "p"))
        return OK;
    enum error error = read_count(object, "p", what, 1, &p);
    if (!error)
        error = read_count(object, "k", what, 1, &k);
    if (!error && __builtin_mul_overflow(p, k, ret_units))
        error = error_set(ERROR_INPUT, "%s: \"p\" times \"k\" is more than 2^63-1", what);
    return error;
}

enum error sampler_stream_parse(const char *text, size_t length, const char *what,
                                struct sampler_stream *ret_stream)
{
    struct sampler_stream stream = {.units = 0};
    cJSON *json = NULL;
    enum error error = json_parse(text, length, what, &json);
    if (!error)
        error = copy_name(json, "name", what, stream.name);
    if (!error)
        error = copy_name(json, "digest", what, stream.digest);
    if (!error)
        error = copy_name(json, "design", what, stream.design);
    if (!error)
        error = copy_name(json, "tail", what, stream.tail);
    if (!error && cJSON_GetObjectItemCaseSensitive(json, "order")) /* older samplers have none */
        error = copy_name(json, "order", what, stream.order);
    stream.mixes_splits = cJSON_GetObjectItemCaseSensitive(json, "splits") != NULL;
    if (!error)
        error = read_flag(json, "replacement", what, &stream.replacement);
    if (!error)
        error = read_seed(json, text, what, &stream.seed);
    if (!error)
        error = read_count(json, "units", what, 1, &stream.units);
    if (!error)
        error = read_count(json, "epochs", what, 0, &stream.epochs);
    if (!error)
        error = read_count(json, "epoch_draws", what, 1, &stream.epoch_draws);
    if (!error)
        error = read_batch_units(json, what, &stream.batch_units);
    if (!error && cJSON_GetObjectItemCaseSensitive(json, "position")) /* kept orders have none */
        error = read_count(json, "position", what, 0, &stream.position);
    const cJSON *state = cJSON_GetObjectItemCaseSensitive(json, "state");
    stream.goes_on = cJSON_IsString(state) && strcmp(state->valuestring, "ended") != 0;
    cJSON_Delete(json);
    if (!error)
        *ret_stream = stream;
    return error;
}

enum error sampler_stream_check_epoch(const struct sampler_stream *stream, int64_t first,
                                      int64_t epoch)
{
    if (first / stream->epoch_draws == epoch)
        return OK;
    return error_set(ERROR_NETWORK,
                     "the batch at position %" PRId64 " of stream %s is of epoch %" PRId64
                     ", not %" PRId64 " as the sampler answered",
                     first, stream->name, first / stream->epoch_draws, epoch);
}

/* ---- differences -------------------------------------------------------- */

enum error sampler_stream_differs(const char *what, const char *before, const char *now)
{
    return error_set(ERROR_CONFLICT,
                     "the sampler's stream is another one than it was: its %s was %s and is %s now",
                     what, before, now);
}

static enum error differs_in_number(const char *what, int64_t before, int64_t now)
{
    char texts[2][32];
    snprintf(texts[0], sizeof(texts[0]), "%" PRId64, before);
    snprintf(texts[1], sizeof(texts[1]), "%" PRId64, now);
    return sampler_stream_differs(what, texts[0], texts[1]);
}

/* All but how the order is cut into batches. */
static enum error compare_orders(const struct sampler_stream *before,
                                 const struct sampler_stream *now)
{
    if (strcmp(before->digest, now->digest) != 0)
        return sampler_stream_differs("frame digest", before->digest, now->digest);
    if (strcmp(before->design, now->design) != 0)
        return sampler_stream_differs("design", before->design, now->design);
    if (before->replacement != now->replacement)
        return sampler_stream_differs("replacement", before->replacement ? "on" : "off",
                                      now->replacement ? "on" : "off");
    if (before->seed != now->seed)
        return differs_in_number("seed", before->seed, now->seed);
    if (strcmp(before->order, now->order) != 0) /* a design's own fields, or the version */
        return sampler_stream_differs("order", before->order, now->order);
    return OK;
}

static enum error compare_draws(const struct sampler_stream *before,
                                const struct sampler_stream *now)
{
    if (before->epoch_draws == now->epoch_draws)
        return OK;
    return differs_in_number("number of draws an epoch", before->epoch_draws, now->epoch_draws);
}

enum error sampler_stream_compare_orders(const struct sampler_stream *before,
                                         const struct sampler_stream *now)
{
    enum error error = compare_orders(before, now);
    return error ? error : compare_draws(before, now);
}

enum error sampler_stream_compare(const struct sampler_stream *before,
                                  const struct sampler_stream *now)
{
    enum error error = compare_orders(before, now);
    if (error)
        return error;
    if (strcmp(before->tail, now->tail) != 0)
        return sampler_stream_differs("tail", before->tail, now->tail);
    error = compare_draws(before, now);
    if (error)
        return error;
    if (before->epochs != SAMPLER_EPOCHS_ANY && before->epochs != now->epochs)
        return differs_in_number("number of epochs", before->epochs, now->epochs);
    return OK;
}
