/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a program (LD_PRELOAD), measures how long each mutex is held, by the place in the
 * program that locked it. At the end it writes a line for each into the file that LOCK_HOLDS names:
 *
 *     OFFSET MUTEX COUNT LONGEST_CPU_NS LONGEST_NS
 *
 * OFFSET is where the call returns to, in the program's own file (nm lists the functions there);
 * LONGEST_CPU_NS is processor time of the thread, so what else the machine does is not in it. A
 * wait on a condition ends a hold and begins another. What libraries lock is left out. SIGUSR1
 * forgets what was measured so far.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PLACES (1 << 20) /* the mutexes of 10,000 streams have many */
#define HELD_MOST 16
#define PROGRAM_BYTES ((uintptr_t)64 << 20) /* beyond are libraries */

struct place {
    _Atomic uintptr_t offset; /* 0: free */
    _Atomic uintptr_t mutex;
    _Atomic unsigned round; /* in which this was measured */
    _Atomic uint64_t count, longest_cpu_ns, longest_ns;
};

struct held {
    pthread_mutex_t *mutex;
    uintptr_t offset;
    uint64_t since_cpu_ns, since_ns;
};

static struct place places[PLACES];
static _Atomic unsigned current_round; /* SIGUSR1 begins another one */
static _Thread_local struct held helds[HELD_MOST];
static _Thread_local int held_count;
static uintptr_t base;

static int (*real_lock)(pthread_mutex_t *);
static int (*real_unlock)(pthread_mutex_t *);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t,
                             const struct timespec *);

static uint64_t now_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t before = atomic_load(most);
    while (before < value && !atomic_compare_exchange_weak(most, &before, value))
        ;
}

static struct place *place_of(uintptr_t offset, uintptr_t mutex)
{
    for (size_t i = (offset ^ mutex >> 4) % PLACES, left = PLACES; left > 0; left--) {
        uintptr_t none = 0;
        struct place *place = &places[i];
        if (atomic_compare_exchange_strong(&place->offset, &none, offset)) {
            atomic_store(&place->mutex, mutex);
            return place;
        }
        if (none == offset && atomic_load(&place->mutex) == mutex)
            return place;
        i = (i + 1) % PLACES;
    }
    return NULL;
}

static void begin_hold(pthread_mutex_t *mutex, uintptr_t offset)
{
    if (offset < PROGRAM_BYTES && held_count < HELD_MOST)
        helds[held_count++] = (struct held){
            .mutex = mutex,
            .offset = offset,
            .since_cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID),
            .since_ns = now_ns(CLOCK_MONOTONIC),
        };
}

/* Returns where it was locked. */
static uintptr_t end_hold(const pthread_mutex_t *mutex)
{
    int at = held_count - 1;
    while (at >= 0 && helds[at].mutex != mutex)
        at--;
    if (at < 0)
        return UINTPTR_MAX;
    const struct held held = helds[at];
    uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - held.since_cpu_ns;
    struct place *place = place_of(held.offset, (uintptr_t)mutex);
    if (place) {
        unsigned round = atomic_load(&current_round);
        if (atomic_exchange(&place->round, round) != round)
            place->count = place->longest_cpu_ns = place->longest_ns = 0;
        atomic_fetch_add(&place->count, 1);
        raise_to(&place->longest_cpu_ns, cpu_ns);
        raise_to(&place->longest_ns, now_ns(CLOCK_MONOTONIC) - held.since_ns);
    }
    for (held_count--; at < held_count; at++)
        helds[at] = helds[at + 1];
    return held.offset;
}

static void forget(int signal)
{
    (void)signal; /* its thread may hold a mutex */
    atomic_fetch_add(&current_round, 1);
}

__attribute__((constructor)) static void prepare(void)
{
    const struct link_map *program;
    *(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    *(void **)&real_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    *(void **)&real_wait = dlsym(RTLD_NEXT, "pthread_cond_wait");
    *(void **)&real_clockwait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    program = dlopen(NULL, RTLD_LAZY);
    base = program->l_addr;
    (void)signal(SIGUSR1, forget);
}

__attribute__((destructor)) static void report(void)
{
    FILE *out = fopen(getenv("LOCK_HOLDS"), "w");
    for (size_t i = 0; out && i < PLACES; i++) {
        if (places[i].count > 0 && places[i].round == current_round)
            fprintf(out, "%lx %lx %lu %lu %lu\n", (unsigned long)places[i].offset,
                    (unsigned long)places[i].mutex, (unsigned long)places[i].count,
                    (unsigned long)places[i].longest_cpu_ns, (unsigned long)places[i].longest_ns);
    }
    if (out)
        fclose(out);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    if (!real_lock)
        prepare();
    int status = real_lock(mutex);
    begin_hold(mutex, caller - base);
    return status;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (!real_unlock)
        prepare();
    (void)end_hold(mutex);
    return real_unlock(mutex);
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    uintptr_t offset = end_hold(mutex);
    int status = real_wait(condition, mutex);
    begin_hold(mutex, offset);
    return status;
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *deadline)
{
    uintptr_t offset = end_hold(mutex);
    int status = real_clockwait(condition, mutex, clock, deadline);
    begin_hold(mutex, offset);
    return status;
}
