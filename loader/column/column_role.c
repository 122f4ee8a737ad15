/* SPDX-License-Identifier: MIT */
#include "loader/column/column_role.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "loader/column/read_options.h"

#define NAMES_SHOWN 12

static const char *const keys[COLUMN_ROLES] = {
    [COLUMN_FEATURE] = "features", [COLUMN_ID] = "id",       [COLUMN_LABEL] = "label",
    [COLUMN_WEIGHT] = "weight",    [COLUMN_GROUP] = "group",
};

void column_choice_read(struct column_choice *choice, struct uri *uri,
                        const struct read_options *options)
{
    for (size_t role = 0; role < COLUMN_ROLES; role++)
        choice->names[role] = keys[role] ? uri_query_get(&uri->query, keys[role]) : NULL;
    choice->only = options->columns;
    choice->only_count = options->column_count;
    choice->recipe = options->recipe;
}

void column_choice_imported(struct column_choice *choice, bool has_weight, bool has_group,
                            bool has_features)
{
    const bool has[COLUMN_ROLES] = {
        [COLUMN_WEIGHT] = has_weight, [COLUMN_GROUP] = has_group, [COLUMN_FEATURE] = has_features};
    for (size_t role = 0; role < COLUMN_ROLES; role++) {
        if (has[role] && !choice->names[role])
            choice->names[role] = keys[role];
    }
}

const char *name_list(const char *const names[], size_t count, char out[NAME_LIST_BYTES])
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        char shown[TEXT_QUOTE_BYTES];
        text_quote(shown, sizeof(shown), names[i], strlen(names[i]));
        if (i == NAMES_SHOWN || length + strlen(shown) + 40 > NAME_LIST_BYTES) {
            snprintf(out + length, NAME_LIST_BYTES - length, " and %zu more", count - i);
            break;
        }
        length +=
            (size_t)snprintf(out + length, NAME_LIST_BYTES - length, "%s%s", i ? ", " : "", shown);
    }
    return out;
}

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

static bool is_alike(const char *name, const char *wanted, size_t length)
{
    size_t i = 0;
    while (i < length && name[i] && lower(name[i]) == lower(wanted[i]))
        i++;
    return i == length && !name[i];
}

static enum error refuse_two(const struct column_names *columns, enum column_role role,
                             const char *wanted, size_t length, const size_t found[2])
{
    char shown[3][TEXT_QUOTE_BYTES];
    for (size_t i = 0; i < 2; i++)
        text_quote(shown[i], sizeof(shown[i]), columns->names[found[i]],
                   strlen(columns->names[found[i]]));
    return error_set(ERROR_USAGE,
                     "the columns %s and %s are both called %s but for upper and lower case; "
                     "%s=NAME says which is meant",
                     shown[0], shown[1], text_quote(shown[2], sizeof(shown[2]), wanted, length),
                     keys[role]);
}

/* The column of that name, else the one whose name differs only in case; `count` of them: none. */
static enum error find_name(const struct column_names *columns, enum column_role role,
                            const char *wanted, size_t length, size_t *ret_column)
{
    size_t alike[2] = {columns->count, columns->count};
    size_t count = 0;
    for (size_t i = 0; i < columns->count; i++) {
        if (!is_alike(columns->names[i], wanted, length))
            continue;
        if (memcmp(columns->names[i], wanted, length) == 0) {
            *ret_column = i;
            return OK;
        }
        if (count < 2)
            alike[count++] = i;
    }
    if (count == 2)
        return refuse_two(columns, role, wanted, length, alike);
    *ret_column = alike[0];
    return OK;
}

size_t column_names_find(const struct column_names *columns, const char *wanted, size_t length)
{
    size_t alike = columns->count;
    for (size_t i = 0; i < columns->count; i++) {
        if (!is_alike(columns->names[i], wanted, length))
            continue;
        if (memcmp(columns->names[i], wanted, length) == 0)
            return i;
        alike = alike == columns->count ? i : SIZE_MAX;
    }
    return alike == SIZE_MAX ? columns->count : alike;
}

const char *column_list_hint(const struct column_names *columns)
{
    for (size_t i = 0; i < columns->count; i++) {
        if (strchr(columns->names[i], ',') || columns->names[i][0] == '"')
            return "; in a list, one with a comma is written in quotes: \"a,b\",c";
    }
    return "";
}

static enum error refuse_name(const struct column_names *columns, enum column_role role,
                              const char *wanted, size_t length)
{
    char shown[TEXT_QUOTE_BYTES];
    char list[NAME_LIST_BYTES];
    return error_set(ERROR_USAGE, "%s=%s names no column; there %s %s%s", keys[role],
                     text_quote(shown, sizeof(shown), wanted, length),
                     text_plural(columns->count, "is", "are"),
                     name_list(columns->names, columns->count, list),
                     role == COLUMN_FEATURE ? column_list_hint(columns) : "");
}

static enum error assign(const struct column_names *columns, enum column_role role,
                         const char *wanted, size_t length, enum column_role *roles)
{
    size_t column = columns->count;
    enum error error = find_name(columns, role, wanted, length, &column);
    if (error)
        return error;
    if (column == columns->count)
        return refuse_name(columns, role, wanted, length);
    if (roles[column] != COLUMN_IGNORED)
        return error_set(ERROR_USAGE, "%s= and %s= both name the column \"%s\"",
                         keys[roles[column]], keys[role], columns->names[column]);
    roles[column] = role;
    return OK;
}

/* The end of a quoted name, whose quotes are removed; NULL: it has none. */
static char *unquote(char *name)
{
    char *out = name;
    for (const char *from = name + 1; *from; from++) {
        if (*from == '"' && *++from != '"') {
            char *end = name + (from - name);
            if (*end && *end != ',')
                return NULL;
            *out = '\0';
            return end;
        }
        *out++ = *from;
    }
    return NULL;
}

enum error column_list_next(char **at, const char *key, const char **ret_name)
{
    char *name = *at;
    if (!name[0]) {
        *ret_name = NULL;
        return OK;
    }
    char shown[TEXT_QUOTE_BYTES];
    text_quote(shown, sizeof(shown), name, strlen(name));
    char *end = name[0] == '"' ? unquote(name) : name + strcspn(name, ",");
    if (!end)
        return error_set(ERROR_USAGE,
                         "%s=: a name in quotes must end with a quote and a comma, or the list's "
                         "end; \"\" is a quote in it: %s",
                         key, shown);
    *at = end + (*end == ',');
    *end = '\0';
    *ret_name = name;
    return OK;
}

static enum error assign_features(const struct column_names *columns, const char *list,
                                  enum column_role *roles)
{
    char *own = strdup(list);
    if (!own)
        return error_set_memory(strlen(list), "names of columns");
    char *at = own;
    const char *name;
    enum error error;
    while (!(error = column_list_next(&at, keys[COLUMN_FEATURE], &name)) && name) {
        error = assign(columns, COLUMN_FEATURE, name, strlen(name), roles);
        if (error)
            break;
    }
    free(own);
    return error;
}

static enum error assign_default(const struct column_names *columns, enum column_role role,
                                 enum column_role *roles)
{
    size_t column;
    enum error error = find_name(columns, role, keys[role], strlen(keys[role]), &column);
    if (!error && column < columns->count && roles[column] == COLUMN_IGNORED)
        roles[column] = role;
    return error;
}

/* The column of that name to be read; `count` of them: none, or not unique. */
static size_t find_wanted(const struct column_names *columns, const char *name,
                          const enum column_role *roles)
{
    size_t column = columns->count;
    if (find_name(columns, COLUMN_FEATURE, name, strlen(name), &column) || column == columns->count)
        return columns->count;
    bool is_read = roles[column] == COLUMN_FEATURE || roles[column] == COLUMN_WEIGHT;
    return is_read ? column : columns->count;
}

static enum error keep_only(const struct column_names *columns, const struct column_choice *choice,
                            enum column_role *roles)
{
    bool *wanted = array_new(columns->count, sizeof(*wanted), "columns that are wanted");
    if (!wanted)
        return ERROR_MEMORY;
    size_t found = 0;
    for (; found < choice->only_count; found++) {
        size_t column = find_wanted(columns, choice->only[found], roles);
        if (column == columns->count)
            break;
        wanted[column] = true;
    }
    for (size_t i = 0; i < columns->count && found == choice->only_count; i++) {
        if (!wanted[i] && roles[i] == COLUMN_FEATURE)
            roles[i] = COLUMN_IGNORED;
    }
    free(wanted);
    return OK;
}

enum error column_roles_assign(const struct column_names *columns,
                               const struct column_choice *choice, bool defaults,
                               enum column_role *ret_roles)
{
    static const enum column_role single[] = {COLUMN_ID, COLUMN_LABEL, COLUMN_WEIGHT, COLUMN_GROUP};
    const char *features = choice->names[COLUMN_FEATURE];
    enum error error = OK;
    for (size_t i = 0; i < columns->count; i++)
        ret_roles[i] = COLUMN_IGNORED;
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]) && !error; i++) {
        const char *name = choice->names[single[i]];
        if (name && name[0])
            error = assign(columns, single[i], name, strlen(name), ret_roles);
    }
    if (!error && features)
        error = assign_features(columns, features, ret_roles);
    if (!error && defaults && !choice->names[COLUMN_ID])
        error = assign_default(columns, COLUMN_ID, ret_roles);
    if (!error && defaults && !choice->names[COLUMN_LABEL])
        error = assign_default(columns, COLUMN_LABEL, ret_roles);
    for (size_t i = 0; i < columns->count && !features && !error; i++) {
        if (ret_roles[i] == COLUMN_IGNORED)
            ret_roles[i] = COLUMN_FEATURE;
    }
    if (!error && choice->only_count > 0)
        error = keep_only(columns, choice, ret_roles);
    return error;
}

const char **column_numbers_new(size_t count)
{
    const char **numbers =
        array_new(count, sizeof(char *) + TEXT_INTEGER_BYTES + 1, "column names");
    char *text = numbers ? (char *)(numbers + count) : NULL;
    for (size_t i = 0; text && i < count; i++) {
        numbers[i] = text;
        text = text_write_integer(text, (int64_t)i) + 1; /* the memory is zeroed */
    }
    return numbers;
}
