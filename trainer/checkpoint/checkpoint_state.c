/* SPDX-License-Identifier: MIT */
#include "trainer/checkpoint/checkpoint_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define NEWEST "model_checkpoint_path:"
#define LISTED "all_model_checkpoint_paths:"

void checkpoint_state_release(struct checkpoint_state *state)
{
    for (size_t i = 0; i < state->count; i++)
        free(state->names[i]);
    free(state->names);
    *state = (struct checkpoint_state)CHECKPOINT_STATE_INIT;
}

bool checkpoint_state_find(const struct checkpoint_state *state, const char *name,
                           size_t *ret_index)
{
    for (size_t i = 0; i < state->count; i++) {
        if (strcmp(state->names[i], name) != 0)
            continue;
        if (ret_index)
            *ret_index = i;
        return true;
    }
    return false;
}

void checkpoint_state_remove(struct checkpoint_state *state, size_t index)
{
    assert(index < state->count && index != state->newest);
    free(state->names[index]);
    memmove(&state->names[index], &state->names[index + 1],
            (state->count - index - 1) * sizeof(*state->names));
    state->count--;
    if (state->newest > index)
        state->newest--;
}

enum error checkpoint_state_add(struct checkpoint_state *state, const char *name)
{
    char *copy = strdup(name);
    if (!copy)
        return error_set_memory(strlen(name), "the name of a checkpoint");
    enum error error = array_grow((void **)&state->names, &state->capacity, state->count + 1,
                                  sizeof(*state->names), "the names of checkpoints");
    if (error) {
        free(copy);
        return error;
    }
    state->names[state->count] = copy;
    state->newest = state->count++;
    size_t index;
    if (checkpoint_state_find(state, name, &index) && index != state->newest)
        checkpoint_state_remove(state, index);
    return OK;
}

/* Copies the quoted text that [at, end) consists of, without its escapes, to `to`, which has room
 * for that many bytes. False: it is not a quoted text. */
static bool unquote(const char *at, const char *end, char *to)
{
    char *begin = to;
    if (end - at < 2 || *at != '"' || end[-1] != '"')
        return false;
    for (at++, end--; at < end; at++) {
        if (*at == '"' || *at == '\0')
            return false;
        if (*at == '\\' && (++at == end || !strchr("\\\"'", *at)))
            return false;
        *to++ = *at;
    }
    *to = '\0';
    return to != begin;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && strchr(" \t\r", *at))
        at++;
    return at;
}

static const char *trim_end(const char *at, const char *end)
{
    while (end > at && strchr(" \t\r", end[-1]))
        end--;
    return end;
}

static bool begins(const char *at, const char *end, const char *word)
{
    return (size_t)(end - at) >= strlen(word) && memcmp(at, word, strlen(word)) == 0;
}

/* Parses one line; the name of the newest goes to *newest. */
static enum error parse_line(struct checkpoint_state *state, const char *at, const char *end,
                             char **newest)
{
    enum error error = OK;
    at = skip_space(at, end);
    end = trim_end(at, end);
    bool listed = begins(at, end, LISTED);
    if (!listed && !begins(at, end, NEWEST)) {
        if (at == end || *at == '#' || memchr(at, ':', (size_t)(end - at)))
            return OK;
        return error_set(ERROR_INPUT, "no 'field: value'");
    }
    const char *field = listed ? LISTED : NEWEST;
    at = skip_space(at + strlen(field), end);
    char *name = array_new((size_t)(end - at) + 1, 1, "the name of a checkpoint");
    if (!name)
        return ERROR_MEMORY;
    if (!unquote(at, end, name)) {
        error = error_set(ERROR_INPUT, "no quoted name after %s", field);
    } else if (listed) {
        error = checkpoint_state_add(state, name);
    } else if (*newest) {
        error = error_set(ERROR_INPUT, NEWEST " is there twice");
    } else {
        *newest = name;
        return OK;
    }
    free(name);
    return error;
}

enum error checkpoint_state_parse(struct checkpoint_state *state, const char *text, size_t length,
                                  const char *what)
{
    const char *at = text, *end = text + length;
    char *newest = NULL;
    enum error error = OK;
    for (size_t line = 1; at < end && !error; line++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end)
            line_end = end;
        error = parse_line(state, at, line_end, &newest);
        if (error)
            error = error_prefix(error, "%s, line %zu: ", what, line);
        at = line_end < end ? line_end + 1 : end;
    }
    if (!error && !newest)
        error = error_set(ERROR_INPUT, "%s does not say " NEWEST " \"NAME\"", what);
    else if (!error && !checkpoint_state_find(state, newest, &state->newest))
        error = checkpoint_state_add(state, newest);
    free(newest);
    if (error)
        checkpoint_state_release(state);
    return error;
}

static enum error print_name(struct buffer *out, const char *field, const char *name)
{
    buffer_print(out, "%s \"", field);
    for (; *name; name++)
        buffer_print(out, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
    return buffer_add_text(out, "\"\n");
}

enum error checkpoint_state_print(const struct checkpoint_state *state, struct buffer *out)
{
    enum error error = print_name(out, NEWEST, state->names[state->newest]);
    for (size_t i = 0; i < state->count && !error; i++)
        error = print_name(out, LISTED, state->names[i]);
    return error;
}
