/* SPDX-License-Identifier: MIT */
#include "sampler/build/frame_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "sampler/build/frame_build.h"

struct missing_frame {
    char name[FRAME_NAME_BYTES];
    struct error_report why;
};

struct frame_set {
    struct named_frame **frames; /* owned, also each one, so that they never move */
    size_t count, capacity;
    struct missing_frame *missing; /* [missing_count], owned */
    size_t missing_count, missing_capacity;
};

static void free_named(struct named_frame *named)
{
    if (!named)
        return;
    label_texts_release(&named->label_texts);
    frame_free(named->frame);
    free(named->source);
    free(named);
}

enum error frame_set_new(struct frame_set **ret_set)
{
    struct frame_set *set = array_new(1, sizeof(*set), "the frames");
    if (!set)
        return ERROR_MEMORY;
    *ret_set = set;
    return OK;
}

void frame_set_free(struct frame_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->count; i++)
        free_named(set->frames[i]);
    free(set->frames);
    free(set->missing);
    free(set);
}

/* ---- names -------------------------------------------------------------- */

/* How long a prefix of `text` may be a name. */
static size_t name_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
}

static bool is_name(const char *text, size_t length)
{
    return length >= 1 && length < FRAME_NAME_BYTES && name_length(text) >= length;
}

enum error frame_set_parse(const char *option, const char *text, char ret_name[FRAME_NAME_BYTES],
                           const char **ret_rest)
{
    size_t length = strcspn(text, "=");
    if (text[length] == '\0' || !is_name(text, length)) {
        snprintf(ret_name, FRAME_NAME_BYTES, "%s", FRAME_NAME_DEFAULT);
        *ret_rest = text;
        return OK;
    }
    if (text[length + 1] == '\0')
        return error_set(ERROR_USAGE, "--%s %s: nothing stands behind the name; write NAME=%s",
                         option, text, strcmp(option, "store") == 0 ? "URI" : "FILE");
    snprintf(ret_name, FRAME_NAME_BYTES, "%.*s", (int)length, text);
    *ret_rest = text + length + 1;
    return OK;
}

/* ---- filling ------------------------------------------------------------ */

static enum error check_name(const struct frame_set *set, const char *name)
{
    char shown[TEXT_QUOTE_BYTES];
    if (!is_name(name, strlen(name)))
        return error_set(ERROR_USAGE, "%s is not a frame's name, 1 to %d of [A-Za-z0-9._-]",
                         text_quote(shown, sizeof(shown), name, strlen(name)),
                         FRAME_NAME_BYTES - 1);
    if (frame_set_find(set, name))
        return error_set(ERROR_USAGE,
                         "two frames are called %s; give each a name of its own: "
                         "--store NAME=URI, --frame NAME=FILE",
                         name);
    return OK;
}

static enum error fill(struct named_frame *named, const char *name, const char *store_uri,
                       const char *frame_path)
{
    snprintf(named->name, sizeof(named->name), "%s", name);
    if (store_uri && !(named->source = strdup(store_uri)))
        return error_set_memory(strlen(store_uri), "a frame's source");
    enum error error =
        store_uri ? frame_build(store_uri, &named->frame) : frame_open(frame_path, &named->frame);
    if (!error)
        error = label_texts_init(&named->label_texts, named->frame);
    if (!error)
        frame_digest_text(frame_digest(named->frame), named->digest);
    return error;
}

enum error frame_set_add(struct frame_set *set, const char *name, const char *store_uri,
                         const char *frame_path)
{
    enum error error = check_name(set, name);
    if (!error)
        error = array_grow((void **)&set->frames, &set->capacity, set->count + 1,
                           sizeof(struct named_frame *), "the frames");
    if (error)
        return error;
    struct named_frame *named = array_new(1, sizeof(*named), "the frames");
    if (!named)
        return ERROR_MEMORY;
    error = fill(named, name, store_uri, frame_path);
    if (error) {
        free_named(named);
        return strcmp(name, FRAME_NAME_DEFAULT) == 0 ? error
                                                     : error_prefix(error, "frame %s: ", name);
    }
    set->frames[set->count++] = named;
    return OK;
}

enum error frame_set_miss(struct frame_set *set, const char *name)
{
    struct error_report why;
    void *missing = set->missing;
    error_report_take(ERROR_UNAVAILABLE, &why);
    enum error error = array_grow(&missing, &set->missing_capacity, set->missing_count + 1,
                                  sizeof(*set->missing), "the frames");
    set->missing = missing;
    if (error)
        return error;
    struct missing_frame *frame = &set->missing[set->missing_count++];
    snprintf(frame->name, sizeof(frame->name), "%s", name);
    frame->why = why;
    return OK;
}

/* ---- questions ---------------------------------------------------------- */

const struct named_frame *frame_set_find(const struct frame_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->frames[i]->name, name) == 0)
            return set->frames[i];
    }
    return NULL;
}

enum error frame_set_get(const struct frame_set *set, const char *name,
                         const struct named_frame **ret_frame)
{
    char shown[TEXT_QUOTE_BYTES];
    char names[512] = "";
    size_t length = 0;
    *ret_frame = frame_set_find(set, name);
    if (*ret_frame)
        return OK;
    for (size_t i = 0; i < set->missing_count; i++) {
        if (strcmp(set->missing[i].name, name) == 0)
            return error_restore(&set->missing[i].why);
    }
    for (size_t i = 0; i < set->count && length < sizeof(names) - 1; i++)
        length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s", i ? ", " : "",
                                   set->frames[i]->name);
    return error_set(ERROR_NOT_FOUND, "there is no frame %s; this server has %s",
                     text_quote(shown, sizeof(shown), name, strlen(name)), names);
}

enum error frame_set_require(const struct frame_set *set)
{
    if (set->count > 0 || set->missing_count == 0)
        return OK;
    (void)error_restore(&set->missing[0].why);
    return error_prefix(ERROR_INPUT, "none of the frames can be served: ");
}

size_t frame_set_count(const struct frame_set *set)
{
    return set->count;
}

const struct named_frame *frame_set_at(const struct frame_set *set, size_t i)
{
    return set->frames[i];
}
