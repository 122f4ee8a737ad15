/* SPDX-License-Identifier: MIT */
/*
 * Which tests meet threads. A program without a sanitizer notes their names in a file of its own in
 * the folder that TOMBOLA_THREADS names. ThreadSanitizer has nothing to say of the others: where
 * there is a note, its build runs these alone, unless the suite may take long.
 *
 * A test meets threads if it, or a child of it, starts one, or if one is left from before.
 */
#ifndef TESTS_UNIT_UNIT_THREADS_H
#define TESTS_UNIT_UNIT_THREADS_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Threads started so far, shared with children; NULL where nobody counts. */
static int *unit_started;

/* The program's note, opened as fopen() would; NULL if there is none, or nobody wants one. */
static inline FILE *unit_threads_open(const char *mode)
{
    char path[4096];
    const char *folder = getenv("TOMBOLA_THREADS");
    if (!folder || !folder[0])
        return NULL;
    snprintf(path, sizeof(path), "%s/%s", folder, program_invocation_short_name);
    return fopen(path, mode);
}

/* Is there a thread but the caller? */
static inline bool unit_threads_run(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != 3; /* ".", "..", the caller */
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static inline FILE *unit_threads_note(void)
{
    return NULL;
}
#else
/* Found before libc's by the program and by the libraries that it is linked with. */
__attribute__((weak)) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                         void *(*begin)(void *), void *argument)
{
    int (*start)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&start = dlsym(RTLD_NEXT, "pthread_create");
    if (unit_started)
        __atomic_fetch_add(unit_started, 1, __ATOMIC_RELAXED);
    return start(thread, attributes, begin, argument);
}

/* Begins to count, for a new note; NULL if nobody wants one. */
static inline FILE *unit_threads_note(void)
{
    void *shared =
        mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *note = shared == MAP_FAILED ? NULL : unit_threads_open("w");
    if (note) {
        setvbuf(note, NULL, _IOLBF, 0); /* nothing is left in it for children */
        unit_started = shared;
    }
    return note;
}
#endif

/* Is the test `name` in the note? True where there is none. */
static inline bool unit_threads_wanted(const char *name)
{
    char line[256];
    FILE *note = unit_threads_open("r");
    bool wanted = !note;
    while (!wanted && fgets(line, sizeof(line), note))
        wanted = strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == '\n';
    if (note)
        fclose(note);
    return wanted;
}

#endif
