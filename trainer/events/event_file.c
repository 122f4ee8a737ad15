/* SPDX-License-Identifier: MIT */
#include "trainer/events/event_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "common/text.h"

#define PREFIX "events.out.tfevents."
#define SECONDS_LIMIT INT64_C(9999999998) /* ten digits, and one more second */
#define NAMES_LIMIT 1000                  /* starts with the same process number in one second */
#define FLAGS (O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC)

/* `length`: the result of printing its path. */
static enum error open_path(struct event_file *file, int length, int flags)
{
    file->length = 0;
    file->is_failing = file->has_fragment = false;
    if (length < 0 || (size_t)length >= sizeof(file->path))
        errno = ENAMETOOLONG;
    else
        file->descriptor = open(file->path, flags, 0666);
    if (file->descriptor >= 0)
        return OK;
    int number = errno;
    enum error error = error_set_errno(ERROR_IO, number, "%s", file->path);
    errno = number; /* for the caller */
    return error;
}

/* This host's name, without characters that a file name must not have. */
static void name_host(char *out, size_t bytes)
{
    if (gethostname(out, bytes) != 0)
        snprintf(out, bytes, "localhost");
    out[bytes - 1] = '\0';
    for (char *letter = out; *letter; letter++) {
        if (*letter == '/')
            *letter = '_';
    }
}

/* TensorBoard reads files in the order of their names, and the start in a later file discards the
 * steps that follow it. An earlier start may have had a clock that is ahead of this one's. */
static int64_t seconds_after_others(const char *folder)
{
    int64_t after = (int64_t)clock_wall_seconds(), seconds;
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        const char *digits = entry->d_name + strlen(PREFIX);
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            text_parse_integer(digits, strcspn(digits, "."), after, SECONDS_LIMIT, &seconds))
            after = seconds + 1;
    }
    if (entries)
        closedir(entries);
    return after;
}

enum error event_file_create(struct event_file *file, const char *folder)
{
    char host[128], suffix[16] = "";
    int64_t seconds = seconds_after_others(folder);
    enum error error = OK;
    name_host(host, sizeof(host));
    file->descriptor = -1;
    for (int number = 1; number <= NAMES_LIMIT; number++) {
        int length = snprintf(file->path, sizeof(file->path), "%s/" PREFIX "%010" PRId64 ".%s.%d%s",
                              folder, seconds, host, (int)getpid(), suffix);
        error = open_path(file, length, FLAGS | O_EXCL);
        if (!error || errno != EEXIST)
            break;
        snprintf(suffix, sizeof(suffix), ".%d", number);
    }
    return error;
}

/* A previous start may have been killed in the middle of a line. */
static enum error end_last_line(struct event_file *file)
{
    char last = '\n';
    struct stat status;
    if (fstat(file->descriptor, &status) != 0)
        return error_set_errno(ERROR_IO, errno, "%s", file->path);
    file->length = status.st_size;
    if (file->length == 0 ||
        (pread(file->descriptor, &last, 1, file->length - 1) == 1 && last == '\n'))
        return OK;
    if (write(file->descriptor, "\n", 1) != 1)
        return error_set_errno(ERROR_IO, errno, "%s", file->path);
    file->length++;
    return OK;
}

enum error event_file_append(struct event_file *file, const char *folder)
{
    file->descriptor = -1;
    int length = snprintf(file->path, sizeof(file->path), "%s/events.jsonl", folder);
    enum error error = open_path(file, length, FLAGS);
    if (!error)
        error = end_last_line(file);
    if (error)
        event_file_close(file);
    return error;
}

/* ESTALE: by another client of NFS. */
bool event_file_is_removed(const struct event_file *file)
{
    struct stat status;
    if (file->descriptor < 0)
        return false;
    return fstat(file->descriptor, &status) == 0 ? status.st_nlink == 0 : errno == ESTALE;
}

void event_file_close(struct event_file *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor);
    file->descriptor = -1;
}

/* On an almost full disk small writes succeed while large ones fail, alternately: one line per
 * minute gives the number of failures. */
static void report(struct event_file *file, bool failed, int number)
{
    int64_t now_ns = clock_now_ns();
    bool is_news = failed || file->is_failing || file->failures > 0;
    file->failures += failed;
    if (!is_news || now_ns < file->quiet_until_ns)
        return;
    char sum[80] = "";
    if (file->failures > (failed ? 1 : 0))
        snprintf(sum, sizeof(sum), " (%" PRId64 " %s failed since the last such line)",
                 file->failures, text_plural(file->failures, "write", "writes"));
    if (failed) {
        (void)error_set_errno(ERROR_IO, number, "%s", file->path);
        log_warning("%s; events are left out until it can be written again%s", error_message(),
                    sum);
    } else {
        log_info("%s is written again%s", file->path, sum);
    }
    file->is_failing = failed;
    file->failures = 0;
    file->quiet_until_ns = now_ns + LOG_LIMIT_SECONDS * INT64_C(1000000000);
}

/* Removes what is behind the complete part; until that works, nothing is added behind it. */
static bool cut_off(struct event_file *file)
{
    file->has_fragment = ftruncate(file->descriptor, file->length) != 0;
    return !file->has_fragment;
}

bool event_file_write(struct event_file *file, const struct buffer *bytes)
{
    size_t done = 0;
    errno = 0;
    bool ends_whole = bytes->length == 0 || !file->has_fragment || cut_off(file);
    while (ends_whole && done < bytes->length) {
        ssize_t put = write(file->descriptor, bytes->data + done, bytes->length - done);
        if (put <= 0 && errno != EINTR)
            break;
        done += put > 0 ? (size_t)put : 0;
    }
    bool failed = done < bytes->length;
    int number = errno;
    if (failed && ends_whole && !cut_off(file) && done > 0)
        log_warning("%s: cannot cut off half an event yet", file->path);
    file->length += failed ? 0 : (off_t)done;
    if (bytes->length > 0)
        report(file, failed, number);
    return !failed;
}
