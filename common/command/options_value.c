/* SPDX-License-Identifier: MIT */
#include "common/command/options_value.h"

#include <stdio.h>
#include <string.h>

#include "common/command/options_help.h"
#include "common/text.h"

static bool is_bounded(const struct option *option)
{
    return option->minimum != 0 || option->maximum != 0;
}

static enum error refuse(const struct option *option, const char *text, const char *source)
{
    char shown[TEXT_QUOTE_BYTES];
    char bounds[160];
    const char *kind = option->type == OPTION_INTEGER ? "an integer" : "a number";
    text_quote(shown, sizeof(shown), text, strlen(text));
    options_describe_bounds(option, bounds, sizeof(bounds));
    if (!bounds[0]) /* then its type alone bounds it */
        snprintf(bounds, sizeof(bounds), "%s",
                 option->type == OPTION_INTEGER ? "from -2^63 to 2^63-1" : TEXT_REAL_RANGE);
    return error_set(ERROR_USAGE, "%s is %s, must be %s %s", source, shown, kind, bounds);
}

static enum error set_integer(const struct option *option, const char *text, const char *source)
{
    int64_t minimum = INT64_MIN;
    int64_t maximum = INT64_MAX;
    if (is_bounded(option) && option->minimum > (long double)INT64_MIN)
        minimum = (int64_t)option->minimum;
    if (is_bounded(option) && option->maximum < (long double)INT64_MAX)
        maximum = (int64_t)option->maximum;
    if (text_parse_integer(text, strlen(text), minimum, maximum, option->target))
        return OK;
    return refuse(option, text, source);
}

static enum error set_real(const struct option *option, const char *text, const char *source)
{
    double value;
    if (!text_parse_real(text, strlen(text), &value))
        return refuse(option, text, source);
    if (is_bounded(option) && (value < option->minimum || value > option->maximum))
        return refuse(option, text, source);
    *(double *)option->target = value;
    return OK;
}

static enum error set_flag(const struct option *option, const char *text, const char *source)
{
    if (text_parse_boolean(text, strlen(text), option->target))
        return OK;
    char shown[TEXT_QUOTE_BYTES];
    return error_set(ERROR_USAGE, "%s is %s, must be yes or no (also true, false, on, off, 1, 0)",
                     source, text_quote(shown, sizeof(shown), text, strlen(text)));
}

/* The choice that `text` is a synonym for, or `text`. */
static const char *resolve_alias(const struct option *option, const char *text)
{
    const char *equals = option->alias ? strchr(option->alias, '=') : NULL;
    size_t length = equals ? (size_t)(equals - option->alias) : 0;
    bool same = equals && strlen(text) == length && memcmp(text, option->alias, length) == 0;
    return same ? equals + 1 : text;
}

static enum error set_choice(const struct option *option, const char *text, const char *source)
{
    text = resolve_alias(option, text);
    size_t length = strlen(text);
    const char *choice = option->choices;
    while (*choice && length > 0) {
        size_t choice_length = strcspn(choice, "|");
        if (choice_length == length && memcmp(choice, text, length) == 0) {
            *(const char **)option->target = text;
            return OK;
        }
        choice += choice_length + (choice[choice_length] == '|');
    }
    char shown[TEXT_QUOTE_BYTES];
    char allowed[256];
    size_t written = 0;
    for (const char *letter = option->choices; *letter && written + 3 < sizeof(allowed); letter++) {
        allowed[written++] = *letter == '|' ? ',' : *letter;
        if (*letter == '|')
            allowed[written++] = ' ';
    }
    allowed[written] = '\0';
    return error_set(ERROR_USAGE, "%s is %s, must be one of %s", source,
                     text_quote(shown, sizeof(shown), text, length), allowed);
}

/* Files are published whole under their names, so none can go to standard output. */
static enum error set_text(const struct option *option, const char *text, const char *source)
{
    if (option->is_output && strcmp(text, "-") == 0)
        return error_set(ERROR_USAGE,
                         "%s is \"-\", must be the name of a file: it is written aside and "
                         "renamed, and not to standard output (./- is a file of that name)",
                         source);
    *(const char **)option->target = text;
    return OK;
}

enum error options_set_value(const struct option *option, const char *text, const char *source)
{
    switch (option->type) {
    case OPTION_TEXT:
        return set_text(option, text, source);
    case OPTION_INTEGER:
        return set_integer(option, text, source);
    case OPTION_REAL:
        return set_real(option, text, source);
    case OPTION_FLAG:
        return set_flag(option, text, source);
    case OPTION_CHOICE:
        return set_choice(option, text, source);
    }
    return error_set(ERROR_USAGE, "option %s has the unknown type %d", option->name, option->type);
}

enum error options_host_port(const char *name, const char *value, char host[256],
                             uint16_t *ret_port)
{
    const char *colon = strrchr(value, ':');
    size_t length = colon ? (size_t)(colon - value) : 0;
    const char *start = value;
    bool brackets = length > 2 && value[0] == '[' && value[length - 1] == ']';
    if (brackets) {
        start++;
        length -= 2;
    }
    int64_t port;
    bool single = brackets || strcspn(value, "[]:") == length; /* "::1" has no port */
    if (length > 0 && length < 256 && single &&
        text_parse_integer(colon + 1, strlen(colon + 1), 0, UINT16_MAX, &port)) {
        memcpy(host, start, length);
        host[length] = '\0';
        *ret_port = (uint16_t)port;
        return OK;
    }
    char shown[TEXT_QUOTE_BYTES];
    char dashed[128];
    options_dashed(name, dashed, sizeof(dashed));
    if (length > 0 && length < 256 && single) {
        char port_shown[TEXT_QUOTE_BYTES];
        return error_set(
            ERROR_USAGE, "--%s is %s: its port is %s, must be a number from 0 (a free one) to %d",
            dashed, text_quote(shown, sizeof(shown), value, strlen(value)),
            text_quote(port_shown, sizeof(port_shown), colon + 1, strlen(colon + 1)), UINT16_MAX);
    }
    return error_set(ERROR_USAGE,
                     "--%s is %s, must be HOST:PORT (127.0.0.1:8080, 0.0.0.0:8080, [::1]:8080)",
                     dashed, text_quote(shown, sizeof(shown), value, strlen(value)));
}

enum error options_range(const char *name, const char *value, int64_t *ret_first, int64_t *ret_end)
{
    const char *colon = strchr(value, ':');
    int64_t first;
    int64_t end;
    if (colon && text_parse_integer(value, (size_t)(colon - value), 0, INT64_MAX - 1, &first) &&
        text_parse_integer(colon + 1, strlen(colon + 1), first + 1, INT64_MAX, &end)) {
        *ret_first = first;
        *ret_end = end;
        return OK;
    }
    char shown[TEXT_QUOTE_BYTES];
    char dashed[128];
    options_dashed(name, dashed, sizeof(dashed));
    return error_set(ERROR_USAGE, "--%s is %s, must be A:B with 0 <= A < B (from A, B excluded)",
                     dashed, text_quote(shown, sizeof(shown), value, strlen(value)));
}
