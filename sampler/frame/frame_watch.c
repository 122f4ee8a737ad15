/* SPDX-License-Identifier: MIT */
#include "sampler/frame/frame_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/bus_error.h"
#include "common/log.h"

#define ROOM_MS 1000
#define ADVICE                                                                                  \
    "a frame that is served must not change: write a new file and rename it over the old one, " \
    "as `tombola-sampler build --out` does"

struct frame_watch {
    const char *path; /* borrowed */
    int descriptor;   /* borrowed */
    struct file_identity identity;
    bool is_leased;
    const char *bytes;
    size_t size;
    char *last_words; /* owned: the SIGBUS handler's message */
    size_t last_words_bytes;
    _Atomic(struct frame_watch *) next;
};

static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct frame_watch *) first; /* read by the handler, without the mutex */
static struct sigaction before;             /* of SIGBUS */

/* ---- SIGBUS ------------------------------------------------------------- */

/* In a signal handler: async-signal-safe calls only. */
static void on_bus_error(int number, siginfo_t *facts, void *context)
{
    const char *address = bus_error_address(facts);
    for (struct frame_watch *watch = atomic_load(&first); watch;
         watch = atomic_load(&watch->next)) {
        if (address < watch->bytes || address >= watch->bytes + watch->size)
            continue;
        /* A full pipe whose reader has stopped must not keep the process. */
        struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (poll(&room, 1, ROOM_MS) != 0 &&
            write(STDERR_FILENO, watch->last_words, watch->last_words_bytes) < 0)
            _exit(error_exit_status(ERROR_INPUT)); /* nobody listens */
        _exit(error_exit_status(ERROR_INPUT));
    }
    bus_error_pass(&before, number, facts, context);
}

static void install(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&ignore.sa_mask);
    if (sigaction(SIGIO, &ignore, NULL))
        log_debug("signals of watched frames: %s", strerror(errno));
    bus_error_install(on_bus_error, &before);
}

/* ---- the list ----------------------------------------------------------- */

static void add(struct frame_watch *watch)
{
    pthread_mutex_lock(&changing);
    atomic_store(&watch->next, atomic_load(&first));
    atomic_store(&first, watch);
    pthread_mutex_unlock(&changing);
}

static void take_out(const struct frame_watch *watch)
{
    pthread_mutex_lock(&changing);
    _Atomic(struct frame_watch *) *at = &first;
    while (atomic_load(at) && atomic_load(at) != watch)
        at = &atomic_load(at)->next;
    if (atomic_load(at))
        atomic_store(at, atomic_load(&watch->next));
    pthread_mutex_unlock(&changing);
}

/* ---- life --------------------------------------------------------------- */

static enum error prepare_last_words(struct frame_watch *watch)
{
    char text[ERROR_MESSAGE_BYTES];
    snprintf(text, sizeof(text) - 1,
             "tombola-sampler serve: %s was cut off while it was served, or its disk cannot be "
             "read; " ADVICE,
             watch->path);
    size_t length = strlen(text);
    text[length++] = '\n';
    text[length] = '\0';
    watch->last_words = strdup(text);
    watch->last_words_bytes = length;
    return watch->last_words ? OK : error_set_memory(length, "a message");
}

/* Refused by network file systems, to non-owners, and while a writer has the file open. */
static void take_lease(struct frame_watch *watch)
{
    watch->is_leased = fcntl(watch->descriptor, F_SETLEASE, F_RDLCK) == 0;
    if (!watch->is_leased)
        log_debug("no lease of %s: %s", watch->path, strerror(errno));
}

enum error frame_watch_new(const char *path, int descriptor, const struct file_identity *identity,
                           const void *bytes, size_t size, struct frame_watch **ret_watch)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct frame_watch *watch = array_new(1, sizeof(*watch), "a frame's watch");
    if (!watch)
        return ERROR_MEMORY;
    watch->path = path;
    watch->descriptor = descriptor;
    watch->identity = *identity;
    watch->bytes = bytes;
    watch->size = size;
    enum error error = prepare_last_words(watch);
    if (error) {
        free(watch);
        return error;
    }
    pthread_once(&once, install);
    take_lease(watch);
    add(watch);
    *ret_watch = watch;
    return OK;
}

void frame_watch_free(struct frame_watch *watch)
{
    if (!watch)
        return;
    take_out(watch);
    if (watch->is_leased)
        (void)fcntl(watch->descriptor, F_SETLEASE, F_UNLCK);
    free(watch->last_words);
    free(watch);
}

enum error frame_watch_check(const struct frame_watch *watch)
{
    struct file_identity now;
    if (watch->is_leased && fcntl(watch->descriptor, F_GETLEASE) == F_UNLCK)
        return error_set(ERROR_INPUT, "%s is being written to; " ADVICE, watch->path);
    if (file_identity_of(watch->descriptor, watch->path, &now))
        return OK; /* ESTALE, EIO: the file may be back soon, and cannot be judged until then */
    if (!file_identity_equal(&watch->identity, &now))
        return error_set(ERROR_INPUT, "%s was written to while it was served; " ADVICE,
                         watch->path);
    return OK;
}
