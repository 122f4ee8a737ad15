/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a program (LD_PRELOAD), logs what it does to the files below one folder: every
 * change with its data, every sync, and what it says to others meanwhile, in the order in which it
 * happened over all threads. power_disk.py replays the log.
 *
 *     RECORDER_FOLDER  the folder, as realpath(3) names it
 *     RECORDER_LOG     the log; appended to, so that several runs make one log
 *     RECORDER_KILL    kill -9 before the change of this number, from 0 (unset: never)
 *     RECORDER_SYNC_US what a sync takes (unset: 200): others append meanwhile
 *
 * One lock is held over a call and its record, so the log has the order that the kernel had. A sync
 * is two records, and the disk is not asked: what it would do then is the replay's business. Stores
 * into a shared mapping are found by comparing it with a copy, before every other record. Files are
 * inode numbers; which file a number means is the replay's business, too.
 *
 * Not seen: what the C library does by itself (stdio, mkostemp). The tests compare the folder at
 * the end with what the log says.
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ALSO(name) __attribute__((alias(#name)))
#define SECTOR_BYTES 512
#define STACK_FRAMES 8
#define MAPPINGS 64

/* A record: this, `text_bytes` of paths with a zero behind each, `data_bytes`. */
enum kind {
    CREATE = 1, /* file; text: path */
    FOLDER,     /* file; text: path */
    WRITE,      /* file, offset; data */
    SIZE,       /* file, offset: its size now; number: what was there behind that is gone */
    RENAME,     /* text: from, to */
    LINK,       /* text: from, to */
    UNLINK,     /* text: path */
    SYNC_BEGIN, /* file, number: of this sync; data: where in the program, addresses */
    SYNC_END,   /* file, number */
    SENT,       /* number: the other end's port; data */
    SAID,       /* number: the descriptor; data */
    HINT,       /* file: a sync that promises nothing, as sync_file_range() */
    ENDED,      /* the program came to its end */
};

struct record {
    uint32_t kind;
    uint32_t text_bytes;
    uint64_t file;
    uint64_t offset;
    uint64_t number;
    uint64_t data_bytes;
};

struct mapping {
    uint8_t *at; /* NULL: free */
    size_t bytes;
    uint64_t file;
    uint8_t *copy; /* what the log knows of it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping mappings[MAPPINGS];
static char folder[PATH_MAX];
static size_t folder_bytes;
static int log_descriptor = -1;
static long kill_at = -1;
static long sync_us = 200;
static long changes;
static uint64_t syncs;
static uintptr_t program_base;

static int find_program(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    program_base = info->dlpi_addr;
    return 1; /* the first is the program */
}

__attribute__((constructor)) static void begin(void)
{
    const char *given = getenv("RECORDER_FOLDER");
    const char *path = getenv("RECORDER_LOG");
    void *first[1];
    if (!given || !path)
        return;
    (void)backtrace(first, 1); /* loads what it needs now */
    (void)dl_iterate_phdr(find_program, NULL);
    if (getenv("RECORDER_KILL"))
        kill_at = atol(getenv("RECORDER_KILL"));
    if (getenv("RECORDER_SYNC_US"))
        sync_us = atol(getenv("RECORDER_SYNC_US"));
    folder_bytes = (size_t)snprintf(folder, sizeof(folder), "%s/", given);
    log_descriptor =
        (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

/* ---- which files -------------------------------------------------------- */

/* The path as the kernel knows it now, below the folder; false: elsewhere. */
static bool is_ours(int descriptor, char path[PATH_MAX])
{
    char link[64];
    if (log_descriptor < 0)
        return false;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 2);
    if (length < 0)
        return false;
    path[length] = '\0';
    if ((size_t)length == folder_bytes - 1)
        strcat(path, "/"); /* the folder itself */
    return strncmp(path, folder, folder_bytes) == 0;
}

/* Where a name given to the kernel leads: its folder resolved, its last part as it is. */
static bool resolve(int at, const char *name, char path[PATH_MAX])
{
    char real[PATH_MAX];
    const char *slash = strrchr(name, '/');
    char *above = slash ? strndup(name, slash == name ? 1 : (size_t)(slash - name)) : strdup(".");
    int descriptor = log_descriptor < 0
                         ? -1
                         : (int)syscall(SYS_openat, at, above, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    free(above);
    bool ours = descriptor >= 0 && is_ours(descriptor, real);
    if (descriptor >= 0)
        syscall(SYS_close, descriptor);
    if (!ours)
        return false;
    size_t length = strlen(real);
    snprintf(path, PATH_MAX, "%.*s/%s", (int)(real[length - 1] == '/' ? length - 1 : length), real,
             slash ? slash + 1 : name);
    return true;
}

static bool stat_of(int descriptor, struct stat *status)
{
    int before = errno;
    bool done = fstat(descriptor, status) == 0;
    errno = before;
    return done;
}

/* ---- the log: the lock is held ------------------------------------------ */

static void put(const struct record *record, const char *text, const void *data)
{
    const struct iovec parts[] = {{(void *)record, sizeof(*record)},
                                  {(void *)text, record->text_bytes},
                                  {(void *)data, record->data_bytes}};
    size_t wanted = sizeof(*record) + record->text_bytes + record->data_bytes;
    if (syscall(SYS_writev, log_descriptor, parts, 3) != (long)wanted)
        abort(); /* a log with holes would be believed */
}

/* What was stored into mappings since the last record. */
static void put_stores(void)
{
    for (struct mapping *map = mappings; map < mappings + MAPPINGS; map++) {
        for (size_t at = 0; map->at && at < map->bytes; at += SECTOR_BYTES) {
            size_t bytes = map->bytes - at < SECTOR_BYTES ? map->bytes - at : SECTOR_BYTES;
            if (memcmp(map->at + at, map->copy + at, bytes) == 0)
                continue;
            memcpy(map->copy + at, map->at + at, bytes);
            put(
                &(struct record){
                    .kind = WRITE, .file = map->file, .offset = at, .data_bytes = bytes},
                NULL, map->copy + at);
        }
    }
}

/* Takes the lock, for something that changes files: the moment to be killed in. */
static void enter_change(void)
{
    pthread_mutex_lock(&lock);
    put_stores();
    if (changes++ == kill_at) {
        raise(SIGKILL);
        for (;;)
            pause();
    }
}

static void enter(void)
{
    pthread_mutex_lock(&lock);
    put_stores();
}

static long leave(long result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

static void put_paths(enum kind kind, uint64_t file, const char *from, const char *to)
{
    char text[2 * PATH_MAX];
    size_t bytes = (size_t)snprintf(text, PATH_MAX, "%s", from) + 1;
    if (to)
        bytes += (size_t)snprintf(text + bytes, PATH_MAX, "%s", to) + 1;
    put(&(struct record){.kind = kind, .file = file, .text_bytes = (uint32_t)bytes}, text, NULL);
}

/* What a call has just written, read back: through any vector, from any source. */
static void put_written(int descriptor, uint64_t file, uint64_t offset, size_t bytes)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
    int reader = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
    uint8_t *data = malloc(bytes);
    if (reader < 0 || !data || syscall(SYS_pread64, reader, data, bytes, offset) != (long)bytes)
        abort();
    put(&(struct record){.kind = WRITE, .file = file, .offset = offset, .data_bytes = bytes}, NULL,
        data);
    free(data);
    syscall(SYS_close, reader);
}

static void put_size(int descriptor, uint64_t number)
{
    struct stat status;
    if (stat_of(descriptor, &status))
        put(&(struct record){.kind = SIZE,
                             .file = status.st_ino,
                             .offset = (uint64_t)status.st_size,
                             .number = number},
            NULL, NULL);
}

/* ---- syncs -------------------------------------------------------------- */

static uint64_t begin_sync(uint64_t file)
{
    void *stack[STACK_FRAMES + 2];
    uint64_t places[STACK_FRAMES] = {0};
    int count = backtrace(stack, STACK_FRAMES + 2);
    for (int i = 2; i < count; i++)
        places[i - 2] = (uint64_t)stack[i] - program_base - 1;
    enter_change();
    uint64_t number = syncs++;
    put(
        &(struct record){
            .kind = SYNC_BEGIN, .file = file, .number = number, .data_bytes = sizeof(places)},
        NULL, places);
    leave(0);
    return number;
}

static void end_sync(uint64_t file, uint64_t number)
{
    enter();
    put(&(struct record){.kind = SYNC_END, .file = file, .number = number}, NULL, NULL);
    leave(0);
}

/* False: not a file of ours, and the kernel is to do it. */
static __attribute__((noinline)) bool sync_file(int descriptor)
{
    char path[PATH_MAX];
    struct stat status;
    if (!is_ours(descriptor, path) || !stat_of(descriptor, &status))
        return false;
    uint64_t number = begin_sync(status.st_ino);
    syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = sync_us * 1000}, NULL);
    end_sync(status.st_ino, number);
    return true;
}

int fsync(int descriptor)
{
    return sync_file(descriptor) ? 0 : (int)syscall(SYS_fsync, descriptor);
}

int fdatasync(int descriptor)
{
    return sync_file(descriptor) ? 0 : (int)syscall(SYS_fdatasync, descriptor);
}

/* It starts the disk, and waits for it; what the file's size is, and where its blocks are, stays in
 * memory (sync_file_range(2)). */
int sync_file_range(int descriptor, off_t offset, off_t bytes, unsigned flags)
{
    char path[PATH_MAX];
    struct stat status;
    if (!is_ours(descriptor, path) || !stat_of(descriptor, &status))
        return (int)syscall(SYS_sync_file_range, descriptor, offset, bytes, flags);
    enter();
    put(&(struct record){.kind = HINT, .file = status.st_ino}, NULL, NULL);
    return (int)leave(0);
}

int msync(void *at, size_t bytes, int flags)
{
    uint64_t file = 0;
    pthread_mutex_lock(&lock);
    for (struct mapping *map = mappings; map < mappings + MAPPINGS; map++) {
        if (map->at && map->at <= (uint8_t *)at && (uint8_t *)at < map->at + map->bytes)
            file = map->file;
    }
    pthread_mutex_unlock(&lock);
    if (file && (flags & MS_SYNC))
        end_sync(file, begin_sync(file));
    return (int)syscall(SYS_msync, at, bytes, flags);
}

/* ---- opening ------------------------------------------------------------ */

static int open_and_log(int at, const char *name, int flags, unsigned mode)
{
    char path[PATH_MAX];
    struct stat before;
    struct stat after;
    bool changes_files = (flags & (O_CREAT | O_TRUNC)) && (flags & O_TMPFILE) != O_TMPFILE;
    if (!changes_files || !resolve(at, name, path))
        return (int)syscall(SYS_openat, at, name, flags, mode);
    enter_change();
    bool there = fstatat(at, name, &before, 0) == 0;
    int descriptor = (int)syscall(SYS_openat, at, name, flags, mode);
    if (descriptor >= 0 && !there && stat_of(descriptor, &after))
        put_paths(CREATE, after.st_ino, path, NULL);
    else if (descriptor >= 0 && (flags & O_TRUNC) && before.st_size > 0)
        put_size(descriptor, (uint64_t)before.st_size);
    return (int)leave(descriptor);
}

static unsigned mode_of(int flags, va_list arguments)
{
    bool given = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    return given ? va_arg(arguments, unsigned) : 0;
}

int open(const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_and_log(AT_FDCWD, name, flags, mode);
}

int openat(int at, const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_and_log(at, name, flags, mode);
}

int creat(const char *name, mode_t mode)
{
    return open_and_log(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* What -D_FORTIFY_SOURCE calls where no mode is given. */
int __open_2(const char *name, int flags);
int __open_2(const char *name, int flags)
{
    return open_and_log(AT_FDCWD, name, flags, 0);
}

int __openat_2(int at, const char *name, int flags);
int __openat_2(int at, const char *name, int flags)
{
    return open_and_log(at, name, flags, 0);
}

/* ---- writing ------------------------------------------------------------ */

static bool is_synchronous(int descriptor, int flags)
{
    return (fcntl(descriptor, F_GETFL) & O_DSYNC) || (flags & (RWF_DSYNC | RWF_SYNC));
}

/* `call` with its arguments, on a file of ours; `offset` -1: where the descriptor stands. */
static ssize_t write_and_log(int descriptor, off_t offset, int flags, long call, const void *from,
                             size_t count)
{
    struct stat status;
    bool synchronous = is_synchronous(descriptor, flags);
    if (!stat_of(descriptor, &status))
        return -1;
    enter_change();
    ssize_t done = call == SYS_pwrite64 || call == SYS_write
                       ? syscall(call, descriptor, from, count, offset)
                       : syscall(call, descriptor, from, count, offset, 0, flags);
    int failed = errno;
    if (done > 0) {
        uint64_t end = (uint64_t)offset + (uint64_t)done;
        if (offset < 0)
            end = (uint64_t)syscall(SYS_lseek, descriptor, 0, SEEK_CUR);
        put_written(descriptor, status.st_ino, end - (uint64_t)done, (size_t)done);
    }
    leave(0);
    if (synchronous && done > 0)
        end_sync(status.st_ino, begin_sync(status.st_ino));
    errno = failed;
    return done;
}

/* To a person or a log: standard output and error. */
static ssize_t say(int descriptor, const void *bytes, size_t length)
{
    enter();
    ssize_t done = syscall(SYS_write, descriptor, bytes, length);
    int failed = errno;
    if (done > 0)
        put(&(struct record){.kind = SAID,
                             .number = (uint64_t)descriptor,
                             .data_bytes = (uint64_t)done},
            NULL, bytes);
    leave(0);
    errno = failed;
    return done;
}

ssize_t write(int descriptor, const void *bytes, size_t length)
{
    char path[PATH_MAX];
    if (is_ours(descriptor, path))
        return write_and_log(descriptor, -1, 0, SYS_write, bytes, length);
    if (log_descriptor >= 0 && (descriptor == STDOUT_FILENO || descriptor == STDERR_FILENO))
        return say(descriptor, bytes, length);
    return syscall(SYS_write, descriptor, bytes, length);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t offset)
{
    char path[PATH_MAX];
    return is_ours(descriptor, path)
               ? write_and_log(descriptor, offset, 0, SYS_pwrite64, bytes, length)
               : syscall(SYS_pwrite64, descriptor, bytes, length, offset);
}

static uint16_t port_of(int descriptor)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    if (getpeername(descriptor, (struct sockaddr *)&peer, &bytes) || peer.ss_family != AF_INET)
        return 0;
    return ntohs(((struct sockaddr_in *)&peer)->sin_port);
}

static ssize_t send_and_log(int descriptor, const struct msghdr *message, int flags)
{
    int before = errno;
    uint16_t port = log_descriptor >= 0 ? port_of(descriptor) : 0;
    errno = before;
    if (!port)
        return syscall(SYS_sendmsg, descriptor, message, flags);
    enter();
    ssize_t done = syscall(SYS_sendmsg, descriptor, message, flags);
    int failed = errno;
    size_t left = done > 0 ? (size_t)done : 0;
    for (size_t i = 0; left > 0; i++) {
        const struct iovec *part = &message->msg_iov[i];
        size_t bytes = part->iov_len < left ? part->iov_len : left;
        put(&(struct record){.kind = SENT, .number = port, .data_bytes = bytes}, NULL,
            part->iov_base);
        left -= bytes;
    }
    leave(0);
    errno = failed;
    return done;
}

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    return send_and_log(descriptor, message, flags);
}

ssize_t send(int descriptor, const void *bytes, size_t length, int flags)
{
    struct iovec part = {(void *)bytes, length};
    return send_and_log(descriptor, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, flags);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    char path[PATH_MAX];
    if (is_ours(descriptor, path))
        return write_and_log(descriptor, -1, 0, SYS_pwritev2, parts, (size_t)count);
    if (log_descriptor >= 0 && port_of(descriptor)) {
        struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
        return send_and_log(descriptor, &message, MSG_NOSIGNAL);
    }
    return syscall(SYS_writev, descriptor, parts, count);
}

ssize_t pwritev2(int descriptor, const struct iovec *parts, int count, off_t offset, int flags)
{
    char path[PATH_MAX];
    return is_ours(descriptor, path)
               ? write_and_log(descriptor, offset, flags, SYS_pwritev2, parts, (size_t)count)
               : syscall(SYS_pwritev2, descriptor, parts, count, offset, 0, flags);
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset)
{
    return pwritev2(descriptor, parts, count, offset, 0);
}

ssize_t copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset, size_t length,
                        unsigned flags)
{
    char path[PATH_MAX];
    struct stat status;
    if (!is_ours(to, path) || !stat_of(to, &status))
        return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, length, flags);
    enter_change();
    ssize_t done = syscall(SYS_copy_file_range, from, from_offset, to, to_offset, length, flags);
    int failed = errno;
    if (done > 0) {
        off_t end = to_offset ? *to_offset : (off_t)syscall(SYS_lseek, to, 0, SEEK_CUR);
        put_written(to, status.st_ino, (uint64_t)(end - done), (size_t)done);
    }
    leave(0);
    errno = failed;
    return done;
}

/* ---- sizes -------------------------------------------------------------- */

int ftruncate(int descriptor, off_t bytes)
{
    char path[PATH_MAX];
    struct stat before;
    if (!is_ours(descriptor, path) || !stat_of(descriptor, &before))
        return (int)syscall(SYS_ftruncate, descriptor, bytes);
    enter_change();
    long failed = syscall(SYS_ftruncate, descriptor, bytes);
    if (!failed)
        put_size(descriptor, bytes < before.st_size ? (uint64_t)before.st_size : 0);
    return (int)leave(failed);
}

int truncate(const char *name, off_t bytes)
{
    int descriptor = open(name, O_WRONLY | O_CLOEXEC);
    int failed = descriptor < 0 ? -1 : ftruncate(descriptor, bytes);
    if (descriptor >= 0)
        close(descriptor);
    return failed;
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes)
{
    char path[PATH_MAX];
    if (!is_ours(descriptor, path))
        return (int)syscall(SYS_fallocate, descriptor, mode, offset, bytes);
    if (mode & ~FALLOC_FL_KEEP_SIZE) { /* holes are punched by nobody yet */
        errno = EOPNOTSUPP;
        return -1;
    }
    enter_change();
    long failed = syscall(SYS_fallocate, descriptor, mode, offset, bytes);
    if (!failed)
        put_size(descriptor, 0);
    return (int)leave(failed);
}

int posix_fallocate(int descriptor, off_t offset, off_t bytes)
{
    int before = errno;
    int failed = fallocate(descriptor, 0, offset, bytes) ? errno : 0;
    errno = before;
    return failed;
}

/* ---- mappings ----------------------------------------------------------- */

static void add_mapping(void *at, size_t bytes, uint64_t file)
{
    struct mapping *map = mappings;
    while (map < mappings + MAPPINGS && map->at)
        map++;
    uint8_t *copy = map < mappings + MAPPINGS ? malloc(bytes) : NULL;
    if (!copy)
        abort();
    memcpy(copy, at, bytes);
    *map = (struct mapping){at, bytes, file, copy};
}

static struct mapping *mapping_at(const void *at)
{
    for (struct mapping *map = mappings; map < mappings + MAPPINGS; map++) {
        if (map->at && map->at == at)
            return map;
    }
    return NULL;
}

void *mmap(void *wish, size_t bytes, int protection, int flags, int descriptor, off_t offset)
{
    char path[PATH_MAX];
    struct stat status;
    void *at = (void *)syscall(SYS_mmap, wish, bytes, protection, flags, descriptor, offset);
    bool shared = (flags & MAP_SHARED) && (protection & PROT_WRITE) && descriptor >= 0;
    if (at == MAP_FAILED || !shared || !is_ours(descriptor, path) || !stat_of(descriptor, &status))
        return at;
    if (offset != 0)
        abort(); /* nobody does, and the log has no word for it */
    pthread_mutex_lock(&lock);
    add_mapping(at, bytes, status.st_ino);
    pthread_mutex_unlock(&lock);
    return at;
}

void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...)
{
    pthread_mutex_lock(&lock);
    struct mapping *map = mapping_at(old);
    if (map)
        put_stores();
    void *at = (void *)syscall(SYS_mremap, old, old_bytes, bytes, flags, NULL);
    if (map && at != MAP_FAILED) {
        uint64_t file = map->file;
        free(map->copy);
        map->at = NULL;
        add_mapping(at, bytes, file);
    }
    pthread_mutex_unlock(&lock);
    return at;
}

int munmap(void *at, size_t bytes)
{
    pthread_mutex_lock(&lock);
    struct mapping *map = mapping_at(at);
    if (map) {
        put_stores();
        free(map->copy);
        map->at = NULL;
    }
    return (int)leave(syscall(SYS_munmap, at, bytes));
}

/* ---- names -------------------------------------------------------------- */

static int name_and_log(enum kind kind, int from_at, const char *from, int to_at, const char *to,
                        unsigned flags)
{
    char from_path[PATH_MAX];
    char to_path[PATH_MAX];
    long call = kind == RENAME ? SYS_renameat2 : SYS_linkat;
    bool ours = resolve(from_at, from, from_path) & resolve(to_at, to, to_path);
    if (!ours)
        return (int)syscall(call, from_at, from, to_at, to, flags);
    enter_change();
    long failed = syscall(call, from_at, from, to_at, to, flags);
    if (!failed)
        put_paths(kind, 0, from_path, to_path);
    return (int)leave(failed);
}

int rename(const char *from, const char *to)
{
    return name_and_log(RENAME, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_at, const char *from, int to_at, const char *to)
{
    return name_and_log(RENAME, from_at, from, to_at, to, 0);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    return name_and_log(RENAME, from_at, from, to_at, to, flags);
}

int link(const char *from, const char *to)
{
    return name_and_log(LINK, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags)
{
    return name_and_log(LINK, from_at, from, to_at, to, (unsigned)flags);
}

int unlinkat(int at, const char *name, int flags)
{
    char path[PATH_MAX];
    if (!resolve(at, name, path))
        return (int)syscall(SYS_unlinkat, at, name, flags);
    enter_change();
    long failed = syscall(SYS_unlinkat, at, name, flags);
    if (!failed)
        put_paths(UNLINK, 0, path, NULL);
    return (int)leave(failed);
}

int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}

int rmdir(const char *name)
{
    return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}

int mkdirat(int at, const char *name, mode_t mode)
{
    char path[PATH_MAX];
    struct stat status;
    if (!resolve(at, name, path))
        return (int)syscall(SYS_mkdirat, at, name, mode);
    enter_change();
    long failed = syscall(SYS_mkdirat, at, name, mode);
    if (!failed && fstatat(at, name, &status, 0) == 0)
        put_paths(FOLDER, status.st_ino, path, NULL);
    return (int)leave(failed);
}

int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}

/* ---- the end ------------------------------------------------------------ */

__attribute__((destructor)) static void end(void)
{
    if (log_descriptor < 0)
        return;
    enter();
    put(&(struct record){.kind = ENDED}, NULL, NULL);
    leave(0);
}

/* ---- the same under other names ----------------------------------------- */

int open64(const char *name, int flags, ...) ALSO(open);
int openat64(int at, const char *name, int flags, ...) ALSO(openat);
int creat64(const char *name, mode_t mode) ALSO(creat);
int __open64_2(const char *name, int flags) ALSO(__open_2);
int __openat64_2(int at, const char *name, int flags) ALSO(__openat_2);
ssize_t pwrite64(int descriptor, const void *bytes, size_t length, off_t offset) ALSO(pwrite);
ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off_t offset) ALSO(pwritev);
ssize_t pwritev64v2(int descriptor, const struct iovec *parts, int count, off_t offset, int flags)
    ALSO(pwritev2);
int ftruncate64(int descriptor, off_t bytes) ALSO(ftruncate);
int truncate64(const char *name, off_t bytes) ALSO(truncate);
int fallocate64(int descriptor, int mode, off_t offset, off_t bytes) ALSO(fallocate);
int posix_fallocate64(int descriptor, off_t offset, off_t bytes) ALSO(posix_fallocate);
void *mmap64(void *wish, size_t bytes, int protection, int flags, int descriptor, off_t offset)
    ALSO(mmap);
