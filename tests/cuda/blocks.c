/* SPDX-License-Identifier: MIT */
/*
 * Kernels. One block runs at a time; its threads take turns as fibers and change places only where
 * they wait for each other. A fiber runs one thread after the other and is only given up where one
 * waits, so that kernels without barriers cost no switches. Every other launch takes blocks and
 * threads from the last to the first, so that results that depend on their order show.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulator.h"

/* AddressSanitizer's, in programs that have it: told of each change of stacks. */
void __sanitizer_start_switch_fiber(void **ret_fake_stack, const void *bottom, size_t bytes)
    __attribute__((weak));
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **ret_bottom, size_t *ret_bytes)
    __attribute__((weak));

/* Of compute capability 7.0 and later. */
#define THREADS_LIMIT 1024
#define BLOCK_Z_LIMIT 64
#define GRID_YZ_LIMIT 65535
#define SHARED_LIMIT ((size_t)48 << 10)
#define WARP 32
#define VARIABLES_LIMIT 64
#define STACK_BYTES (64 << 10)

enum waits { AT_NOTHING, AT_BARRIER, AT_SHUFFLE, AT_BALLOT, AT_WARP_BARRIER };

struct fiber {
    void *stack, *top, *fake_stack; /* top: where it gave up */
    unsigned int thread;
};

/* A thread of the block, for those who meet it. */
struct thread {
    struct fiber *fiber; /* NULL: not begun, or ended */
    enum waits waits;
    unsigned int mask;     /* of lanes, while it waits for its warp */
    uint64_t gives, given; /* to the others; as it was when they met */
    unsigned int met;      /* lanes of the mask that had not ended then */
};

struct launch {
    struct emulated_size grid, block;
    void (*body)(void *closure);
    size_t shared_bytes;
    bool backwards;
    _Alignas(16) char closure[];
};

struct emulated_size threadIdx, blockIdx, blockDim, gridDim;

/* The block that runs. */
static struct launch *launch;
static unsigned int count, begun, ended;
static struct fiber fibers[THREADS_LIMIT], *running;
static struct thread threads[THREADS_LIMIT];
static const void *variables[VARIABLES_LIMIT]; /* shared ones that it has come to */
static size_t variable_count, shared_bytes;
static void *scheduler_top;
static const void *scheduler_stack;
static size_t scheduler_stack_bytes;

/* ---- fibers ------------------------------------------------------------- */

#ifndef __x86_64__
#error "the emulated GPUs change stacks in x86-64's assembler"
#endif

/* Leaves this stack, its registers pushed and its top in *ret_top, for the one that was left with
 * `top`. swapcontext() would take twenty times as long: it asks the kernel for signals, and
 * AddressSanitizer then clears what it knows of the whole stack. */
void emulated_change_stack(void **ret_top, void *top);
__asm__(".text\n"
        "emulated_change_stack:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n");

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
    emulated_change_stack(&self->top, scheduler_top);
    arrive(self->fake_stack, &scheduler_stack, &scheduler_stack_bytes);
}

/* Threads that have not begun, one after the other; for ever, because it is used again. */
static void run_threads(void)
{
    struct fiber *self = running;
    arrive(NULL, &scheduler_stack, &scheduler_stack_bytes);
    for (;;) {
        while (begun < count) {
            self->thread = launch->backwards ? count - 1 - begun : begun;
            begun++;
            threads[self->thread].fiber = self;
            point_at(self->thread);
            launch->body(launch->closure);
            threads[self->thread].fiber = NULL;
            ended++;
        }
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
    /* As if it had been left just before run_threads(), which never returns: six registers. */
    void **top = (void **)((char *)fiber->stack + STACK_BYTES) - 2;
    *top = (void *)run_threads;
    fiber->top = top - 6;
}

static void resume(struct fiber *fiber)
{
    void *fake_stack = NULL;
    prepare(fiber);
    running = fiber;
    point_at(fiber->thread);
    leave(&fake_stack, fiber->stack, STACK_BYTES);
    emulated_change_stack(&scheduler_top, fiber->top);
    arrive(fake_stack, NULL, NULL);
}

static struct thread *wait_at(enum waits place)
{
    struct fiber *self = running;
    struct thread *thread = &threads[self->thread];
    thread->waits = place;
    give_up(self);
    return thread;
}

/* ---- a block ------------------------------------------------------------ */

/* Lets the waiting threads of first ... first + 31 go on whose bits are set. */
static void go_on(unsigned int first, unsigned int bits)
{
    for (unsigned int lane = 0; lane < WARP; lane++) {
        if (bits >> lane & 1)
            threads[first + lane].waits = AT_NOTHING;
    }
    for (unsigned int i = 0; i < WARP; i++) {
        unsigned int lane = launch->backwards ? WARP - 1 - i : i;
        if (bits >> lane & 1)
            resume(threads[first + lane].fiber);
    }
}

/* The lanes that thread `at` waits for and that have not ended; 0: not all wait there yet. */
static unsigned int find_met(unsigned int first, const struct thread *at)
{
    unsigned int met = 0;
    for (unsigned int lane = 0; lane < WARP; lane++) {
        const struct thread *other = &threads[first + lane];
        if (!(at->mask >> lane & 1) || first + lane >= count || !other->fiber)
            continue;
        if (other->waits != at->waits || other->mask != at->mask)
            return 0;
        met |= 1u << lane;
    }
    return met;
}

static bool meet_in_warp(unsigned int first)
{
    for (unsigned int at = first; at < first + WARP && at < count; at++) {
        if (!threads[at].fiber || threads[at].waits < AT_SHUFFLE)
            continue;
        unsigned int met = find_met(first, &threads[at]);
        for (unsigned int lane = 0; lane < WARP; lane++) {
            if (!(met >> lane & 1))
                continue;
            threads[first + lane].given = threads[first + lane].gives;
            threads[first + lane].met = met;
        }
        if (met != 0) {
            go_on(first, met);
            return true;
        }
    }
    return false;
}

static bool meet_in_block(void)
{
    unsigned int waiting = 0, bits[THREADS_LIMIT / WARP] = {0};
    for (unsigned int at = 0; at < count; at++) {
        bool waits = threads[at].fiber && threads[at].waits == AT_BARRIER;
        bits[at / WARP] |= (unsigned int)waits << at % WARP;
        waiting += waits;
    }
    if (waiting == 0 || waiting < count - ended)
        return false;
    unsigned int warps = (count + WARP - 1) / WARP;
    for (unsigned int i = 0; i < warps; i++) {
        unsigned int warp = launch->backwards ? warps - 1 - i : i;
        go_on(warp * WARP, bits[warp]);
    }
    return true;
}

/* Lets those go on who have all come to where they wait for each other; false: nobody could. */
static bool meet(void)
{
    bool moved = false;
    for (unsigned int first = 0; first < count; first += WARP) {
        while (meet_in_warp(first))
            moved = true;
    }
    return meet_in_block() || moved;
}

static void run_block(void)
{
    unsigned int used = 0;
    begun = ended = 0;
    variable_count = 0;
    shared_bytes = launch->shared_bytes;
    while (begun < count)
        resume(&fibers[used++]);
    while (ended < count) {
        if (!meet())
            emulated_abort("threads of a block wait for each other at different places");
    }
}

static void run(void *closure)
{
    launch = closure;
    gridDim = launch->grid;
    blockDim = launch->block;
    count = blockDim.x * blockDim.y * blockDim.z;
    size_t blocks = (size_t)gridDim.x * gridDim.y * gridDim.z;
    for (size_t i = 0; i < blocks; i++) {
        size_t block = launch->backwards ? blocks - 1 - i : i;
        blockIdx.x = block % gridDim.x;
        blockIdx.y = block / gridDim.x % gridDim.y;
        blockIdx.z = block / gridDim.x / gridDim.y;
        run_block();
    }
}

/* ---- what kernels call -------------------------------------------------- */

void emulated_barrier(void)
{
    wait_at(AT_BARRIER);
}

static struct thread *wait_for_lanes(enum waits place, unsigned int mask, uint64_t gives)
{
    struct thread *self = &threads[running->thread];
    if (!(mask >> running->thread % WARP & 1))
        emulated_abort("a lane waits with a mask that it is not in");
    self->mask = mask;
    self->gives = gives;
    return wait_at(place);
}

uint64_t emulated_shuffle(unsigned int mask, uint64_t gives, unsigned int from_lane)
{
    const struct thread *self = wait_for_lanes(AT_SHUFFLE, mask, gives);
    if (!(self->met >> from_lane & 1))
        emulated_abort("a lane reads the value of one that is not there, or not in the mask");
    return (self - (self - threads) % WARP)[from_lane].given;
}

unsigned int emulated_ballot(unsigned int mask, int holds)
{
    const struct thread *self = wait_for_lanes(AT_BALLOT, mask, holds != 0);
    const struct thread *first = self - (self - threads) % WARP;
    unsigned int ballot = 0;
    for (unsigned int lane = 0; lane < WARP; lane++) {
        if (self->met >> lane & 1)
            ballot |= (unsigned int)first[lane].given << lane;
    }
    return ballot;
}

void emulated_warp_barrier(unsigned int mask)
{
    wait_for_lanes(AT_WARP_BARRIER, mask, 0);
}

void emulated_shared(void *variable, size_t bytes)
{
    for (size_t i = 0; i < variable_count; i++) {
        if (variables[i] == variable)
            return;
    }
    shared_bytes += bytes;
    if (shared_bytes > SHARED_LIMIT || variable_count == VARIABLES_LIMIT)
        emulated_abort("a block has more shared memory than there is");
    variables[variable_count++] = variable;
    memset(variable, EMULATED_GARBAGE, bytes);
}

/* ---- launches ----------------------------------------------------------- */

static cudaError_t check_size(struct emulated_size grid, struct emulated_size block, size_t shared)
{
    size_t size = (size_t)block.x * block.y * block.z;
    if (size == 0 || block.x > THREADS_LIMIT || block.y > THREADS_LIMIT ||
        block.z > BLOCK_Z_LIMIT || size > THREADS_LIMIT)
        return cudaErrorInvalidConfiguration;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT32_MAX || grid.y > GRID_YZ_LIMIT ||
        grid.z > GRID_YZ_LIMIT)
        return cudaErrorInvalidConfiguration;
    return shared > SHARED_LIMIT ? cudaErrorInvalidValue : cudaSuccess;
}

void emulated_launch(struct emulated_size grid, struct emulated_size block, size_t shared,
                     cudaStream_t stream, void (*body)(void *closure), const void *closure,
                     size_t closure_bytes, const void *const *pointers, size_t pointer_count)
{
    static _Atomic unsigned int launches;
    cudaError_t error = check_size(grid, block, shared);
    struct launch *made = malloc(sizeof(*made) + closure_bytes);
    if (!made)
        emulated_abort("no memory for a launch");
    *made = (struct launch){.grid = grid,
                            .block = block,
                            .body = body,
                            .shared_bytes = shared,
                            .backwards = launches++ % 2 == 1};
    memcpy(made->closure, closure, closure_bytes);
    if (!error)
        error = emulated_submit(stream, run, made, sizeof(*made) + closure_bytes, pointers,
                                pointer_count);
    free(made);
    emulated_begin_cleanup();
    emulated_end(error);
}
