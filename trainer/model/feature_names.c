/* SPDX-License-Identifier: MIT */
#include "trainer/model/feature_names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/json.h"
#include "common/log.h"
#include "common/text.h"
#include "common/text_set.h"

#define FOLDED_BYTES 1024 /* longer names are compared case-sensitively */
#define NUMBERED_BYTES (TEXT_INTEGER_BYTES + 2)
#define DIGEST_DIGITS 16

static void add_digests(struct feature_names *names, const char *name)
{
    size_t length = strlen(name);
    names->list = XXH3_64bits_withSeed(name, length, names->list);
    names->set += XXH3_64bits(name, length);
}

/* The number in "p7" or "7"; -1: none. */
static int64_t position_in(const char *name)
{
    name += *name == 'p';
    int64_t number;
    return text_parse_integer(name, strlen(name), 0, INT64_MAX, &number) ? number : -1;
}

/* Ascending numbers: those of columns, some of which are not features. */
static bool are_positions(const struct store_info *info)
{
    int64_t last = -1;
    for (size_t i = 0; i < info->features; i++) {
        int64_t position = position_in(info->feature_names[i]);
        if (position <= last)
            return false;
        last = position;
    }
    return true;
}

static enum error keep(struct feature_names *names, const char *name)
{
    char *copy = strdup(name);
    if (!copy)
        return error_set_memory(strlen(name), "a feature's name");
    names->first[names->first_count++] = copy;
    return OK;
}

static size_t count_first(const struct store_info *info)
{
    size_t count = 0, bytes = 0;
    while (count < info->features) {
        bytes += strlen(info->feature_names[count]) + 3;
        if (bytes > FEATURE_NAMES_BYTES)
            break;
        count++;
    }
    return count;
}

enum error feature_names_init(struct feature_names *names, const struct store_info *info)
{
    enum error error = OK;
    *names = (struct feature_names){.count = 0};
    if (!info->feature_names || info->features == 0)
        return OK;
    names->count = info->features;
    names->by_position = are_positions(info);
    for (size_t i = 0; i < info->features; i++)
        add_digests(names, info->feature_names[i]);
    if (names->by_position)
        return OK;
    size_t first = count_first(info);
    names->first = array_new(first, sizeof(*names->first), "feature names");
    if (!names->first)
        return ERROR_MEMORY;
    for (size_t i = 0; i < first && !error; i++)
        error = keep(names, info->feature_names[i]);
    return error;
}

enum error feature_names_copy(struct feature_names *names, const struct feature_names *from)
{
    enum error error = OK;
    *names = *from;
    names->first_count = 0;
    names->first = array_new(from->first_count, sizeof(*names->first), "feature names");
    if (!names->first)
        return ERROR_MEMORY;
    for (size_t i = 0; i < from->first_count && !error; i++)
        error = keep(names, from->first[i]);
    return error;
}

void feature_names_release(struct feature_names *names)
{
    for (size_t i = 0; i < names->first_count; i++)
        free(names->first[i]);
    free(names->first);
    *names = (struct feature_names){.count = 0};
}

/* ---- as JSON ------------------------------------------------------------ */

enum error feature_names_print(const struct feature_names *names, struct buffer *out)
{
    if (names->by_position)
        return buffer_print(out, "{\"count\":%zu,\"by_position\":true}", names->count);
    buffer_print(out,
                 "{\"count\":%zu,\"list\":\"%0*" PRIx64 "\",\"set\":\"%0*" PRIx64 "\",\"first\":",
                 names->count, DIGEST_DIGITS, names->list, DIGEST_DIGITS, names->set);
    json_add_strings(out, (const char *const *)names->first, names->first_count);
    return buffer_add_text(out, "}");
}

static enum error read_digest(const cJSON *json, const char *key, const char *what,
                              uint64_t *ret_digest)
{
    const char *text = "";
    enum error error = json_get_text(json, key, what, &text);
    if (error)
        return error;
    if (strlen(text) != DIGEST_DIGITS || strspn(text, "0123456789abcdef") != DIGEST_DIGITS)
        return error_set(ERROR_INPUT, "%s: \"%s\" is not %d hexadecimal digits", what, key,
                         DIGEST_DIGITS);
    *ret_digest = strtoull(text, NULL, 16);
    return OK;
}

static enum error read_first(const cJSON *json, const char *what, struct feature_names *names)
{
    const cJSON *list = NULL, *entry;
    enum error error = json_get_array(json, "first", what, &list);
    if (error)
        return error;
    if ((size_t)cJSON_GetArraySize(list) > names->count)
        return error_set(ERROR_INPUT, "%s: \"first\" has more names than \"count\" says", what);
    names->first =
        array_new((size_t)cJSON_GetArraySize(list), sizeof(*names->first), "feature names");
    if (!names->first)
        return ERROR_MEMORY;
    cJSON_ArrayForEach(entry, list)
    {
        if (!cJSON_IsString(entry))
            return error_set(ERROR_INPUT, "%s: \"first\" holds %s, not only texts", what,
                             json_kind(entry));
        error = keep(names, entry->valuestring);
        if (error)
            return error;
    }
    return OK;
}

enum error feature_names_parse(const char *text, const char *what, struct feature_names *ret_names)
{
    struct feature_names names = {.count = 0};
    cJSON *json = NULL;
    int64_t count = 0;
    enum error error = json_parse(text, strlen(text), what, &json);
    if (error)
        return error;
    error = json_get_integer(json, "count", what, &count);
    if (!error && count < 1)
        error = error_set(ERROR_INPUT, "%s: \"count\" is %" PRId64 ", no count", what, count);
    names.count = (size_t)count;
    names.by_position = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "by_position"));
    if (!error && !names.by_position) {
        error = read_digest(json, "list", what, &names.list);
        if (!error)
            error = read_digest(json, "set", what, &names.set);
        if (!error)
            error = read_first(json, what, &names);
    }
    cJSON_Delete(json);
    if (error)
        feature_names_release(&names);
    else
        *ret_names = names;
    return error;
}

/* ---- against a store ---------------------------------------------------- */

static bool are_all_known(const struct feature_names *names)
{
    return names->by_position || names->first_count == names->count;
}

/* The name of a feature that is known. */
static const char *name_of(const struct feature_names *names, size_t index,
                           char room[NUMBERED_BYTES])
{
    if (!names->by_position)
        return names->first[index];
    snprintf(room, NUMBERED_BYTES, "p%zu", index);
    return room;
}

/* Digests of positions as names, for a store whose header has them in another order. */
static void digest_positions(struct feature_names *names)
{
    names->list = names->set = 0;
    char name[NUMBERED_BYTES];
    for (size_t i = 0; i < names->count; i++)
        add_digests(names, name_of(names, i, name));
}

/* Matching of the names with a store's columns. */
struct meeting {
    int32_t *columns; /* [F]; -1: none */
    size_t found, in_place;
    size_t missing; /* the first not found; F: none */
};

/* Adds a name, in lower case if `fold`. */
static enum error add_name(struct text_set *set, const char *name, bool fold, uint32_t *ret_number)
{
    char small[FOLDED_BYTES];
    size_t length = strlen(name);
    if (!fold || length >= sizeof(small))
        return text_set_add(set, name, length, ret_number);
    for (size_t i = 0; i < length; i++)
        small[i] = (char)tolower((unsigned char)name[i]);
    return text_set_add(set, small, length, ret_number);
}

/* Matches names by bytes, or ignoring ASCII case. If two columns become equal, *meeting stays as it
 * was: initially, nothing is found. */
static enum error meet(const struct feature_names *names, const struct store_info *info, bool fold,
                       struct meeting *meeting)
{
    struct text_set set = {.count = 0};
    enum error error = OK;
    char room[NUMBERED_BYTES];
    uint32_t number;
    for (size_t i = 0; i < info->features && !error; i++) {
        error = add_name(&set, info->feature_names[i], fold, &number);
        if (!error && number != i) {
            text_set_release(&set);
            return OK;
        }
    }
    meeting->found = meeting->in_place = 0;
    meeting->missing = names->count;
    for (size_t i = 0; i < names->count && !error; i++) {
        const char *name = name_of(names, i, room);
        error = add_name(&set, name, fold, &number);
        bool found = !error && number < info->features;
        meeting->columns[i] = found ? (int32_t)number : -1;
        meeting->found += found;
        meeting->in_place += found && number == i;
        if (!found && meeting->missing == names->count)
            meeting->missing = i;
    }
    text_set_release(&set);
    return error;
}

static const char *quote(char out[TEXT_QUOTE_BYTES], const char *text)
{
    return text_quote(out, TEXT_QUOTE_BYTES, text, strlen(text));
}

/* Not all are in the store. If those that are have changed places, matching by position would take
 * wrong numbers; else the store names its columns differently. */
static enum error judge_missing(const struct feature_names *names, const char *called,
                                const struct store_info *info, const struct meeting *meeting,
                                bool warns)
{
    char room[NUMBERED_BYTES], theirs[TEXT_QUOTE_BYTES], ours[TEXT_QUOTE_BYTES];
    const char *name = quote(theirs, name_of(names, meeting->missing, room));
    if (meeting->found > meeting->in_place || info->features != names->count)
        return error_set(ERROR_CONFLICT,
                         "%s has no column %s, which the model of %s takes; it has %zu of its %zu "
                         "features",
                         info->uri, name, called, meeting->found, names->count);
    if (warns)
        log_warning("%s: features are matched by position with those of %s, whose names differ: "
                    "feature %zu (from 0) is %s there and %s here",
                    info->uri, called, meeting->missing, name,
                    quote(ours, info->feature_names[meeting->missing]));
    return OK;
}

static enum error match_known(const struct feature_names *names, const char *called,
                              const struct feature_names *ours, const struct store_info *info,
                              bool warns, int32_t **ret_columns)
{
    struct meeting meeting = {
        .columns = array_new(names->count, sizeof(*meeting.columns), "columns of features")};
    enum error error = meeting.columns ? meet(names, info, false, &meeting) : ERROR_MEMORY;
    if (!error && meeting.found < names->count)
        error = meet(names, info, true, &meeting);
    if (!error && meeting.found == names->count)
        *ret_columns = meeting.columns;
    else
        free(meeting.columns);
    if (error || meeting.found == names->count)
        return error;
    if (meeting.found == 0 && (names->by_position || ours->by_position))
        return OK;
    return judge_missing(names, called, info, &meeting, warns);
}

/* For so many features that only the first names were stored. */
static enum error match_digests(const struct feature_names *names, const char *called,
                                const struct feature_names *ours, const struct store_info *info,
                                bool warns)
{
    if (names->set == ours->set)
        return error_set(ERROR_CONFLICT,
                         "%s has the features of %s in another order, and they are too many to be "
                         "found by name: its columns must come in that order",
                         info->uri, called);
    if (!ours->by_position && warns)
        log_warning("%s: features are matched by position with those of %s, whose names differ",
                    info->uri, called);
    return OK;
}

/* `ours` are the store's. */
static enum error match(const struct feature_names *names, const char *called,
                        const struct feature_names *ours, const struct store_info *info, bool warns,
                        int32_t **ret_columns)
{
    struct feature_names theirs = *names; /* its digests; the texts are the other's */
    if (names->by_position)
        digest_positions(&theirs);
    if (theirs.list == ours->list || (names->by_position && ours->by_position))
        return OK;
    if (are_all_known(names))
        return match_known(names, called, ours, info, warns, ret_columns);
    return names->count == ours->count ? match_digests(names, called, ours, info, warns) : OK;
}

enum error feature_names_match(const struct feature_names *names, const char *called,
                               const struct store_info *info, bool warns, int32_t **ret_columns)
{
    *ret_columns = NULL;
    if (names->count == 0 || !info->feature_names)
        return OK;
    struct feature_names ours;
    enum error error = feature_names_init(&ours, info);
    if (!error)
        error = match(names, called, &ours, info, warns, ret_columns);
    feature_names_release(&ours);
    return error;
}
