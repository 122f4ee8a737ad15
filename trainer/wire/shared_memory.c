/* SPDX-License-Identifier: MIT */
#include "trainer/wire/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096 /* one for the key; gradient and values start on one */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static size_t part_bytes(size_t parameters)
{
    return (parameters * sizeof(float) + PAGE - 1) / PAGE * PAGE;
}

static size_t all_bytes(size_t parameters)
{
    return PAGE + 2 * part_bytes(parameters);
}

static enum error unavailable(const char *what)
{
    return error_set(ERROR_UNAVAILABLE, "no shared memory: %s: %s", what, strerror(errno));
}

/* The key is returned in *ret_key, which points into the memory. */
static enum error map(struct shared_memory *memory, int descriptor, size_t parameters,
                      uint64_t **ret_key)
{
    char *begin = mmap(NULL, all_bytes(parameters), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_POPULATE, descriptor, 0);
    if (begin == MAP_FAILED)
        return unavailable("mmap");
    *ret_key = (uint64_t *)(void *)begin;
    memory->gradient = (float *)(void *)(begin + PAGE);
    memory->values = (float *)(void *)(begin + PAGE + part_bytes(parameters));
    memory->parameters = parameters;
    return OK;
}

static enum error fill(struct shared_memory *memory, size_t parameters,
                       struct shared_memory_offer *ret_offer)
{
    uint64_t *key = NULL;
    int number = posix_fallocate(memory->descriptor, 0, (off_t)all_bytes(parameters));
    if (number != 0) {
        errno = number;
        return unavailable("no room");
    }
    if (fcntl(memory->descriptor, F_ADD_SEALS, SEALS) != 0)
        return unavailable("its size cannot be sealed");
    if (getrandom(ret_offer->key, sizeof(ret_offer->key), 0) != sizeof(ret_offer->key))
        return unavailable("getrandom");
    enum error error = map(memory, memory->descriptor, parameters, &key);
    if (!error)
        memcpy(key, ret_offer->key, sizeof(ret_offer->key));
    return error;
}

enum error shared_memory_make(struct shared_memory *memory, size_t parameters,
                              struct shared_memory_offer *ret_offer)
{
    *memory = (struct shared_memory){
        .descriptor = memfd_create("tombola-exchange", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (memory->descriptor < 0) {
        memory->descriptor = 0;
        return unavailable("memfd_create");
    }
    *ret_offer =
        (struct shared_memory_offer){.process = getpid(), .descriptor = memory->descriptor};
    enum error error = fill(memory, parameters, ret_offer);
    if (error)
        shared_memory_release(memory);
    return error;
}

/* A path in /proc may lead to a device: only a regular file is opened. */
static enum error open_offered(const struct shared_memory_offer *offer, size_t bytes,
                               int *ret_descriptor)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof(path), "/proc/%" PRId64 "/fd/%" PRId64, offer->process,
             offer->descriptor);
    if (stat(path, &status) != 0)
        return unavailable(path);
    if (!S_ISREG(status.st_mode) || status.st_size != (off_t)bytes)
        return error_set(ERROR_UNAVAILABLE, "no shared memory: %s is not of %zu bytes", path,
                         bytes);
    *ret_descriptor = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return *ret_descriptor < 0 ? unavailable(path) : OK;
}

/* Checks the seals before the size, so that it cannot change in between. */
static enum error check(int descriptor, size_t bytes)
{
    struct stat status;
    int seals = fcntl(descriptor, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(descriptor, &status) != 0 ||
        status.st_size != (off_t)bytes)
        return error_set(ERROR_UNAVAILABLE, "no shared memory: not a sealed file of %zu bytes",
                         bytes);
    return OK;
}

enum error shared_memory_take(struct shared_memory *memory, size_t parameters,
                              const struct shared_memory_offer *offer)
{
    int descriptor = -1;
    uint64_t *key = NULL;
    size_t bytes = all_bytes(parameters);
    *memory = (struct shared_memory){.gradient = NULL};
    enum error error = open_offered(offer, bytes, &descriptor);
    if (error)
        return error;
    error = check(descriptor, bytes);
    if (!error)
        error = map(memory, descriptor, parameters, &key);
    close(descriptor);
    if (error || memcmp(key, offer->key, sizeof(offer->key)) == 0)
        return error;
    shared_memory_release(memory);
    return error_set(ERROR_UNAVAILABLE, "no shared memory: another process has that number here");
}

void shared_memory_was_taken(struct shared_memory *memory)
{
    if (memory->descriptor > 0)
        close(memory->descriptor);
    memory->descriptor = 0;
}

void shared_memory_release(struct shared_memory *memory)
{
    shared_memory_was_taken(memory);
    if (memory->gradient)
        munmap((char *)(void *)memory->gradient - PAGE, all_bytes(memory->parameters));
    *memory = (struct shared_memory){.gradient = NULL};
}
