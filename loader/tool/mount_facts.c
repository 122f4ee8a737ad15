/* SPDX-License-Identifier: MIT */
#include "loader/tool/mount_facts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 8192

static bool is_octal(const char *digits)
{
    return strspn(digits, "01234567") >= 3;
}

/* The kernel writes space, tab, line end and backslash as \040 and so on. */
static void decode(char *text)
{
    char *out = text;
    for (const char *in = text; *in; out++) {
        if (in[0] == '\\' && is_octal(in + 1)) {
            *out = (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
            in += 4;
        } else {
            *out = *in++;
        }
    }
    *out = '\0';
}

static void copy(char *out, size_t bytes, const char *text)
{
    snprintf(out, bytes, "%s", text);
}

static bool lies_in(const char *path, const char *point)
{
    size_t length = strlen(point);
    if (strcmp(point, "/") == 0)
        return true;
    return strncmp(path, point, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* The option that begins at `name` in the list; NULL: none. */
static const char *find(const struct mount_facts *facts, const char *name)
{
    size_t length = strlen(name);
    const char *at = facts->options;
    while (at) {
        if (strncmp(at, name, length) == 0 && strchr(",=", at[length]))
            return at; /* strchr() finds the end, too */
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return NULL;
}

/* Appends the file system's options to the mount's, without duplicates. */
static void add_options(struct mount_facts *facts, char *more)
{
    for (char *option; (option = strsep(&more, ",")) != NULL;) {
        size_t length = strlen(facts->options);
        if (!find(facts, option))
            snprintf(facts->options + length, sizeof(facts->options) - length, ",%s", option);
    }
}

/* ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [FIELDS...] - TYPE SOURCE OPTIONS. False: it does not
 * contain the path, or is malformed. */
static bool take_line(char *line, const char *path, size_t *longest, struct mount_facts *facts)
{
    char *fields[6], *rest = line;
    for (size_t i = 0; i < 6; i++) {
        fields[i] = strsep(&rest, " ");
        if (!rest)
            return false;
    }
    char *end = strncmp(rest, "- ", 2) == 0 ? rest : strstr(rest, " - ");
    char *point = fields[4];
    decode(point);
    if (!end || !lies_in(path, point) || strlen(point) < *longest)
        return false;
    *longest = strlen(point);
    rest = end + (end == rest ? 2 : 3);
    const char *type = strsep(&rest, " "), *source = strsep(&rest, " ");
    copy(facts->type, sizeof(facts->type), type ? type : "");
    copy(facts->source, sizeof(facts->source), source ? source : "");
    decode(facts->source);
    copy(facts->options, sizeof(facts->options), fields[5]);
    char none[] = "";
    add_options(facts, rest ? strsep(&rest, "\n") : none);
    return true;
}

enum error mount_facts_find(const char *path, struct mount_facts *ret_facts)
{
    char whole[PATH_MAX], line[LINE_BYTES];
    size_t longest = 0;
    *ret_facts = (struct mount_facts){.type = "unknown"};
    if (!realpath(path, whole))
        return error_set_errno(ERROR_IO, errno, "cannot look at %s", path);
    FILE *list = fopen("/proc/self/mountinfo", "re");
    if (!list)
        return OK; /* a container may hide it */
    while (fgets(line, sizeof(line), list))
        take_line(line, whole, &longest, ret_facts);
    fclose(list);
    return OK;
}

bool mount_facts_has(const struct mount_facts *facts, const char *option)
{
    return find(facts, option) != NULL;
}

void mount_facts_value(const struct mount_facts *facts, const char *name, char *out, size_t bytes)
{
    const char *at = find(facts, name);
    size_t length = strlen(name);
    out[0] = '\0';
    if (at && at[length] == '=')
        snprintf(out, bytes, "%.*s", (int)strcspn(at + length + 1, ","), at + length + 1);
}

bool mount_facts_is_nfs(const struct mount_facts *facts)
{
    return strcmp(facts->type, "nfs") == 0 || strcmp(facts->type, "nfs4") == 0;
}
