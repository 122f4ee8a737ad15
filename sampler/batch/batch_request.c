/* SPDX-License-Identifier: MIT */
#include "sampler/batch/batch_request.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "common/text.h"

enum error stream_name_of_query(struct uri_query *query, char ret_name[STREAM_NAME_BYTES])
{
    const char *name = uri_query_get(query, "stream");
    char quoted[TEXT_QUOTE_BYTES];
    if (!name)
        name = "default";
    if (!stream_name_is_valid(name))
        return error_set(ERROR_USAGE, "stream=%s: a name is 1 to 64 characters of [A-Za-z0-9._-]",
                         text_quote(quoted, sizeof(quoted), name, strlen(name)));
    memcpy(ret_name, name, strlen(name) + 1);
    return OK;
}

static enum error parse_format(struct uri_query *query, struct batch_request *request)
{
    const char *name = uri_query_get(query, "format");
    char quoted[TEXT_QUOTE_BYTES];
    request->format = BATCH_FORMAT_JSON;
    request->format_given = name != NULL;
    if (!name)
        return OK;
    for (int format = 0; format < BATCH_FORMATS; format++) {
        if (strcmp(name, batch_format_name((enum batch_format)format)) == 0) {
            request->format = (enum batch_format)format;
            return OK;
        }
    }
    return error_set(ERROR_USAGE, "format=%s: must be json, csv or binary",
                     text_quote(quoted, sizeof(quoted), name, strlen(name)));
}

/* worker and seq belong together, acks need them; index= leases nothing and may name its reader. */
static enum error check_lease(const struct batch_request *request, const char *worker, int64_t seq,
                              const char *ack)
{
    const char *leasing = seq >= 0 ? "seq" : ack ? "ack" : NULL;
    if (request->index >= 0) {
        if (!leasing)
            return OK;
        return error_set(ERROR_USAGE,
                         "%s: index=%" PRId64 " moves nothing; it goes without seq and ack",
                         leasing, request->index);
    }
    if ((worker || leasing) && (!worker || seq < 0))
        return error_set(ERROR_USAGE, "%s: worker and seq belong together, and ack needs both",
                         worker ? "worker" : leasing);
    return OK;
}

/* Several batches are leases, each with its own seq. */
static enum error parse_batches(struct uri_query *query, struct batch_request *request,
                                const struct batch_lease *lease)
{
    int64_t *batches = &request->batches;
    enum error error = uri_query_integer(query, "batches", 1, BATCHES_LIMIT, 0, batches);
    if (error || *batches == 0)
        return error;
    if (!request->leased)
        return error_set(ERROR_USAGE,
                         "batches=%" PRId64 ": several batches at once are leased: give worker "
                         "and seq, of the first",
                         *batches);
    if (lease->seq > SEQ_MOST - (*batches - 1))
        return error_set(ERROR_USAGE,
                         "batches=%" PRId64 ": seq=%" PRId64 " leaves no seqs for that many",
                         *batches, lease->seq);
    return OK;
}

static enum error parse_acks(const char *list, struct batch_lease *lease)
{
    char quoted[TEXT_QUOTE_BYTES];
    lease->ack_count = 0;
    while (list) {
        size_t length = strcspn(list, ",");
        if (lease->ack_count >= BATCH_ACKS_LIMIT)
            return error_set(ERROR_USAGE, "ack: at most %d at once; POST /ack takes more",
                             BATCH_ACKS_LIMIT);
        if (!text_parse_integer(list, length, 0, SEQ_MOST, &lease->acks[lease->ack_count++]))
            return error_set(
                ERROR_USAGE,
                "ack: %s must be an integer from 0 to 9223372036854775806, or several, "
                "separated by commas",
                text_quote(quoted, sizeof(quoted), list, length));
        list = list[length] == ',' ? list + length + 1 : NULL;
    }
    return OK;
}

static enum error parse_lease(struct uri_query *query, struct batch_request *request,
                              struct batch_lease *lease)
{
    char quoted[TEXT_QUOTE_BYTES];
    int64_t seq;
    const char *worker = uri_query_get(query, "worker");
    const char *ack = uri_query_get(query, "ack");
    enum error error = uri_query_integer(query, "seq", 0, SEQ_MOST, -1, &seq);
    if (!error && worker && !worker_name_is_valid(worker))
        error =
            error_set(ERROR_USAGE, "worker=%s: a name is 1 to 128 characters of [A-Za-z0-9._:-]",
                      text_quote(quoted, sizeof(quoted), worker, strlen(worker)));
    if (!error)
        error = check_lease(request, worker, seq, ack);
    if (error || !worker)
        return error;
    request->named = request->index >= 0;
    request->leased = !request->named;
    lease->seq = seq;
    memcpy(lease->worker, worker, strlen(worker) + 1);
    return parse_acks(ack, lease);
}

static enum error parse_flags(struct uri_query *query, struct batch_request *request)
{
    int64_t sort;
    int64_t weights;
    enum error error = uri_query_integer(query, "sort", 0, 1, 0, &sort);
    if (!error)
        error = uri_query_integer(query, "weights", 0, 1, 0, &weights);
    if (error)
        return error;
    request->sort = sort == 1;
    request->weights = weights == 1;
    return OK;
}

static enum error parse(struct uri_query *query, int64_t max_size, struct batch_request *request,
                        struct batch_lease *lease)
{
    int64_t size_default = max_size < BATCH_SIZE_DEFAULT ? max_size : BATCH_SIZE_DEFAULT;
    enum error error = stream_name_of_query(query, request->stream);
    request->size_given = uri_query_get(query, "size") != NULL;
    if (!error)
        error = uri_query_integer(query, "size", 1, max_size, size_default, &request->size);
    if (!error)
        error = uri_query_integer(query, "index", 0, INT64_MAX, -1, &request->index);
    if (!error)
        error = parse_flags(query, request);
    if (!error)
        error = parse_format(query, request);
    if (!error)
        error = parse_lease(query, request, lease);
    if (!error)
        error = parse_batches(query, request, lease);
    return error ? error : uri_query_finish(query);
}

enum error batch_request_parse(const char *query, int64_t max_size,
                               struct batch_request *ret_request, struct batch_lease *ret_lease)
{
    struct uri_query parameters;
    struct batch_request request = {0};
    enum error error = uri_query_init(&parameters, query);
    if (error)
        return error;
    error = parse(&parameters, max_size, &request, ret_lease);
    uri_query_release(&parameters);
    if (!error)
        *ret_request = request;
    return error;
}

/* ---- Accept ------------------------------------------------------------- */

/* One media range of the list: which of our formats it covers, and its quality. */
struct range {
    int specificity[BATCH_FORMATS]; /* 0: not covered, 1: * / *, 2: type / *, 3: exactly */
    double quality;
};

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncasecmp(text, word, length) == 0;
}

static void trim(const char **text, size_t *length)
{
    while (*length > 0 && (**text == ' ' || **text == '\t')) {
        (*text)++;
        (*length)--;
    }
    while (*length > 0 && ((*text)[*length - 1] == ' ' || (*text)[*length - 1] == '\t'))
        (*length)--;
}

/* Cuts the part before `separator` off the front of *text. */
static void cut_off(const char **text, size_t *length, char separator, const char **ret_part,
                    size_t *ret_part_length)
{
    const char *found = memchr(*text, separator, *length);
    size_t part = found ? (size_t)(found - *text) : *length;
    *ret_part = *text;
    *ret_part_length = part;
    *text += part + (found != NULL);
    *length -= part + (found != NULL);
    trim(ret_part, ret_part_length);
}

static void parse_range(const char *text, size_t length, struct range *ret_range)
{
    static const char *const types[BATCH_FORMATS] = {"application/json", "text/csv",
                                                     "application/octet-stream"};
    static const char *const groups[BATCH_FORMATS] = {"application/*", "text/*", "application/*"};
    const char *name;
    size_t name_length;
    cut_off(&text, &length, ';', &name, &name_length);
    *ret_range = (struct range){.quality = 1};
    for (int i = 0; i < BATCH_FORMATS; i++) {
        if (is_word(name, name_length, types[i]))
            ret_range->specificity[i] = 3;
        else if (is_word(name, name_length, groups[i]))
            ret_range->specificity[i] = 2;
        else if (is_word(name, name_length, "*/*"))
            ret_range->specificity[i] = 1;
    }
    while (length > 0) {
        const char *parameter;
        size_t parameter_length;
        double quality;
        cut_off(&text, &length, ';', &parameter, &parameter_length);
        if (parameter_length > 2 && strncasecmp(parameter, "q=", 2) == 0 &&
            text_parse_real(parameter + 2, parameter_length - 2, &quality))
            ret_range->quality = quality;
    }
}

enum batch_format batch_format_of_accept(const char *accept, size_t length)
{
    int specificity[BATCH_FORMATS] = {0};
    double quality[BATCH_FORMATS] = {0};
    int best = BATCH_FORMAT_JSON;
    while (length > 0) {
        const char *part;
        size_t part_length;
        struct range range;
        cut_off(&accept, &length, ',', &part, &part_length);
        parse_range(part, part_length, &range);
        for (int i = 0; i < BATCH_FORMATS; i++) {
            if (range.specificity[i] > specificity[i]) {
                specificity[i] = range.specificity[i];
                quality[i] = range.quality;
            }
        }
    }
    for (int i = 1; i < BATCH_FORMATS; i++) {
        if (quality[i] > quality[best])
            best = i;
    }
    return (enum batch_format)best;
}
