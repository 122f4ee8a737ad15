/*
 * Kernels. One block runs at a time; its threads take turns as fibers and change places only where
 * they wait for each other. A fiber runs one thread after the other and is only given up where one
 * waits, so that kernels without barriers cost no switches. Every other launch runs the threads
 * from the last to the first, so that results that hang on their order show.
 *
 * A block whose threads wait for each other at different places ends the program.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "emulator.h"

/* AddressSanitizer's, in programs that have it: told of each change of stacks. */
void __sanitizer_start_switch_fiber(void **ret_fake_stack, const void *bottom, size_t bytes)
    __attribute__((weak));
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **ret_bottom, size_t *ret_bytes)
    __attribute__((weak));

#define THREADS_LIMIT 1024
#define WARP 32
#define STACK_BYTES (256 << 10)

enum waits { AT_NOTHING, AT_BARRIER, AT_WARP };

struct fiber {
    ucontext_t context;
    void *stack, *fake_stack;
    unsigned int thread;
    enum waits waits;
};

struct launch {
    struct emulated_size grid, block;
    void (*body)(void *closure);
    bool backwards;
    _Alignas(16) char closure[];
};

struct emulated_size threadIdx, blockIdx, blockDim, gridDim;

/* The block that runs, under `lock`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct launch *launch;
static unsigned int threads, begun, ended;
static struct fiber fibers[THREADS_LIMIT], *running;
static double given[THREADS_LIMIT], exchanged[THREADS_LIMIT];
static ucontext_t scheduler;
static const void *scheduler_stack;
static size_t scheduler_stack_bytes;

/* ---- fibers ------------------------------------------------------------- */

static void point_at(unsigned int thread)
{
    threadIdx.x = thread % blockDim.x;
    threadIdx.y = thread / blockDim.x % blockDim.y;
    threadIdx.z = thread / blockDim.x / blockDim.y;
}

static void leave(void **ret_fake_stack, const void *bottom, size_t bytes)
{
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(ret_fake_stack, bottom, bytes);
}

static void arrive(void *fake_stack, const void **ret_bottom, size_t *ret_bytes)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(fake_stack, ret_bottom, ret_bytes);
}

static void give_up(struct fiber *self)
{
    leave(&self->fake_stack, scheduler_stack, scheduler_stack_bytes);
    swapcontext(&self->context, &scheduler);
    arrive(self->fake_stack, &scheduler_stack, &scheduler_stack_bytes);
}

/* Threads that have not begun, one after the other; for ever, because it is used again. */
static void run_threads(void)
{
    struct fiber *self = running;
    arrive(NULL, &scheduler_stack, &scheduler_stack_bytes);
    for (;;) {
        while (begun < threads) {
            self->thread = launch->backwards ? threads - 1 - begun : begun;
            begun++;
            point_at(self->thread);
            launch->body(launch->closure);
            ended++;
        }
        self->waits = AT_NOTHING;
        give_up(self);
    }
}

static void prepare(struct fiber *fiber)
{
    if (fiber->stack)
        return;
    fiber->stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fiber->stack == MAP_FAILED)
        emulated_abort("no memory for a thread's stack");
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&fiber->context, run_threads, 0);
}

static void resume(struct fiber *fiber)
{
    void *fake_stack = NULL;
    prepare(fiber);
    fiber->waits = AT_NOTHING;
    running = fiber;
    point_at(fiber->thread);
    leave(&fake_stack, fiber->stack, STACK_BYTES);
    swapcontext(&scheduler, &fiber->context);
    arrive(fake_stack, NULL, NULL);
}

static void wait_at(enum waits place)
{
    struct fiber *self = running;
    self->waits = place;
    give_up(self);
}

/* ---- a block ------------------------------------------------------------ */

static unsigned int count_waiting(unsigned int used, enum waits place, unsigned int first,
                                  unsigned int beyond)
{
    unsigned int waiting = 0;
    for (unsigned int i = 0; i < used; i++)
        waiting +=
            fibers[i].waits == place && fibers[i].thread >= first && fibers[i].thread < beyond;
    return waiting;
}

static void release(unsigned int used, enum waits place, unsigned int first, unsigned int beyond)
{
    bool is_ready[THREADS_LIMIT];
    for (unsigned int i = 0; i < used; i++)
        is_ready[i] =
            fibers[i].waits == place && fibers[i].thread >= first && fibers[i].thread < beyond;
    for (unsigned int i = 0; i < used; i++) {
        if (is_ready[i])
            resume(&fibers[i]);
    }
}

/* Lets those go on who have all come to where they wait for each other; false: nobody could. */
static bool go_on(unsigned int used)
{
    bool moved = false;
    for (unsigned int first = 0; first < threads; first += WARP) {
        unsigned int beyond = first + WARP < threads ? first + WARP : threads;
        if (count_waiting(used, AT_WARP, first, beyond) < beyond - first)
            continue;
        memcpy(&exchanged[first], &given[first], (beyond - first) * sizeof(*given));
        release(used, AT_WARP, first, beyond);
        moved = true;
    }
    unsigned int at_barrier = count_waiting(used, AT_BARRIER, 0, threads);
    if (at_barrier > 0 && at_barrier == threads - ended) {
        release(used, AT_BARRIER, 0, threads);
        moved = true;
    }
    return moved;
}

static void run_block(void)
{
    unsigned int used = 0;
    begun = ended = 0;
    while (begun < threads)
        resume(&fibers[used++]);
    while (ended < threads) {
        if (!go_on(used))
            emulated_abort("threads of a block wait for each other at different places");
    }
}

static void run(void *closure)
{
    pthread_mutex_lock(&lock);
    launch = closure;
    gridDim = launch->grid;
    blockDim = launch->block;
    threads = blockDim.x * blockDim.y * blockDim.z;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
                run_block();
    pthread_mutex_unlock(&lock);
}

/* ---- what kernels call -------------------------------------------------- */

void emulated_barrier(void)
{
    wait_at(AT_BARRIER);
}

double emulated_exchange(double gives, unsigned int of)
{
    unsigned int thread = running->thread;
    given[thread] = gives;
    wait_at(AT_WARP);
    return exchanged[thread - thread % WARP + of];
}

int emulated_all(int holds)
{
    unsigned int thread = running->thread, first = thread - thread % WARP;
    int all = 1;
    given[thread] = holds != 0;
    wait_at(AT_WARP);
    for (unsigned int i = first; i < first + WARP && i < threads; i++)
        all = all && exchanged[i] != 0;
    return all;
}

/* ---- launches ----------------------------------------------------------- */

void emulated_launch(struct emulated_size grid, struct emulated_size block, cudaStream_t stream,
                     void (*body)(void *closure), const void *closure, size_t closure_bytes)
{
    static _Atomic unsigned int launches;
    size_t size = (size_t)block.x * block.y * block.z;
    if (size == 0 || size > THREADS_LIMIT || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
        grid.y > UINT16_MAX || grid.z > UINT16_MAX) {
        emulated_note(cudaErrorInvalidConfiguration);
        return;
    }
    struct launch *made = malloc(sizeof(*made) + closure_bytes);
    if (!made)
        emulated_abort("no memory for a launch");
    *made = (struct launch){
        .grid = grid, .block = block, .body = body, .backwards = launches++ % 2 == 1};
    memcpy(made->closure, closure, closure_bytes);
    emulated_enqueue(stream, run, made, sizeof(*made) + closure_bytes);
    free(made);
}
