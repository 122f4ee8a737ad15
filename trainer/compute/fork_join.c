/* SPDX-License-Identifier: MIT */
#include "trainer/compute/fork_join.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/thread.h"

#define LOOKS 64 /* at the word, before the processor is offered to others */

/* The current work: a bit for each part that is taken, how many parts there are, and its number.
 * One word, so that a thread that was late cannot take a part of other work than it saw. */
#define PARTS_SHIFT FORK_JOIN_PARTS
#define NUMBER_SHIFT (PARTS_SHIFT + 8)

struct helper {
    struct fork_join *pool;
    pthread_t thread;
    unsigned index; /* from 1: the caller's is 0 */
};

struct fork_join {
    _Alignas(64) _Atomic uint64_t word;
    _Alignas(64) _Atomic unsigned done; /* parts of the current work */
    /* Written before `word`, read by those who took a part. */
    _Alignas(64) void *context;
    void (*part)(void *context, unsigned part);

    unsigned threads, started; /* `started` of `helpers` */
    struct helper helpers[FORK_JOIN_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t wake;
    _Atomic unsigned sleepers; /* changes under `lock` */
    _Atomic bool ending;
};

static void relax(void)
{
#if defined(__SSE2__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint64_t number_of(uint64_t word)
{
    return word >> NUMBER_SHIFT;
}

static unsigned parts_of(uint64_t word)
{
    return (unsigned)(word >> PARTS_SHIFT) & ((1 << (NUMBER_SHIFT - PARTS_SHIFT)) - 1);
}

/* Is it still to be done? It is the calling thread's from then on. */
static bool take(struct fork_join *pool, uint64_t number, unsigned part)
{
    uint64_t bit = UINT64_C(1) << part;
    uint64_t word = atomic_load_explicit(&pool->word, memory_order_relaxed);
    do {
        if (number_of(word) != number || word & bit)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&pool->word, &word, word | bit,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return true;
}

/* Its own share of the parts first, then those that others have not begun. */
static void work(struct fork_join *pool, uint64_t word, unsigned index)
{
    uint64_t number = number_of(word);
    unsigned parts = parts_of(word), first = index * parts / pool->threads;
    for (unsigned i = 0; i < parts; i++) {
        unsigned part = (first + i) % parts;
        if (!take(pool, number, part))
            continue;
        pool->part(pool->context, part);
        atomic_fetch_add_explicit(&pool->done, 1, memory_order_release);
    }
}

static bool has_news(struct fork_join *pool, uint64_t number)
{
    return number_of(atomic_load(&pool->word)) != number || atomic_load(&pool->ending);
}

static void sleep_until_news(struct fork_join *pool, uint64_t number)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!has_news(pool, number))
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void await_news(struct fork_join *pool, uint64_t number)
{
    int64_t end_ns = clock_now_ns() + FORK_JOIN_WATCH_NS;
    do {
        for (unsigned i = 0; i < LOOKS; i++) {
            if (has_news(pool, number))
                return;
            relax();
        }
        sched_yield();
    } while (clock_now_ns() < end_ns);
    sleep_until_news(pool, number);
}

static void *help(void *context)
{
    struct helper *self = context;
    struct fork_join *pool = self->pool;
    uint64_t word = 0;
    while (!atomic_load(&pool->ending)) {
        await_news(pool, number_of(word));
        word = atomic_load(&pool->word);
        work(pool, word, self->index);
    }
    return NULL;
}

enum error fork_join_new(unsigned threads, struct fork_join **ret_pool)
{
    struct fork_join *pool = aligned_alloc(64, sizeof(*pool));
    if (!pool)
        return error_set_memory(sizeof(*pool), "the threads that compute");
    *pool = (struct fork_join){.threads = threads};
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    enum error error = OK;
    while (!error && pool->started + 1 < threads) {
        struct helper *helper = &pool->helpers[pool->started];
        *helper = (struct helper){.pool = pool, .index = pool->started + 1};
        error = thread_start("compute", help, helper, &helper->thread);
        pool->started += !error;
    }
    if (error)
        fork_join_free(pool);
    else
        *ret_pool = pool;
    return error;
}

/* Wakes who sleeps, or is about to: they count themselves before they look at the word again, and
 * it was written before they are counted here. */
static void wake(struct fork_join *pool)
{
    if (!atomic_load(&pool->sleepers))
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

void fork_join_free(struct fork_join *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->ending, true);
    wake(pool);
    for (unsigned i = 0; i < pool->started; i++)
        pthread_join(pool->helpers[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

unsigned fork_join_threads(const struct fork_join *pool)
{
    return pool->threads;
}

void fork_join_run(struct fork_join *pool, unsigned parts,
                   void (*part)(void *context, unsigned part), void *context)
{
    if (pool->threads == 1 || parts < 2) {
        for (unsigned i = 0; i < parts; i++)
            part(context, i);
        return;
    }
    uint64_t number = number_of(atomic_load_explicit(&pool->word, memory_order_relaxed)) + 1;
    uint64_t word = number << NUMBER_SHIFT | (uint64_t)parts << PARTS_SHIFT;
    pool->part = part;
    pool->context = context;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_store(&pool->word, word);
    wake(pool);
    work(pool, word, 0);
    for (unsigned i = 0; atomic_load_explicit(&pool->done, memory_order_acquire) < parts; i++) {
        relax();
        if (i % LOOKS == LOOKS - 1)
            sched_yield();
    }
}
