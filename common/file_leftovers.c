/* What writers that were killed left behind: PATH.tmp.<pid>.<n> that nobody holds a lock on. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"
#include "common/log.h"

/* "<pid>.<n>", and nothing else. */
static bool is_number_pair(const char *text)
{
    size_t first = strspn(text, "0123456789");
    if (first == 0 || text[first] != '.')
        return false;
    size_t second = strspn(text + first + 1, "0123456789");
    return second > 0 && text[first + 1 + second] == '\0';
}

/* A living writer has locked it from its first moment on. */
static void remove_if_left(int folder, const char *name, const char *path)
{
    int descriptor = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0)
        return;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && unlinkat(folder, name, 0) == 0)
        log_warning("removed %s, which a killed program left while it wrote %s", name, path);
    close(descriptor);
}

enum error file_remove_leftovers(const char *path)
{
    char *folder = strdup(path);
    if (!folder)
        return error_set_memory(strlen(path), "a folder's name");
    char *slash = strrchr(folder, '/');
    const char *base = slash ? path + (slash - folder) + 1 : path;
    size_t length = strlen(base);
    if (slash)
        slash[slash == folder] = '\0';
    DIR *entries = opendir(slash ? folder : ".");
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (strncmp(entry->d_name, base, length) == 0 &&
            strncmp(entry->d_name + length, ".tmp.", 5) == 0 &&
            is_number_pair(entry->d_name + length + 5))
            remove_if_left(dirfd(entries), entry->d_name, path);
    }
    if (entries)
        closedir(entries);
    free(folder);
    return OK;
}
