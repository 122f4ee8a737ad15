/* SPDX-License-Identifier: MIT */
#include "sampler/stream/stream_definition.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/json.h"
#include "common/text.h"

#define WHAT "the definition of a stream"

bool stream_name_is_valid(const char *name)
{
    size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                 "0123456789._-");
    return length >= 1 && length < STREAM_NAME_BYTES && name[length] == '\0';
}

enum error stream_seed_draw(uint64_t *ret_seed)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        return error_set_errno(ERROR_IO, errno, "cannot draw a seed; give one");
    *ret_seed = seed & INT64_MAX;
    return OK;
}

void stream_definition_release(struct stream_definition *definition)
{
    free(definition->fields);
    definition->fields = NULL;
}

enum error stream_definition_copy(const struct stream_definition *definition,
                                  struct stream_definition *ret_copy)
{
    const char *fields = definition->fields ? definition->fields : "";
    char *copy = strdup(fields);
    if (!copy)
        return error_set_memory(strlen(fields), WHAT);
    *ret_copy = *definition;
    ret_copy->fields = copy;
    return OK;
}

/* ---- as JSON ------------------------------------------------------------ */

enum error stream_definition_write(const struct stream_definition *definition,
                                   const struct stream_binding *binding, struct buffer *buffer)
{
    buffer_print(buffer,
                 "{\"name\":\"%s\",\"frame\":\"%s\",\"digest\":\"%s\",\"order_version\":%" PRId64
                 ",\"units\":%" PRId64 ",\"epoch_draws\":%" PRId64
                 ",\"design\":\"%s\",\"replacement\":%s,\"seed\":%" PRIu64 ",\"epochs\":%" PRId64
                 ",\"tail\":\"%s\",\"lease_ms\":%" PRId64 ",\"rows_begin\":%" PRId64
                 ",\"rows_end\":%" PRId64 ",\"split\":\"%s\",\"fields\":",
                 definition->name, definition->frame, binding->digest, binding->order_version,
                 binding->units, binding->epoch_positions, definition->design,
                 definition->replacement ? "true" : "false", definition->seed, definition->epochs,
                 tail_name(definition->tail), definition->lease_ms, definition->rows_begin,
                 definition->rows_end, split_name(definition->split));
    json_add_string(buffer, definition->fields ? definition->fields : "");
    return buffer_add_text(buffer, "}");
}

static enum error read_text(const cJSON *json, const char *key, char *out, size_t bytes)
{
    const char *text;
    enum error error = json_get_text(json, key, WHAT, &text);
    if (error)
        return error;
    if (strlen(text) >= bytes)
        return error_set(ERROR_INPUT, WHAT ": \"%s\" is longer than %zu bytes", key, bytes - 1);
    memcpy(out, text, strlen(text) + 1);
    return OK;
}

static enum error read_number(const cJSON *json, const char *key, int64_t least, int64_t *ret_value)
{
    int64_t value;
    enum error error = json_get_integer(json, key, WHAT, &value);
    if (error)
        return error;
    if (value < least)
        return error_set(ERROR_INPUT, WHAT ": \"%s\" is %" PRId64 ", less than %" PRId64, key,
                         value, least);
    *ret_value = value;
    return OK;
}

static enum error read_numbers(const cJSON *json, struct stream_definition *definition,
                               struct stream_binding *binding)
{
    int64_t seed = 0;
    enum error error = OK;
    binding->order_version = 1; /* which did not have this member */
    if (cJSON_GetObjectItemCaseSensitive(json, "order_version"))
        error = read_number(json, "order_version", 1, &binding->order_version);
    if (!error)
        error = read_number(json, "units", 1, &binding->units);
    if (!error)
        error = read_number(json, "epoch_draws", 1, &binding->epoch_positions);
    if (!error)
        error = read_number(json, "seed", 0, &seed);
    if (!error)
        error = read_number(json, "epochs", 0, &definition->epochs);
    if (!error)
        error = read_number(json, "lease_ms", 0, &definition->lease_ms);
    if (!error)
        error = read_number(json, "rows_begin", 0, &definition->rows_begin);
    if (!error)
        error = read_number(json, "rows_end", 0, &definition->rows_end);
    definition->seed = (uint64_t)seed;
    return error;
}

static enum error read_words(const cJSON *json, struct stream_definition *definition)
{
    char tail[16];
    char split[16];
    const cJSON *replacement = cJSON_GetObjectItemCaseSensitive(json, "replacement");
    if (!cJSON_IsBool(replacement))
        return error_set(ERROR_INPUT, WHAT " has no \"replacement\" that is true or false");
    definition->replacement = cJSON_IsTrue(replacement);
    enum error error = read_text(json, "tail", tail, sizeof(tail));
    if (!error)
        error = tail_of_name(tail, &definition->tail);
    if (!error)
        error = read_text(json, "split", split, sizeof(split));
    if (!error && split[0])
        error = split_of_name(split, &definition->split);
    return error == ERROR_USAGE ? error_prefix(ERROR_INPUT, WHAT ": ") : error;
}

static enum error read_all(const cJSON *json, struct stream_definition *definition,
                           struct stream_binding *binding)
{
    const char *fields = "";
    enum error error = read_text(json, "name", definition->name, sizeof(definition->name));
    if (!error)
        error = read_text(json, "frame", definition->frame, sizeof(definition->frame));
    if (!error)
        error = read_text(json, "design", definition->design, sizeof(definition->design));
    if (!error)
        error = read_text(json, "digest", binding->digest, sizeof(binding->digest));
    if (!error)
        error = read_numbers(json, definition, binding);
    if (!error)
        error = read_words(json, definition);
    if (!error)
        error = json_get_text(json, "fields", WHAT, &fields);
    if (!error && !(definition->fields = strdup(fields)))
        error = error_set_memory(strlen(fields), WHAT);
    return error;
}

enum error stream_definition_read(const char *text, size_t length,
                                  struct stream_definition *ret_definition,
                                  struct stream_binding *ret_binding)
{
    struct stream_definition definition = {.fields = NULL};
    struct stream_binding binding = {.units = 0};
    cJSON *json;
    enum error error = json_parse(text, length, WHAT, &json);
    if (error)
        return error;
    error = cJSON_IsObject(json) ? read_all(json, &definition, &binding)
                                 : error_set(ERROR_INPUT, WHAT " is not an object");
    cJSON_Delete(json);
    if (error) {
        stream_definition_release(&definition);
        return error;
    }
    *ret_definition = definition;
    *ret_binding = binding;
    return OK;
}

/* ---- differences -------------------------------------------------------- */

static const char *with(bool replacement)
{
    return replacement ? "with" : "without";
}

static void add_rows(const struct stream_definition *definition, const char *where,
                     struct buffer *out)
{
    if (definition->rows_end == 0)
        buffer_add_text(out, " all rows");
    else
        buffer_print(out, " rows %" PRId64 ":%" PRId64, definition->rows_begin,
                     definition->rows_end);
    if (definition->split != SPLIT_NONE)
        buffer_print(out, " split %s", split_name(definition->split));
    buffer_print(out, " %s", where);
}

static void compare_frames(const struct stream_definition *there,
                           const struct stream_binding *there_binding,
                           const struct stream_definition *here,
                           const struct stream_binding *here_binding, struct buffer *out)
{
    if (strcmp(there_binding->digest, here_binding->digest) == 0)
        return;
    buffer_print(out, "; frame %s of %" PRId64 " %s there, %s of %" PRId64 " here",
                 there_binding->digest, there_binding->units,
                 text_plural(there_binding->units, "unit", "units"), here_binding->digest,
                 here_binding->units);
    if (there->rows_begin == here->rows_begin && there->rows_end == here->rows_end &&
        there->split == here->split)
        return;
    buffer_add_text(out, ";");
    add_rows(there, "there,", out);
    add_rows(here, "here", out);
}

static const char *or_none(const char *fields)
{
    return fields && fields[0] ? fields : "none";
}

enum error stream_definition_compare(const struct stream_definition *there,
                                     const struct stream_binding *there_binding,
                                     const struct stream_definition *here,
                                     const struct stream_binding *here_binding,
                                     struct buffer *differences)
{
    size_t before = differences->length;
    if (there_binding->order_version != here_binding->order_version)
        buffer_print(differences,
                     "; orders of version %" PRId64 " there, %" PRId64
                     " here: other versions of this program put units elsewhere",
                     there_binding->order_version, here_binding->order_version);
    compare_frames(there, there_binding, here, here_binding, differences);
    if (strcmp(there->design, here->design) != 0)
        buffer_print(differences, "; design %s there, %s here", there->design, here->design);
    if (strcmp(or_none(there->fields), or_none(here->fields)) != 0)
        buffer_print(differences, "; the design's fields %s there, %s here", or_none(there->fields),
                     or_none(here->fields));
    if (there->replacement != here->replacement)
        buffer_print(differences, "; %s replacement there, %s here", with(there->replacement),
                     with(here->replacement));
    if (there->seed != here->seed)
        buffer_print(differences, "; seed %" PRIu64 " there, %" PRIu64 " here", there->seed,
                     here->seed);
    if (differences->length == before &&
        there_binding->epoch_positions != here_binding->epoch_positions)
        buffer_print(differences, "; %" PRId64 " %s an epoch there, %" PRId64 " here",
                     there_binding->epoch_positions,
                     text_plural(there_binding->epoch_positions, "position", "positions"),
                     here_binding->epoch_positions);
    return differences->error;
}
