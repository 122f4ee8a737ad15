/* SPDX-License-Identifier: MIT */
#include "sampler/design/design_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/json.h"
#include "common/text.h"
#include "sampler/design/label_deviations.h"
#include "sampler/frame/frame_view.h"

#define TEXT_LIMIT_BYTES (64 << 20)
#define NAMES_BYTES 128

static const char numbers_memory[] = "a number for each label";

/* ---- the fields that exist ---------------------------------------------- */

enum {
    FIELD_SHARES,
    FIELD_COLUMN,
    FIELD_DEVIATIONS,
    FIELD_P,
    FIELD_K,
    FIELD_SIZE,
    FIELD_GROUPS,
    FIELD_OF_RATE,
    FIELDS
};

static const struct design_field list[] = {
    {"shares", FIELD_LABEL_NUMBERS, "quota",
     "each label's share of the draws, {\"label\": share}; they need not sum to 1"},
    {"column", FIELD_TEXT, "neyman",
     "numeric column of the store whose deviation within each label is measured"},
    {"deviations", FIELD_LABEL_NUMBERS, "neyman",
     "standard deviation of what is to be estimated within each label, {\"label\": deviation}"},
    {"p", FIELD_COUNT, "pxk", "different labels of a batch"},
    {"k", FIELD_COUNT, "pxk", "different units of each of them"},
    {"size", FIELD_COUNT, "weighted (without replacement), systematic", "units of an epoch"},
    {"groups", FIELD_COUNT, "cluster", "whole groups of an epoch; not given: all"},
    {"rate", FIELD_RATE, "bernoulli", "each unit's probability to be in an epoch"},
    {NULL, FIELD_TEXT, NULL, NULL},
};

const struct design_field *design_field_list(void)
{
    return list;
}

/* The fields of a design, as bits 1 << FIELD_...; and the optional ones. */
struct design_needs {
    const char *design;
    unsigned has, may_lack;
};

#define BIT(field) (1U << (field))

static const struct design_needs needs[] = {
    {"quota", BIT(FIELD_SHARES), 0},
    {"neyman", BIT(FIELD_COLUMN) | BIT(FIELD_DEVIATIONS),
     BIT(FIELD_COLUMN) | BIT(FIELD_DEVIATIONS)},
    {"pxk", BIT(FIELD_P) | BIT(FIELD_K), 0},
    {"weighted", BIT(FIELD_SIZE), 0},
    {"systematic", BIT(FIELD_SIZE), 0},
    {"cluster", BIT(FIELD_GROUPS), BIT(FIELD_GROUPS)},
    {"bernoulli", BIT(FIELD_OF_RATE), 0},
};

static struct design_needs needs_of(const char *design, bool replacement)
{
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        if (strcmp(design, needs[i].design) == 0 &&
            !(replacement && strcmp(design, "weighted") == 0))
            return needs[i];
    }
    return (struct design_needs){.design = design};
}

static void name_fields(unsigned has, char ret_names[NAMES_BYTES])
{
    size_t length = 0;
    ret_names[0] = '\0';
    for (unsigned i = 0; i < FIELDS; i++) {
        if (has & BIT(i))
            length += (size_t)snprintf(ret_names + length, NAMES_BYTES - length, "%s%s",
                                       length ? ", " : "", list[i].name);
    }
}

/* "design quota" or "design weighted with replacement". */
static const char *with_replacement(bool replacement)
{
    return replacement ? " with replacement" : "";
}

static enum error refuse_unknown(const struct design_needs *need, bool replacement,
                                 const char *name)
{
    char shown[TEXT_QUOTE_BYTES];
    char names[NAMES_BYTES];
    name_fields(need->has, names);
    return error_set(ERROR_USAGE, "%s is not a field of design %s%s; %s%s",
                     text_quote(shown, sizeof(shown), name, strlen(name)), need->design,
                     with_replacement(replacement), need->has ? "it has " : "it has none", names);
}

/* ---- values ------------------------------------------------------------- */

static enum error refuse_value(const struct design_field *field, const cJSON *item,
                               const char *right)
{
    char number[TEXT_REAL_BYTES];
    char shown[TEXT_QUOTE_BYTES];
    const char *given = json_kind(item);
    if (cJSON_IsNumber(item)) {
        given = text_of_real(item->valuedouble, number);
    } else if (cJSON_IsString(item)) {
        given = text_quote(shown, sizeof(shown), item->valuestring, strlen(item->valuestring));
    }
    return error_set(ERROR_USAGE, "%s is %s; right is %s", field->name, given, right);
}

static enum error take_count(const struct design_field *field, const cJSON *item,
                             int64_t *ret_count)
{
    int64_t count;
    if (!cJSON_IsNumber(item) || !json_integer(item, &count) || count < 1)
        return refuse_value(field, item, "an integer of at least 1");
    *ret_count = count;
    return OK;
}

static enum error take_rate(const struct design_field *field, const cJSON *item, double *ret_rate)
{
    double rate = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(rate > 0 && rate <= 1))
        return refuse_value(field, item, "a number above 0 and at most 1");
    *ret_rate = rate;
    return OK;
}

static enum error take_text(const struct design_field *field, const cJSON *item, char **ret_text)
{
    if (!cJSON_IsString(item) || item->valuestring[0] == '\0')
        return refuse_value(field, item, "the name of a column");
    free(*ret_text);
    *ret_text = strdup(item->valuestring);
    return *ret_text ? OK : error_set_memory(strlen(item->valuestring) + 1, "a column's name");
}

static bool some_above_zero(const struct frame *frame, const double *numbers)
{
    for (uint32_t label = 0; label < frame_labels(frame); label++) {
        if (numbers[label] > 0)
            return true;
    }
    return false;
}

/* A label that a part of the frame has no unit of is no mistake: nothing of it can be drawn. */
static enum error take_label_number(const struct frame *frame, const struct design_field *field,
                                    const cJSON *item, double *numbers)
{
    char shown[TEXT_QUOTE_BYTES];
    text_quote(shown, sizeof(shown), item->string, strlen(item->string));
    int64_t label = frame_find_label(frame, item->string);
    if (label < 0 && !frame_view_drops_label(frame, item->string))
        return error_set(ERROR_USAGE,
                         "%s: the frame has no label %s; it has %" PRIu32 ", from \"%s\" to \"%s\"",
                         field->name, shown, frame_labels(frame), frame_label_text(frame, 0),
                         frame_label_text(frame, frame_labels(frame) - 1));
    double number = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!isfinite(number) || number < 0) {
        enum error error = refuse_value(field, item, "a number of at least 0");
        return error_prefix(error, "label %s: ", shown);
    }
    if (label >= 0)
        numbers[label] = number;
    return OK;
}

static enum error take_label_numbers(const struct frame *frame, const struct design_field *field,
                                     const cJSON *object, double **ret_numbers)
{
    const cJSON *item;
    if (!cJSON_IsObject(object))
        return refuse_value(field, object, "an object {\"label\": number of at least 0}");
    double *numbers = array_new(frame_labels(frame), sizeof(*numbers), numbers_memory);
    if (!numbers)
        return ERROR_MEMORY;
    cJSON_ArrayForEach(item, object)
    {
        enum error error = take_label_number(frame, field, item, numbers);
        if (error) {
            free(numbers);
            return error;
        }
    }
    if (!some_above_zero(frame, numbers)) {
        free(numbers);
        return error_set(ERROR_USAGE,
                         "%s: no label has a number above 0, so that nothing would "
                         "ever be drawn",
                         field->name);
    }
    *ret_numbers = numbers;
    return OK;
}

static enum error take(const struct frame *frame, unsigned number, const cJSON *item,
                       struct design_fields *fields)
{
    const struct design_field *field = &list[number];
    switch (number) {
    case FIELD_SHARES:
        return take_label_numbers(frame, field, item, &fields->shares);
    case FIELD_COLUMN:
        return take_text(field, item, &fields->column);
    case FIELD_DEVIATIONS:
        return take_label_numbers(frame, field, item, &fields->deviations);
    case FIELD_P:
        return take_count(field, item, &fields->p);
    case FIELD_K:
        return take_count(field, item, &fields->k);
    case FIELD_SIZE:
        return take_count(field, item, &fields->size);
    case FIELD_GROUPS:
        return take_count(field, item, &fields->groups);
    default:
        return take_rate(field, item, &fields->rate);
    }
}

/* ---- an object of them -------------------------------------------------- */

static unsigned find_field(const char *name)
{
    unsigned i = 0;
    while (i < FIELDS && strcmp(list[i].name, name) != 0)
        i++;
    return i;
}

static bool has_field(const struct design_needs *need, const char *name)
{
    unsigned number = find_field(name);
    return number != FIELDS && (need->has & BIT(number));
}

bool design_has_field(const char *design, bool replacement, const char *name)
{
    struct design_needs need = needs_of(design, replacement);
    return has_field(&need, name);
}

enum error design_fields_check_names(const char *design, bool replacement, const cJSON *object)
{
    struct design_needs need = needs_of(design, replacement);
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        if (!has_field(&need, item->string))
            return refuse_unknown(&need, replacement, item->string);
    }
    return OK;
}

static enum error refuse_missing(const struct design_needs *need, unsigned missing)
{
    char names[NAMES_BYTES];
    name_fields(missing, names);
    return error_set(ERROR_USAGE, "design %s needs %s", need->design, names);
}

static enum error take_members(const struct frame *frame, const struct design_needs *need,
                               bool replacement, const cJSON *object, struct design_fields *fields)
{
    unsigned given = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        if (!has_field(need, item->string))
            return refuse_unknown(need, replacement, item->string);
        unsigned number = find_field(item->string);
        if (given & BIT(number))
            return error_set(ERROR_USAGE, "%s is given twice", item->string);
        given |= BIT(number);
        enum error error = take(frame, number, item, fields);
        if (error)
            return error;
    }
    unsigned missing = need->has & ~need->may_lack & ~given;
    if (missing)
        return refuse_missing(need, missing);
    if (strcmp(need->design, "neyman") == 0 && given == 0)
        return error_set(ERROR_USAGE, "design neyman needs deviations {\"label\": number}, or the "
                                      "column of the store to measure them in");
    return OK;
}

static enum error take_object(const struct frame *frame, const char *design, bool replacement,
                              const cJSON *object, struct design_fields *ret_fields)
{
    struct design_needs need = needs_of(design, replacement);
    struct design_fields fields = {.p = 0};
    enum error error = take_members(frame, &need, replacement, object, &fields);
    if (error) {
        design_fields_release(&fields);
        return error;
    }
    *ret_fields = fields;
    return OK;
}

enum error design_fields_parse(const struct frame *frame, const char *design, bool replacement,
                               const char *text, struct design_fields *ret_fields)
{
    cJSON *object = NULL;
    if (!text || text[0] == '\0')
        return take_object(frame, design, replacement, NULL, ret_fields);
    enum error error = json_parse(text, strlen(text), "the design's fields", &object);
    if (!error && !cJSON_IsObject(object))
        error =
            error_set(ERROR_USAGE, "the design's fields are %s, not an object", json_kind(object));
    if (!error)
        error = take_object(frame, design, replacement, object, ret_fields);
    cJSON_Delete(object);
    return error;
}

void design_fields_release(struct design_fields *fields)
{
    free(fields->shares);
    free(fields->deviations);
    free(fields->column);
    *fields = (struct design_fields){.p = 0};
}

/* ---- and back to text --------------------------------------------------- */

static void add_name(struct buffer *text, unsigned field)
{
    buffer_print(text, "%s\"%s\":", text->length > 1 ? "," : "", list[field].name);
}

static void add_count(struct buffer *text, unsigned field, int64_t count)
{
    if (count == 0)
        return;
    add_name(text, field);
    buffer_print(text, "%" PRId64, count);
}

static void add_label_numbers(struct buffer *text, const struct frame *frame, unsigned field,
                              const double *numbers)
{
    char number[TEXT_REAL_BYTES];
    const char *before = "{";
    if (!numbers)
        return;
    add_name(text, field);
    for (uint32_t label = 0; label < frame_labels(frame); label++) {
        if (numbers[label] == 0)
            continue;
        buffer_add_text(text, before);
        json_add_string(text, frame_label_text(frame, label));
        buffer_print(text, ":%s", text_of_real(numbers[label], number));
        before = ",";
    }
    buffer_add_text(text, "}");
}

enum error design_fields_text(const struct frame *frame, const struct design_fields *fields,
                              char **ret_text)
{
    char rate[TEXT_REAL_BYTES];
    struct buffer text = BUFFER_INIT(TEXT_LIMIT_BYTES);
    buffer_add_text(&text, "{");
    add_label_numbers(&text, frame, FIELD_SHARES, fields->shares);
    if (fields->column) {
        add_name(&text, FIELD_COLUMN);
        json_add_string(&text, fields->column);
    }
    add_label_numbers(&text, frame, FIELD_DEVIATIONS, fields->deviations);
    add_count(&text, FIELD_P, fields->p);
    add_count(&text, FIELD_K, fields->k);
    add_count(&text, FIELD_SIZE, fields->size);
    add_count(&text, FIELD_GROUPS, fields->groups);
    if (fields->rate != 0) {
        add_name(&text, FIELD_OF_RATE);
        buffer_add_text(&text, text_of_real(fields->rate, rate));
    }
    buffer_add_text(&text, "}");
    if (text.length == 2) /* no field at all: "" */
        text.data[0] = '\0';
    return buffer_take(&text, ret_text);
}

enum error design_fields_canonical(const struct frame *frame, const char *design, bool replacement,
                                   const cJSON *object, char **ret_text)
{
    struct design_fields fields;
    enum error error = take_object(frame, design, replacement, object, &fields);
    if (error)
        return error;
    if (fields.column && fields.deviations)
        error = error_set(ERROR_USAGE, "column and deviations are both given; give one of them");
    else
        error = design_fields_text(frame, &fields, ret_text);
    design_fields_release(&fields);
    return error;
}

enum error design_fields_resolve(const struct frame *frame, const char *text, const char *store_uri,
                                 char **ret_text)
{
    static const char measured[] = "{\"column\":"; /* a label may be called column, too */
    struct design_fields fields = {.p = 0};
    bool measures = text && strncmp(text, measured, strlen(measured)) == 0;
    enum error error = measures ? design_fields_parse(frame, "neyman", false, text, &fields) : OK;
    if (error)
        return error;
    if (!measures || fields.deviations) {
        *ret_text = strdup(text ? text : "");
        error = *ret_text ? OK : error_set_memory(1, "the design's fields");
    } else if (!store_uri) {
        error = error_set(ERROR_USAGE,
                          "column %s cannot be measured: this frame does not say where its units "
                          "are; give deviations, or serve it with --store",
                          fields.column);
    } else {
        error = label_deviations(frame, store_uri, fields.column, &fields.deviations);
        if (!error && !some_above_zero(frame, fields.deviations))
            error = error_set(ERROR_USAGE,
                              "column %s has one value throughout each label: it does not tell how "
                              "to share the draws",
                              fields.column);
        if (!error)
            error = design_fields_text(frame, &fields, ret_text);
    }
    design_fields_release(&fields);
    return error;
}
