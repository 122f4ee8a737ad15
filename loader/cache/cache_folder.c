/* SPDX-License-Identifier: MIT */
#include "loader/cache/cache_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"
#include "common/log.h"

#define ROWS ".rows"
#define LOCK ".lock"
#define BEING_MADE ".rows.tmp."
#define KEY_DIGITS (2 * CACHE_KEY_BYTES)
#define DISK_SHARE 20 /* one part in this many of the disk stays free */
#define ATTEMPTS 100

enum error cache_folder_init(struct cache_folder *folder, const char *path, uint64_t limit_bytes)
{
    *folder = (struct cache_folder){.limit_bytes = limit_bytes};
    enum error error = file_make_folders(path);
    if (error)
        return error;
    folder->path = file_real_path(path);
    return folder->path ? OK : ERROR_MEMORY;
}

enum error cache_folder_open(struct cache_folder *folder, const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return error_set_errno(errno == ENOENT ? ERROR_NOT_FOUND : ERROR_IO, errno,
                               "cannot look at the folder %s", path);
    if (!S_ISDIR(status.st_mode))
        return error_set(ERROR_INPUT, "%s is not a folder; give the one of --cache", path);
    *folder = (struct cache_folder){.path = file_real_path(path)};
    return folder->path ? OK : ERROR_MEMORY;
}

void cache_folder_release(struct cache_folder *folder)
{
    free(folder->path);
    folder->path = NULL;
}

static char *path_of(const struct cache_folder *folder, const char *name, const char *ending)
{
    size_t bytes = strlen(folder->path) + strlen(name) + strlen(ending) + 2;
    char *path = array_new(bytes, 1, "the name of a row cache");
    if (path)
        snprintf(path, bytes, "%s/%s%s", folder->path, name, ending);
    return path;
}

char *cache_folder_rows(const struct cache_folder *folder, const struct cache_key *key)
{
    char text[CACHE_KEY_TEXT_BYTES];
    return path_of(folder, cache_key_text(key, text), ROWS);
}

char *cache_folder_lock(const struct cache_folder *folder, const struct cache_key *key)
{
    char text[CACHE_KEY_TEXT_BYTES];
    return path_of(folder, cache_key_text(key, text), LOCK);
}

/* ---- locks -------------------------------------------------------------- */

/* Locks an open file at once if it still has its name; else *ret_gone, or ERROR_CONFLICT. */
static enum error lock(int descriptor, const char *path, bool *ret_gone)
{
    struct stat status;
    *ret_gone = false;
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? error_set(ERROR_CONFLICT, "%s is locked by another program", path)
                   : error_set_errno(ERROR_IO, errno, "cannot lock %s", path);
    *ret_gone = fstat(descriptor, &status) != 0 || status.st_nlink == 0;
    return OK;
}

/* Releasing a lock removes its file: a descriptor opened before may lock a deleted file. */
enum error cache_lock_take(const char *path, int *ret_descriptor)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        int descriptor = -1;
        bool is_gone = false;
        enum error error = file_open_own(path, O_RDWR | O_CREAT, &descriptor);
        if (error)
            return error;
        error = lock(descriptor, path, &is_gone);
        if (!error && !is_gone) {
            *ret_descriptor = descriptor;
            return OK;
        }
        close(descriptor);
        if (error)
            return error;
    }
    return error_set(ERROR_CONFLICT, "%s is locked by one program after another", path);
}

/* Unlocked before it is closed: a child of fork(2) may have the descriptor too. */
void cache_lock_put(const char *path, int descriptor)
{
    unlink(path);
    flock(descriptor, LOCK_UN);
    close(descriptor);
}

/* ---- listing ------------------------------------------------------------ */

struct listing {
    struct cache_entry *entries; /* owned; [count] */
    size_t count, capacity;
    uint64_t bytes; /* of the entries, and of caches being made */
};

/* What follows the key in a name; NULL: not one of ours. */
static const char *ending_of(const char *name)
{
    return strspn(name, "0123456789abcdef") == KEY_DIGITS ? name + KEY_DIGITS : NULL;
}

/* Only if nobody uses it; true: it was removed. */
static bool remove_unused(const char *path)
{
    int descriptor = -1;
    bool is_gone = false;
    if (file_open_own(path, O_RDWR, &descriptor))
        return false;
    if (!lock(descriptor, path, &is_gone) && !is_gone)
        is_gone = unlink(path) == 0;
    flock(descriptor, LOCK_UN);
    close(descriptor);
    return is_gone;
}

static bool is_in_use(const char *path)
{
    int descriptor = -1;
    if (file_open_own(path, O_RDONLY, &descriptor))
        return false;
    bool used = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    flock(descriptor, LOCK_UN);
    close(descriptor);
    return used;
}

static int64_t in_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

static enum error add_entry(struct listing *listing, const char *path, bool is_whole,
                            const struct stat *status)
{
    int64_t made = in_ns(&status->st_mtim), opened = in_ns(&status->st_atim);
    bool is_open = is_in_use(path);
    enum error error = array_grow((void **)&listing->entries, &listing->capacity,
                                  listing->count + 1, sizeof(*listing->entries), "row caches");
    char *copy = error ? NULL : strdup(path);
    if (!copy)
        return error ? error : error_set_memory(strlen(path), "the name of a row cache");
    listing->entries[listing->count++] =
        (struct cache_entry){.path = copy,
                             .name = strrchr(copy, '/') + 1,
                             .bytes = (uint64_t)status->st_size,
                             .made_ns = made,
                             .used_ns = opened > made ? opened : made,
                             .is_open = is_open,
                             .state = is_whole  ? CACHE_WHOLE
                                      : is_open ? CACHE_BEING_MADE
                                                : CACHE_LEFT};
    return OK;
}

/* `clear`: remove leftovers of killed programs. */
static enum error add_name(struct listing *listing, const struct cache_folder *folder,
                           const char *name, bool clear)
{
    struct stat status;
    const char *ending = ending_of(name);
    char *path = ending ? path_of(folder, name, "") : NULL;
    if (!path)
        return ending ? ERROR_MEMORY : OK;
    enum error error = OK;
    bool is_lock = strcmp(ending, LOCK) == 0, is_whole = strcmp(ending, ROWS) == 0;
    bool is_being_made = strncmp(ending, BEING_MADE, strlen(BEING_MADE)) == 0;
    if ((is_lock || is_being_made) && clear && remove_unused(path)) {
        log_debug("removed %s, which a killed program left", path);
    } else if (lstat(path, &status) == 0 && S_ISREG(status.st_mode)) {
        listing->bytes += (uint64_t)status.st_size;
        if (is_whole || is_being_made)
            error = add_entry(listing, path, is_whole, &status);
    }
    free(path);
    return error;
}

static int compare(const void *a, const void *b)
{
    const struct cache_entry *one = a, *other = b;
    return (one->used_ns < other->used_ns) - (one->used_ns > other->used_ns);
}

static enum error look(const struct cache_folder *folder, bool clear, struct listing *listing)
{
    enum error error = OK;
    *listing = (struct listing){.entries = NULL};
    DIR *names = opendir(folder->path);
    if (!names)
        return error_set_errno(ERROR_IO, errno, "cannot read the folder %s", folder->path);
    for (struct dirent *name; !error && (name = readdir(names));)
        error = add_name(listing, folder, name->d_name, clear);
    closedir(names);
    if (listing->count > 0)
        qsort(listing->entries, listing->count, sizeof(*listing->entries), compare);
    return error;
}

void cache_entries_free(struct cache_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(entries[i].path);
    free(entries);
}

enum error cache_folder_list(const struct cache_folder *folder, struct cache_entry **ret_entries,
                             size_t *ret_count)
{
    struct listing listing;
    enum error error = look(folder, false, &listing);
    if (error) {
        cache_entries_free(listing.entries, listing.count);
        return error;
    }
    *ret_entries = listing.entries;
    *ret_count = listing.count;
    return OK;
}

/* ---- room --------------------------------------------------------------- */

/* Without a limit the disk is the limit; if its free space is unknown, a write will report a full
 * disk. */
static bool has_room(const struct cache_folder *folder, uint64_t used, uint64_t bytes)
{
    struct statvfs disk;
    if (folder->limit_bytes > 0)
        return used <= folder->limit_bytes && bytes <= folder->limit_bytes - used;
    if (statvfs(folder->path, &disk) != 0)
        return true;
    uint64_t left = (uint64_t)disk.f_bavail * disk.f_frsize;
    uint64_t kept = (uint64_t)disk.f_blocks * disk.f_frsize / DISK_SHARE;
    return left >= kept && bytes <= left - kept;
}

static enum error refuse(const struct cache_folder *folder, uint64_t used, uint64_t bytes)
{
    if (folder->limit_bytes > 0)
        return error_set(ERROR_NO_SPACE,
                         "%s may hold %" PRIu64 " bytes (--cache-limit), of which %" PRIu64
                         " are in use; %" PRIu64 " more are needed",
                         folder->path, folder->limit_bytes, used, bytes);
    return error_set(ERROR_NO_SPACE,
                     "the disk of %s has no room for another %" PRIu64
                     " bytes that would leave a twentieth of it free",
                     folder->path, bytes);
}

/* Removes caches that nobody has open until there is room; *ret_bytes: size of the others. */
static enum error remove_until(const struct cache_folder *folder, uint64_t bytes,
                               uint64_t *ret_bytes)
{
    struct listing listing;
    enum error error = look(folder, true, &listing);
    for (size_t i = listing.count; i-- > 0 && !error;) {
        const struct cache_entry *entry = &listing.entries[i];
        if (has_room(folder, listing.bytes, bytes))
            break;
        if (entry->state == CACHE_WHOLE && !entry->is_open && remove_unused(entry->path)) {
            log_info("removed %s, %" PRIu64 " bytes, to make room for other rows", entry->path,
                     entry->bytes);
            listing.bytes -= entry->bytes;
        }
    }
    *ret_bytes = listing.bytes;
    cache_entries_free(listing.entries, listing.count);
    return error;
}

enum error cache_folder_make_room(const struct cache_folder *folder, uint64_t bytes)
{
    uint64_t used = 0;
    enum error error = remove_until(folder, bytes, &used);
    return error || has_room(folder, used, bytes) ? error : refuse(folder, used, bytes);
}

enum error cache_folder_prune(const struct cache_folder *folder, uint64_t bytes)
{
    const struct cache_folder limited = {.path = folder->path, .limit_bytes = bytes};
    uint64_t used = 0;
    enum error error = remove_until(&limited, 0, &used);
    if (!error && used > bytes)
        error = error_set(ERROR_NO_SPACE,
                          "%s still holds %" PRIu64 " bytes, not %" PRIu64
                          ": files that programs have open or are making are not removed",
                          folder->path, used, bytes);
    return error;
}

enum error cache_entry_remove(const struct cache_entry *entry)
{
    if (remove_unused(entry->path))
        return OK;
    if (access(entry->path, F_OK) != 0)
        return OK; /* another program did */
    return is_in_use(entry->path)
               ? error_set(ERROR_CONFLICT, "%s is in use by a program that runs", entry->path)
               : error_set(ERROR_IO, "%s cannot be removed; its owner can", entry->path);
}
