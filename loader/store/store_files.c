/* SPDX-License-Identifier: MIT */
#include "loader/store/store_files.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/file.h"

void store_files_release(struct store_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->paths[i]);
    free(files->paths);
    *files = (struct store_files){.paths = NULL};
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct store_files *files)
{
    if (files->count > 0)
        qsort(files->paths, files->count, sizeof(*files->paths), compare);
}

bool store_path_ends_in(const char *path, const char *endings)
{
    size_t length = strlen(path);
    while (*endings) {
        size_t ending = strcspn(endings, "|");
        if (length > ending && strncasecmp(path + length - ending, endings, ending) == 0)
            return true;
        endings += ending + (endings[ending] == '|');
    }
    return false;
}

/* Takes `path` over. */
static enum error add(struct store_files *files, size_t *capacity, char *path)
{
    enum error error = path ? array_grow((void **)&files->paths, capacity, files->count + 1,
                                         sizeof(*files->paths), "a list of files")
                            : error_set_memory(PATH_MAX, "a file's name");
    if (error)
        free(path);
    else
        files->paths[files->count++] = path;
    return error;
}

/* The next entry; NULL: *ret_failed is 0 at the end, else why the rest is unknown. */
static struct dirent *next_entry(DIR *entries, int *ret_failed)
{
    errno = 0;
    struct dirent *entry = readdir(entries);
    *ret_failed = entry ? 0 : errno;
    return entry;
}

static enum error list_folder(struct store_files *files, const char *folder, const char *endings)
{
    size_t capacity = 0;
    enum error error = OK;
    DIR *entries = opendir(folder);
    if (!entries)
        return file_as_input(error_set_errno(ERROR_IO, errno, "cannot read the folder %s", folder),
                             folder);
    int failed = 0;
    for (struct dirent *entry; !error && (entry = next_entry(entries, &failed));) {
        char *path;
        if (entry->d_name[0] == '.' || !store_path_ends_in(entry->d_name, endings))
            continue;
        if (asprintf(&path, "%s/%s", folder, entry->d_name) < 0)
            path = NULL;
        error = add(files, &capacity, path);
    }
    closedir(entries);
    if (!error && failed)
        error = error_set_errno(ERROR_IO, failed, "cannot read the folder %s", folder);
    if (!error && files->count == 0)
        error = error_set(ERROR_INPUT, "%s is a folder without files whose names end in %s", folder,
                          endings);
    return error;
}

/* glob() takes a folder that fails in the middle for one that ends there. */
static _Thread_local int glob_failed;

static void *open_for_glob(const char *path)
{
    return opendir(path);
}

static struct dirent *read_for_glob(void *entries)
{
    int failed = 0;
    struct dirent *entry = next_entry(entries, &failed);
    glob_failed = failed ? failed : glob_failed;
    return entry;
}

static void close_for_glob(void *entries)
{
    closedir(entries);
}

static enum error list_matches(struct store_files *files, const char *pattern)
{
    glob_t matches = {.gl_opendir = open_for_glob,
                      .gl_readdir = read_for_glob,
                      .gl_closedir = close_for_glob,
                      .gl_lstat = lstat,
                      .gl_stat = stat};
    size_t capacity = 0;
    glob_failed = 0;
    int failed = glob(pattern, GLOB_NOSORT | GLOB_ERR | GLOB_ALTDIRFUNC, NULL, &matches);
    enum error error = OK;
    if (glob_failed)
        error = error_set_errno(ERROR_IO, glob_failed, "cannot look for %s", pattern);
    else if (failed == GLOB_NOMATCH)
        error = error_set(ERROR_NOT_FOUND, "%s: no file has such a name", pattern);
    else if (failed == GLOB_NOSPACE)
        error = error_set_memory(strlen(pattern), "a list of files");
    else if (failed)
        error = error_set_errno(ERROR_IO, errno, "cannot look for %s", pattern);
    for (size_t i = 0; i < matches.gl_pathc && !error; i++)
        error = add(files, &capacity, strdup(matches.gl_pathv[i]));
    globfree(&matches);
    return error;
}

/* gzip -k and zstd leave the packed file next to the original. */
static enum error refuse_packed_twin(const struct store_files *files, const char *path)
{
    static const char *const endings[] = {".gz", ".zst"};
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        char *twin = NULL;
        if (asprintf(&twin, "%s%s", path, endings[i]) < 0)
            return error_set_memory(strlen(path), "a file's name");
        bool both =
            bsearch(&twin, files->paths, files->count, sizeof(*files->paths), compare) != NULL;
        free(twin);
        if (both)
            return error_set(ERROR_INPUT,
                             "%s and %s%s would be the same rows twice; leave one of them there",
                             path, path, endings[i]);
    }
    return OK;
}

enum error store_files_find(struct store_files *files, const char *path, const char *endings)
{
    struct stat status;
    enum error error = OK;
    *files = (struct store_files){.paths = NULL};
    bool is_there = stat(path, &status) == 0;
    if (is_there && S_ISDIR(status.st_mode))
        error = list_folder(files, path, endings);
    else if (!is_there && strpbrk(path, "*?["))
        error = list_matches(files, path);
    if (!error)
        sort(files);
    for (size_t i = 0; i < files->count && !error; i++)
        error = refuse_packed_twin(files, files->paths[i]);
    if (error)
        store_files_release(files);
    return error;
}
