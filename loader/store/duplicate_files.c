/* SPDX-License-Identifier: MIT */
#include "loader/store/duplicate_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"

struct listed_file {
    dev_t device;
    ino_t inode;
    char *path, *parameters; /* owned */
};

static enum error refuse(const char *before, const char *now)
{
    if (strcmp(before, now) == 0)
        return error_set(ERROR_INPUT, "the file %s is given twice", now);
    return error_set(ERROR_INPUT, "%s and %s are the same file; list it once", before, now);
}

enum error duplicate_files_add(struct duplicate_files *files, const char *path,
                               const char *parameters)
{
    struct stat status;
    if (stat(path, &status))
        return OK;
    for (size_t i = 0; i < files->count; i++) {
        const struct listed_file *file = &files->items[i];
        if (file->device == status.st_dev && file->inode == status.st_ino &&
            strcmp(file->parameters, parameters) == 0)
            return refuse(file->path, path);
    }
    enum error error = array_grow((void **)&files->items, &files->capacity, files->count + 1,
                                  sizeof(*files->items), "a list of files");
    if (error)
        return error;
    struct listed_file file = {.device = status.st_dev,
                               .inode = status.st_ino,
                               .path = strdup(path),
                               .parameters = strdup(parameters)};
    files->items[files->count++] = file;
    return file.path && file.parameters ? OK : error_set_memory(strlen(path), "a file's name");
}

void duplicate_files_release(struct duplicate_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->items[i].path);
        free(files->items[i].parameters);
    }
    free(files->items);
    *files = (struct duplicate_files){.items = NULL};
}
